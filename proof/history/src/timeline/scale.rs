//! Where a time is in the picture, and the axis that says so.

use super::pen::{Pen, Px};
use crate::units::Span;

/// The number of ticks that is easy to read.
const TICKS: u64 = 12;

pub(super) struct Scale {
    begin_us: u64,
    pub(super) from_us: u64,
    pub(super) until_us: u64,
    pub(super) left: f64,
    pub(super) right: f64,
}

impl Scale {
    pub(super) fn new(begin_us: u64, from_us: u64, until_us: u64, left: f64, right: f64) -> Self {
        Self { begin_us, from_us, until_us, left, right }
    }

    /// What is out of the picture is at its edge.
    pub(super) fn x(&self, at_us: u64) -> f64 {
        let at_us = at_us.clamp(self.from_us, self.until_us) - self.from_us;
        self.left + at_us as f64 / self.px_us()
    }

    /// How long a px is.
    pub(super) fn px_us(&self) -> f64 {
        (self.until_us - self.from_us) as f64 / (self.right - self.left)
    }

    pub(super) fn since_us(&self, at_us: u64) -> u64 {
        at_us.saturating_sub(self.begin_us)
    }

    /// Is any of this time in the picture?
    pub(super) fn shows(&self, from_us: u64, until_us: u64) -> bool {
        from_us <= self.until_us && until_us >= self.from_us
    }

    pub(super) fn words(&self) -> String {
        let [from, until] = [self.from_us, self.until_us].map(|at_us| exact(self.since_us(at_us)));
        format!("{} from {from} to {until}", Span(self.until_us - self.from_us))
    }

    /// Lines from top to bottom, each with its time.
    pub(super) fn grid(&self, pen: &mut Pen, top: f64, bottom: f64) {
        let step_us = self.step_us();
        let mut since_us = self.since_us(self.from_us).next_multiple_of(step_us);
        while self.begin_us + since_us <= self.until_us {
            let x = self.x(self.begin_us + since_us);
            let (top, end) = (Px(top), Px(bottom + 4.0));
            pen.path("grid", &format!("M{} {top}V{end}", Px(x)), "");
            let anchor = if x + 20.0 > self.right { "end" } else { "middle" };
            pen.text_at(x, bottom + 18.0, "s", anchor, &self.tick(since_us, step_us));
            since_us += step_us;
        }
    }

    /// 1, 2 or 5 of something; and what a clock has, if it is long.
    fn step_us(&self) -> u64 {
        let least_us = (self.until_us - self.from_us) / TICKS;
        let decades = (0..=7).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
        let clock = [15, 30, 60, 120, 300, 600, 1800, 3600].map(|seconds| seconds * 1_000_000);
        let below = decades.filter(|&step_us| step_us <= 10_000_000);
        below.chain(clock).find(|&step_us| step_us >= least_us).unwrap_or(least_us.max(1))
    }

    fn tick(&self, since_us: u64, step_us: u64) -> String {
        let seconds = since_us / 1_000_000;
        match step_us {
            0..1_000 => format!("{since_us} µs"),
            1_000..1_000_000 if self.since_us(self.until_us) < 3_000_000 => {
                format!("{} ms", since_us / 1_000)
            }
            1_000..1_000_000 => format!("{} s", since_us as f64 / 1e6),
            _ if self.since_us(self.until_us) >= 180_000_000 => match seconds % 60 {
                0 => format!("{} min", seconds / 60),
                rest => format!("{}:{rest:02}", seconds / 60),
            },
            _ => format!("{seconds} s"),
        }
    }
}

/// A time since the beginning, to the ms.
pub(super) fn exact(since_us: u64) -> String {
    format!("{}.{:03} s", since_us / 1_000_000, since_us / 1_000 % 1_000)
}
