//! How long a lock was free while somebody waited for it.

use std::collections::BTreeMap;
use std::fmt;

use taketurns_history::{EventKind, HistoryEvent};

/// A time in which a lock was free and somebody waited.
#[derive(Clone, Debug)]
pub(crate) struct SimStall {
    lock: String,
    from_us: u64,
    until_us: u64,
    waiting: u64,
}

impl SimStall {
    pub(crate) fn us(&self) -> u64 {
        self.until_us - self.from_us
    }
}

impl fmt::Display for SimStall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lock, from_us, until_us, waiting } = self;
        let for_us = until_us - from_us;
        write!(
            f,
            "G4 at {from_us} µs, lock {lock}: free for {for_us} µs, and operation {waiting} waited"
        )
    }
}

#[derive(Default)]
struct LockUse {
    waiting: Vec<u64>,
    holding: Vec<u64>,
    free_since_us: u64,
}

/// The longest of all.
pub(crate) fn longest(events: &[HistoryEvent]) -> Option<SimStall> {
    let mut lock_of: BTreeMap<u64, &str> = BTreeMap::new();
    let mut uses: BTreeMap<&str, LockUse> = BTreeMap::new();
    let mut longest: Option<SimStall> = None;
    for HistoryEvent { at_us, what } in events {
        if let EventKind::Asked { op, lock, .. } = what {
            lock_of.insert(*op, lock);
        }
        let Some((op, lock)) = what.op().and_then(|op| Some((op, *lock_of.get(&op)?))) else {
            continue;
        };
        let in_use = uses.entry(lock).or_default();
        if in_use.holding.is_empty()
            && let Some(&waiting) = in_use.waiting.first()
        {
            let (from_us, until_us) = (in_use.free_since_us, *at_us);
            let stall = SimStall { lock: lock.to_owned(), from_us, until_us, waiting };
            if longest.as_ref().is_none_or(|longest| longest.us() < stall.us()) {
                longest = Some(stall);
            }
        }
        let was_free = in_use.holding.is_empty() && in_use.waiting.is_empty();
        match what {
            EventKind::Asked { .. } => in_use.waiting.push(op),
            EventKind::Granted { .. } => {
                in_use.waiting.retain(|waiting| *waiting != op);
                in_use.holding.push(op);
            }
            // Nobody holds a once whose work is done, and nobody waits in vain.
            EventKind::DoneBefore { .. } => {
                in_use.waiting.retain(|waiting| *waiting != op);
                in_use.free_since_us = *at_us;
            }
            EventKind::Failed { .. } | EventKind::Cancelled { .. } => {
                in_use.waiting.retain(|waiting| *waiting != op);
            }
            // What was broken passes on when its holder lets go.
            EventKind::Lost { cause, .. } if cause == "Revoked" => {}
            EventKind::Releases { .. } | EventKind::Lost { .. } => {
                let held = in_use.holding.len();
                in_use.holding.retain(|holding| *holding != op);
                if in_use.holding.is_empty() && held > 0 {
                    in_use.free_since_us = *at_us;
                }
            }
            _ => {}
        }
        if was_free {
            in_use.free_since_us = *at_us;
        }
    }
    longest
}
