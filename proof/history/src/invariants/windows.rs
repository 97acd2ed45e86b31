//! Times in which something was wrong.

use std::collections::BTreeMap;
use std::fmt;

use super::Guarantee;
use crate::{Event, What};

/// Something that went wrong, from when and until when. One without an end was over at once; but a
/// client that is never heard of again stays stopped until the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault<'a> {
    pub(crate) kind: &'a str,
    pub(crate) on: Target<'a>,
    pub(crate) from_us: u64,
    pub(crate) until_us: u64,
    pub(crate) excuses: &'a [Guarantee],
}

/// To what or whom it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target<'a> {
    Named(&'a str),
    Client(u32),
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(on) => f.write_str(on),
            Self::Client(client) => write!(f, "client {client}"),
        }
    }
}

impl fmt::Display for Fault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.kind, self.on)
    }
}

/// All faults, in the order in which they began.
pub(crate) fn faults(events: &[Event]) -> Vec<Fault<'_>> {
    let end_us = events.last().map_or(0, |event| event.at_us);
    let mut faults: Vec<Fault<'_>> = Vec::new();
    let mut open: BTreeMap<(&str, Target<'_>), usize> = BTreeMap::new();
    for event in events {
        let (begins, kind, on, excuses) = match &event.what {
            What::Fault { kind, on, excuses } => {
                (true, kind.as_str(), Target::Named(on), excuses.as_slice())
            }
            What::Mended { kind, on } => (false, kind.as_str(), Target::Named(on), [].as_slice()),
            What::Paused { client } => (true, "pause", Target::Client(*client), [].as_slice()),
            What::Resumed { client } => (false, "pause", Target::Client(*client), [].as_slice()),
            What::Died { client } => (true, "death", Target::Client(*client), [].as_slice()),
            _ => continue,
        };
        if begins {
            open.insert((kind, on), faults.len());
            let (from_us, until_us) = (event.at_us, event.at_us);
            faults.push(Fault { kind, on, from_us, until_us, excuses });
        } else if let Some(index) = open.remove(&(kind, on)) {
            faults[index].until_us = event.at_us;
        }
    }
    for ((kind, on), index) in open {
        if kind == "pause" && matches!(on, Target::Client(_)) {
            faults[index].until_us = end_us;
        }
    }
    faults
}

/// Times of which it can be told quickly whether another one meets them.
pub(crate) struct Windows {
    /// When each began, and when the last of those that began until then was over.
    by_start: Vec<(u64, u64)>,
}

impl Windows {
    pub(crate) fn of(mut times: Vec<(u64, u64)>) -> Self {
        times.sort_unstable();
        let mut last_us = 0;
        for (_, until_us) in &mut times {
            last_us = last_us.max(*until_us);
            *until_us = last_us;
        }
        Self { by_start: times }
    }

    pub(crate) fn meet(&self, from_us: u64, until_us: u64) -> bool {
        let begun = self.by_start.partition_point(|&(start_us, _)| start_us <= until_us);
        begun > 0 && self.by_start[begun - 1].1 >= from_us
    }
}
