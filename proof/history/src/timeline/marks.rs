//! What can't be, as marks where it was seen: full ones, and hollow ones for what has an excuse.

use std::collections::BTreeMap;

use super::lane::Lane;
use super::pen::{Pen, Px};
use super::scale::{Scale, exact};
use crate::Violation;

/// In px.
const SIZE: f64 = 6.0;

/// Those of one place are one mark, which says what the first of them is.
pub(super) fn draw(
    pen: &mut Pen,
    violations: &[Violation],
    lanes: &[Lane<'_>],
    scale: &Scale,
    (top, bottom): (f64, f64),
    least_px: f64,
) {
    let mut marks: BTreeMap<(bool, usize, u64), (u64, &Violation)> = BTreeMap::new();
    for violation in violations.iter().filter(|found| scale.shows(found.at_us, found.at_us)) {
        let lane = lanes.iter().position(|lane| lane.lock == violation.lock).unwrap_or(lanes.len());
        let column = (scale.x(violation.at_us) / least_px.max(2.0)) as u64;
        let found = violation.excused_by.is_none();
        marks.entry((found, lane, column)).or_insert((0, violation)).0 += 1;
    }
    for ((found, lane, _), (count, first)) in marks {
        let x = scale.x(first.at_us);
        let y = lanes.get(lane).map_or(bottom, |lane| lane.top);
        let mut title =
            format!("{first}\n{} after the beginning", exact(scale.since_us(first.at_us)));
        if count > 1 {
            title += &format!("\nand {} more here", count - 1);
        }
        if found {
            pen.path("badline", &format!("M{} {}V{}", Px(x), Px(top), Px(bottom)), "");
        }
        pen.path(if found { "bad" } else { "maybe" }, &triangle(x, y), &title);
    }
}

fn triangle(x: f64, y: f64) -> String {
    let (left, right, top) = (Px(x - SIZE), Px(x + SIZE), Px(y - SIZE * 1.6));
    format!("M{left} {top}H{right}L{} {}Z", Px(x), Px(y))
}

/// What the marks and bars mean. Says where it ends.
pub(super) fn legend(pen: &mut Pen, left: f64, y: f64) -> f64 {
    pen.path("bad", &triangle(left + 6.0, y), "");
    pen.text(left + 18.0, y, "s", "violation");
    pen.path("maybe", &triangle(left + 90.0, y), "");
    pen.text(left + 102.0, y, "s", "excused");
    let words = "bars: turns, in their client's colour, lost ones dashed; grey: turns too short to be \
                 drawn, darker where the lock was held for more of the time; below: who waits";
    pen.text(left + 170.0, y, "s", words);
    y + 12.0
}
