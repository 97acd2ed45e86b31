//! What went wrong: a strip above all lanes that names it, and bands over them.

use std::collections::{BTreeMap, BTreeSet};

use super::pen::{Area, Pen, colour};
use super::scale::Scale;
use super::times;
use crate::invariants::FaultWindow;
use crate::units::{GroupedNumber, Span};

const ROWS_MAX: usize = 4;
/// In px.
const ROW: f64 = 13.0;
/// The least width of a fault, so that a short one stays visible.
const LEAST: f64 = 2.0;
/// Of a letter, at the size of these labels.
const LETTER: f64 = 5.4;

pub(super) struct Strip<'a> {
    kinds: BTreeMap<&'a str, FaultSummary>,
    shown: Vec<FaultMark<'a>>,
    rows: usize,
}

#[derive(Default)]
struct FaultSummary {
    colour: String,
    count: u64,
    total_us: u64,
}

struct FaultMark<'a> {
    kind: &'a str,
    x: f64,
    width: f64,
    /// `None` if there is no room for its name.
    row: Option<usize>,
    label: String,
    title: String,
}

impl<'a> Strip<'a> {
    /// Of several of one kind at one place only the first is drawn.
    pub(super) fn of(faults: &[FaultWindow<'a>], scale: &Scale, least_px: f64) -> Self {
        let mut strip = Self { kinds: BTreeMap::new(), shown: Vec::new(), rows: 0 };
        let mut free_x: Vec<f64> = Vec::new();
        let mut drawn: BTreeSet<(&str, u64, u64)> = BTreeSet::new();
        for fault in faults.iter().filter(|fault| scale.shows(fault.from_us, fault.until_us)) {
            let kind = strip.kinds.entry(fault.kind).or_default();
            kind.count += 1;
            kind.total_us += fault.until_us - fault.from_us;
            let x = scale.x(fault.from_us);
            let width = (scale.x(fault.until_us) - x).max(LEAST);
            let place = [x, width].map(|length| (length / least_px.max(LEAST)) as u64);
            if !drawn.insert((fault.kind, place[0], place[1])) {
                continue;
            }
            let label = fault.to_string();
            let needed = width.max(label.chars().count() as f64 * LETTER + 6.0);
            if free_x.len() < ROWS_MAX {
                free_x.push(scale.left);
            }
            let has_room = |&free: &f64| free <= x && x + needed <= scale.right + 8.0;
            let row = free_x.iter().position(has_room);
            if let Some(row) = row {
                free_x[row] = x + needed + 2.0;
                strip.rows = strip.rows.max(row + 1);
            }
            let title = format!("{fault}\n{}", times(scale, fault.from_us, fault.until_us));
            strip.shown.push(FaultMark { kind: fault.kind, x, width, row, label, title });
        }
        for (number, kind) in (0..).zip(strip.kinds.values_mut()) {
            kind.colour = colour(number, 0.8, 0.42);
        }
        strip
    }

    /// Below the rows with names is one for what has no room for its own.
    pub(super) fn height(&self) -> f64 {
        let nameless = self.shown.iter().any(|shown| shown.row.is_none());
        (self.rows + usize::from(nameless)) as f64 * ROW
    }

    /// Over everything from top to bottom, and solid in the strip.
    pub(super) fn bands(&self, pen: &mut Pen, top: f64, bottom: f64) {
        if !self.shown.is_empty() {
            pen.text(20.0, top + 10.0, "n", "faults");
        }
        let band_top = top + self.height() + 4.0;
        for FaultMark { kind, x, width, row, label, title } in &self.shown {
            let fill = format!(r#" fill="{}""#, self.kinds[kind].colour);
            let (x, width) = (*x, *width);
            let band = Area { x, y: band_top, width, height: bottom - band_top };
            pen.rect(band, "band", &fill, title);
            let y = top + row.unwrap_or(self.rows) as f64 * ROW;
            pen.rect(Area { x, y, width, height: ROW - 3.0 }, "fault", &fill, title);
            if row.is_some() {
                pen.text(x + 3.0, y + ROW - 5.0, "l", label);
            }
        }
    }

    /// Names all kinds, with how often and for how long. Says where it ends.
    pub(super) fn legend(&self, pen: &mut Pen, left: f64, mut y: f64, right: f64) -> f64 {
        let mut x = left;
        for (name, kind) in &self.kinds {
            let mut words = format!("{name} × {}", GroupedNumber(kind.count));
            if kind.total_us > 0 {
                words += &format!(", {}", Span(kind.total_us));
            }
            let width = words.chars().count() as f64 * 6.2 + 34.0;
            if x + width > right && x > left {
                (x, y) = (left, y + 18.0);
            }
            let fill = format!(r#" fill="{}" opacity="0.6""#, kind.colour);
            pen.rect(Area { x, y: y - 9.0, width: 12.0, height: 10.0 }, "", &fill, "");
            pen.text(x + 18.0, y, "s", &words);
            x += width;
        }
        if self.kinds.is_empty() { y } else { y + 20.0 }
    }
}
