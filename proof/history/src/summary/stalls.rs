//! Times in which a lock stood still: somebody waited for it, and nobody held it.

use serde::Serialize;

use crate::invariants::faults;
use crate::{HistoryEvent, Op, Ops};

/// A time in which somebody waited for a lock and nobody held it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stall {
    /// Which lock.
    pub lock: String,
    /// Since when, from the beginning of the history.
    pub after_us: u64,
    /// For how long.
    pub lasted_us: u64,
    /// What went wrong meanwhile.
    pub faults: Vec<String>,
}

/// The longest of all.
pub(super) fn longest(events: &[HistoryEvent], ops: &Ops<'_>) -> Option<Stall> {
    let (begin_us, end_us) = (events.first()?.at_us, events.last()?.at_us);
    let stalls = ops.by_lock().into_iter().filter_map(|(lock, of_lock)| {
        longest_of(&of_lock, end_us).map(|(from_us, until_us)| (until_us - from_us, from_us, lock))
    });
    let (lasted_us, from_us, lock) = stalls.max_by_key(|&(lasted_us, ..)| lasted_us)?;
    let meanwhile = faults(events)
        .into_iter()
        .filter(|fault| fault.from_us < from_us + lasted_us && fault.until_us >= from_us)
        .map(|fault| fault.to_string());
    Some(Stall {
        lock: lock.to_owned(),
        after_us: from_us - begin_us,
        lasted_us,
        faults: meanwhile.collect(),
    })
}

fn longest_of(of_lock: &[&Op<'_>], end_us: u64) -> Option<(u64, u64)> {
    // By time: how many more wait, and how many more hold.
    let mut steps: Vec<(u64, i64, i64)> = Vec::new();
    for op in of_lock {
        let waited_until_us = op.granted_us.or(op.ended_us).unwrap_or(end_us);
        steps.extend([(op.asked_us, 1, 0), (waited_until_us, -1, 0)]);
        if let Some((from_us, until_us)) = op.span() {
            steps.extend([(from_us, 0, 1), (until_us, 0, -1)]);
        }
    }
    steps.sort_unstable_by_key(|&(at_us, ..)| at_us);
    let (mut waiting, mut holding) = (0, 0);
    let mut longest: Option<(u64, u64)> = None;
    let mut since_us: Option<u64> = None;
    for of_one_time in steps.chunk_by(|one, other| one.0 == other.0) {
        for (_, waits, holds) in of_one_time {
            waiting += waits;
            holding += holds;
        }
        let at_us = of_one_time[0].0;
        let stands_still = waiting > 0 && holding == 0;
        match since_us {
            None if stands_still => since_us = Some(at_us),
            Some(from_us) if !stands_still => {
                since_us = None;
                if longest.is_none_or(|(from, until)| until - from < at_us - from_us) {
                    longest = Some((from_us, at_us));
                }
            }
            _ => {}
        }
    }
    longest
}
