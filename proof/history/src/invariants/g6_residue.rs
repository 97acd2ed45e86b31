//! G6: nothing is left behind.
//!
//! A release that can't reach the store is tried again for as long as the lock is held without it, but for the last
//! pause between two tries.

use std::collections::BTreeMap;

use super::Findings;
use crate::{EventKind, HistoryEvent, Ops};

/// The kinds of error after which a release is tried again. Others say that it was carried out, or never will be.
const PASSING: [&str; 2] = ["Unreachable", "NoQuorum"];

/// No pause between two tries is longer.
const PAUSE_US_MAX: u64 = 1_000_000;

pub(super) fn check(events: &[HistoryEvent], ops: &Ops<'_>, findings: &mut Findings) {
    let mut held_until_us: BTreeMap<u64, u64> = BTreeMap::new();
    for event in events {
        match &event.what {
            EventKind::Left { thing } => findings.add(event.at_us, "", thing.clone()),
            EventKind::Granted { op, until_us, .. }
            | EventKind::Checked { op, until_us: Some(until_us) } => {
                held_until_us.insert(*op, *until_us);
            }
            EventKind::Released { op, error: Some(error) } if PASSING.contains(&error.as_str()) => {
                let until_us = held_until_us.get(op).copied().unwrap_or(0);
                let left_us = until_us.saturating_sub(event.at_us);
                if left_us > PAUSE_US_MAX {
                    let lock = ops.all.get(op).map_or("?", |op| op.lock);
                    let what = format!("operation {op} gave up its release with {left_us} µs left");
                    findings.add(event.at_us, lock, what);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Guarantee, invariants};

    fn released(error: &str, at_us: u64) -> Vec<HistoryEvent> {
        let error = Some(error.to_owned());
        let granted =
            EventKind::Granted { op: 1, token: Some(1), member: None, until_us: 2_000_000 };
        let whats = [
            (10, granted),
            (20, EventKind::Releases { op: 1 }),
            (at_us, EventKind::Released { op: 1, error }),
        ];
        whats.into_iter().map(|(at_us, what)| HistoryEvent { at_us, what }).collect()
    }

    #[test]
    fn a_release_is_not_given_up_while_the_lock_is_held_without_it() {
        let found = |error: &str, at_us: u64| {
            let found = invariants::check(&released(error, at_us)).into_iter();
            found.filter(|violation| violation.guarantee == Guarantee::G6).count()
        };
        assert_eq!([found("Unreachable", 999_999), found("NoQuorum", 30)], [1, 1]);
        assert_eq!(
            [found("Unreachable", 1_000_000), found("Lost", 30), found("Store", 30)],
            [0; 3]
        );
    }
}
