//! A history as a picture: who held which lock when, how many waited, and what went wrong meanwhile.
//!
//! ```text
//!   faults   ▬▬ kill -9 ▬▬      ▬ pause      the same as bands over all that is below
//!   lock a   ████ ██ ██████     ███ ████     a bar per turn, in its client's colour
//!            ▁▂▂▃▃▃▂▁▁▂▅▆▇█▇▆▅▃▂▁▁▂▂▁▁▂▁     how many wait
//! ```
//!
//! It is one SVG file without scripts. Turns too short to be seen are drawn together, the darker the more
//! of the time the lock was held, so that it stays small however long the history is.

mod faults;
mod lane;
mod marks;
mod pen;
mod scale;
mod waiters;

use std::fmt::Write as _;

use crate::summary::title;
use crate::units::{GroupedNumber, Span};
use crate::{HistoryEvent, Op, Ops, Violation};
use lane::Lane;
use pen::{Pen, colour};
use scale::Scale;

/// Which part of a history to draw. By default all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zoom {
    /// From so long after its beginning.
    pub from_us: Option<u64>,
    /// Until so long after its beginning.
    pub to_us: Option<u64>,
}

/// No picture is larger, in bytes.
pub const SIZE_MAX: usize = 3_000_000;
/// More lanes than these nobody looks at: those with most turns are drawn.
const LANES_MAX: usize = 24;
/// In px.
const WIDTH: f64 = 1400.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 24.0;
const HEAD: f64 = 64.0;

/// Draws the history, with what was found in it. The events must be in the order of their times.
pub fn svg(events: &[HistoryEvent], violations: &[Violation], zoom: Zoom) -> String {
    let ops = Ops::of(events);
    let begin_us = events.first().map_or(0, |event| event.at_us);
    let end_us = events.last().map_or(0, |event| event.at_us);
    let from_us = begin_us.saturating_add(zoom.from_us.unwrap_or(0)).min(end_us);
    let until_us = zoom.to_us.map_or(end_us, |to_us| begin_us.saturating_add(to_us).min(end_us));
    let scale = Scale::new(begin_us, from_us, until_us.max(from_us + 1), LEFT, WIDTH - RIGHT);
    let mut least_px = 1.0;
    loop {
        let text = draw(events, &ops, violations, &scale, least_px);
        if text.len() < SIZE_MAX || least_px > WIDTH {
            return text;
        }
        least_px *= 2.0;
    }
}

fn draw(
    events: &[HistoryEvent],
    ops: &Ops<'_>,
    violations: &[Violation],
    scale: &Scale,
    least_px: f64,
) -> String {
    let faults = crate::invariants::faults(events);
    let mut pen = Pen::default();
    let strip = faults::Strip::of(&faults, scale, least_px);
    let top = HEAD + strip.height();
    let (lanes, left_out) = lanes(ops, top + 10.0);
    let bottom = lanes.last().map_or(top + 10.0, Lane::bottom) + 6.0;

    scale.grid(&mut pen, top, bottom);
    strip.bands(&mut pen, HEAD, bottom);
    for lane in &lanes {
        lane.draw(&mut pen, scale, least_px);
    }
    marks::draw(&mut pen, violations, &lanes, scale, (HEAD, bottom), least_px);
    let mut y = bottom + 34.0;
    if left_out > 0 {
        pen.text(LEFT, y, "s", &format!("and {left_out} more locks, with fewer turns"));
        y += 20.0;
    }
    y = strip.legend(&mut pen, LEFT, y, WIDTH - RIGHT);
    y = marks::legend(&mut pen, LEFT, y);

    let clients = ops.all.values().map(|op| op.client).collect();
    frame(pen, y + 6.0, &clients, &heading(events, violations, scale))
}

/// The lanes of the locks with most turns, by name, and how many more there are.
fn lanes<'a>(ops: &'a Ops<'a>, top: f64) -> (Vec<Lane<'a>>, usize) {
    let turns = |of_lock: &[&Op<'_>]| of_lock.iter().filter(|op| op.granted_us.is_some()).count();
    let mut locks: Vec<(&str, Vec<&Op<'_>>)> = ops.by_lock().into_iter().collect();
    locks.sort_by_key(|(_, of_lock)| std::cmp::Reverse(turns(of_lock)));
    let left_out = locks.len().saturating_sub(LANES_MAX);
    locks.truncate(LANES_MAX);
    locks.sort_by_key(|&(lock, _)| lock);
    let mut lanes: Vec<Lane<'_>> = Vec::new();
    for (lock, of_lock) in locks {
        let top = lanes.last().map_or(top, |lane| lane.bottom() + 14.0);
        lanes.push(Lane::new(lock, ops.kinds.get(lock).copied(), of_lock, top));
    }
    (lanes, left_out)
}

fn heading(events: &[HistoryEvent], violations: &[Violation], scale: &Scale) -> [String; 2] {
    let (excused, found): (Vec<_>, Vec<_>) =
        violations.iter().partition(|violation| violation.excused_by.is_some());
    let found = match found.len() {
        0 => "no violations".to_owned(),
        1 => "1 violation".to_owned(),
        more => format!("{} violations", GroupedNumber(more as u64)),
    };
    let mut words =
        format!("{} events, {}, {found}", GroupedNumber(events.len() as u64), scale.words());
    if !excused.is_empty() {
        let _ = write!(words, ", {} excused", GroupedNumber(excused.len() as u64));
    }
    [title(events), words]
}

/// Puts the picture together: size, colours, background, heading.
fn frame(
    pen: Pen,
    height: f64,
    clients: &std::collections::BTreeSet<u32>,
    [title, words]: &[String; 2],
) -> String {
    let mut text = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:.0}" height="{height:.0}" viewBox="0 0 {WIDTH:.0} {height:.0}" font-family="system-ui, sans-serif" font-size="12">
<style>
rect.bg {{ fill: #fdfdfb }} text {{ fill: #23272e }} text.s {{ fill: #6a7280; font-size: 11px }}
text.h {{ font-size: 18px; font-weight: 600 }} text.n {{ font-weight: 600 }}
text.l {{ font-size: 10px }} text.w {{ fill: #ffffff; font-size: 10px }}
.row {{ fill: #23272e; opacity: .06 }} .grid {{ stroke: #d9dde2; stroke-width: 1 }}
.band {{ opacity: .16 }} .fault {{ opacity: .45 }}
.many {{ fill: #46566e }} .read {{ opacity: .6 }} .lost {{ stroke: #23272e; stroke-dasharray: 2 1.5 }}
.wait {{ fill: #8fa3bd }} .bad {{ fill: #d40000; stroke: #ffffff; stroke-width: .7 }}
.badline {{ stroke: #d40000; stroke-width: 1 }} .maybe {{ fill: #ffffff; stroke: #c76b00; stroke-width: 1.5 }}
"#
    );
    for client in clients {
        let _ = writeln!(text, ".c{client} {{ fill: {} }}", colour(*client, 0.52, 0.46));
    }
    let mut head = Pen::default();
    head.text(20.0, 30.0, "h", title);
    head.text(20.0, 50.0, "s", words);
    let _ = write!(
        text,
        "</style>\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n{}{}</svg>\n",
        head.into_text(),
        pen.into_text()
    );
    text
}

/// From when until when, since the beginning.
fn times(scale: &Scale, from_us: u64, until_us: u64) -> String {
    let [from, until] = [from_us, until_us].map(|at_us| scale.since_us(at_us));
    format!("{} to {} ({})", scale::exact(from), scale::exact(until), Span(until - from))
}
