//! Times in which something was wrong.

use std::collections::BTreeMap;
use std::fmt;

use super::Guarantee;
use crate::{EventKind, HistoryEvent};

/// Something that went wrong, from when and until when. One without an end was over at once; but a
/// client that is never heard of again stays stopped until the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultWindow<'a> {
    pub(crate) kind: &'a str,
    pub(crate) on: FaultTarget<'a>,
    pub(crate) from_us: u64,
    pub(crate) until_us: u64,
    pub(crate) excuses: &'a [Guarantee],
}

/// To what or whom it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FaultTarget<'a> {
    Named(&'a str),
    Client(u32),
}

impl fmt::Display for FaultTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(on) => f.write_str(on),
            Self::Client(client) => write!(f, "client {client}"),
        }
    }
}

impl fmt::Display for FaultWindow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.kind, self.on)
    }
}

/// All faults, in the order in which they began.
pub(crate) fn faults(events: &[HistoryEvent]) -> Vec<FaultWindow<'_>> {
    let end_us = events.last().map_or(0, |event| event.at_us);
    let mut faults: Vec<FaultWindow<'_>> = Vec::new();
    let mut open: BTreeMap<(&str, FaultTarget<'_>), usize> = BTreeMap::new();
    for event in events {
        let (begins, kind, on, excuses) = match &event.what {
            EventKind::Fault { kind, on, excuses } => {
                (true, kind.as_str(), FaultTarget::Named(on), excuses.as_slice())
            }
            EventKind::Mended { kind, on } => {
                (false, kind.as_str(), FaultTarget::Named(on), [].as_slice())
            }
            EventKind::Paused { client } => {
                (true, "pause", FaultTarget::Client(*client), [].as_slice())
            }
            EventKind::Resumed { client } => {
                (false, "pause", FaultTarget::Client(*client), [].as_slice())
            }
            EventKind::Died { client } => {
                (true, "death", FaultTarget::Client(*client), [].as_slice())
            }
            _ => continue,
        };
        if begins {
            open.insert((kind, on), faults.len());
            let (from_us, until_us) = (event.at_us, event.at_us);
            faults.push(FaultWindow { kind, on, from_us, until_us, excuses });
        } else if let Some(index) = open.remove(&(kind, on)) {
            faults[index].until_us = event.at_us;
        }
    }
    for ((kind, on), index) in open {
        if kind == "pause" && matches!(on, FaultTarget::Client(_)) {
            faults[index].until_us = end_us;
        }
    }
    faults
}

/// Spans of time, in an order that allows a quick test whether another span overlaps one of them.
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
