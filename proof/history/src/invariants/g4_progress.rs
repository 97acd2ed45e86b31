//! G4: once nothing goes wrong any more, everybody who waits gets its turn, and keeps it. And at any
//! time a lock that nobody holds keeps nobody waiting, nor is it given to who is taken for dead.
//!
//! The maker of the history decides how long a turn may take to come: it must come before the history ends. A client
//! that is stopped at the end can't take its turn. The rest is known only if the history has the keeper's own notes.

use std::collections::{BTreeMap, BTreeSet};

use super::Findings;
use crate::{EventKind, HistoryEvent, Ops};

pub(super) fn check(events: &[HistoryEvent], ops: &Ops<'_>, findings: &mut Findings) {
    if let Some(calm) = events.iter().find(|event| event.what == EventKind::Calm) {
        in_the_end(calm.at_us, events, ops, findings);
        kept(calm.at_us, events, ops, findings);
    }
    at_the_keeper(events, ops, findings);
}

fn in_the_end(calm_us: u64, events: &[HistoryEvent], ops: &Ops<'_>, findings: &mut Findings) {
    let end_us = events.last().map_or(0, |event| event.at_us);
    let stopped = stopped(events);
    for op in ops.all.values().filter(|op| op.waits_at(end_us) && !stopped.contains(&op.client)) {
        let since_us = end_us - op.asked_us;
        let what = format!("operation {} has waited for {since_us} µs, and still does", op.op);
        findings.add(end_us, op.lock, what);
    }
    for event in events {
        let EventKind::Failed { op, error } = &event.what else { continue };
        if let Some(op) = ops.all.get(op)
            && op.endless
            && op.asked_us > calm_us
        {
            let what = format!("operation {} was to wait for its turn, and has {error}", op.op);
            findings.add(event.at_us, op.lock, what);
        }
    }
}

/// The clients that are stopped in the end.
fn stopped(events: &[HistoryEvent]) -> BTreeSet<u32> {
    let mut stopped = BTreeSet::new();
    for event in events {
        match event.what {
            EventKind::Paused { client } => stopped.insert(client),
            EventKind::Resumed { client } => stopped.remove(&client),
            _ => false,
        };
    }
    stopped
}

/// After a failure a client tries again within this, and what it sent before it takes for lost within
/// two waiter leases.
const TRIES_AGAIN_US: u64 = 1_500_000;

/// A holder with this much of its lease left can renew it when nothing is wrong.
const RENEWS_IN_US: u64 = 50_000;

/// Nobody's lease runs out when it could have been renewed. On real machines, which may stand still
/// without a word, that is not known.
fn kept(calm_us: u64, events: &[HistoryEvent], ops: &Ops<'_>, findings: &mut Findings) {
    let minted = |event: &HistoryEvent| match event.what {
        EventKind::Minted { op, .. } => Some(op),
        _ => None,
    };
    let minted: BTreeSet<u64> = events.iter().filter_map(minted).collect();
    if minted.is_empty() {
        return;
    }
    let late_us = calm_us + 2 * ops.waiter_lease_us + TRIES_AGAIN_US;
    for event in events.iter().filter(|event| event.at_us >= calm_us) {
        let EventKind::Lost { op, cause } = &event.what else { continue };
        let Some(op) = ops.all.get(op).filter(|_| cause == "Expired") else { continue };
        let in_time = |granted_us: u64| {
            let left_us = op.claims.first().map_or(0, |(_, until_us)| until_us - granted_us);
            granted_us > calm_us && left_us >= RENEWS_IN_US
        };
        // A turn that was handed on inside a process has a lease that began with another's.
        let is_new = minted.contains(&op.op) && op.granted_us.is_some_and(in_time);
        if is_new || op.claims.iter().any(|(_, until_us)| *until_us > late_us) {
            let what = format!("operation {} lost it, though nothing was wrong", op.op);
            findings.add(event.at_us, op.lock, what);
        }
    }
}

/// What the keeper of a lock was told of it.
#[derive(Default)]
struct KeeperRecord {
    holding: BTreeSet<u64>,
    waiting: BTreeSet<u64>,
    lapsed: BTreeSet<u64>,
    /// A grant was given up, for another of the same operation. When it was released is not noted.
    is_given_up: bool,
    /// Its keeper notes what it grants.
    is_noted: bool,
}

fn at_the_keeper(events: &[HistoryEvent], ops: &Ops<'_>, findings: &mut Findings) {
    let mut locks: BTreeMap<&str, KeeperRecord> = BTreeMap::new();
    // What it still knows of holders and places, once it forgot something, is not known.
    let mut forgot = false;
    for event in events {
        if event.what == EventKind::Forgot {
            forgot = true;
            locks.values_mut().for_each(|told| told.lapsed.clear());
        }
        let Some(of) = event.what.op().and_then(|op| ops.all.get(&op)) else { continue };
        let KeeperRecord { holding, waiting, lapsed, is_given_up, is_noted } =
            locks.entry(of.lock).or_default();
        let mut wrong = |what: String| findings.add(event.at_us, of.lock, what);
        match &event.what {
            EventKind::Placed { quarantined, .. } => {
                lapsed.remove(&of.op);
                let is_new = waiting.insert(of.op);
                let is_free =
                    *is_noted && holding.is_empty() && !*is_given_up && !quarantined && !forgot;
                if is_new && waiting.len() == 1 && is_free {
                    wrong(format!("operation {} has to wait, and nobody holds it", of.op));
                }
            }
            EventKind::Minted { .. } => {
                if lapsed.remove(&of.op) {
                    wrong(format!("operation {} was granted it, and had lapsed", of.op));
                }
                waiting.remove(&of.op);
                holding.insert(of.op);
                *is_noted = true;
            }
            EventKind::Lapsed { .. } => {
                waiting.remove(&of.op);
                lapsed.insert(of.op);
            }
            EventKind::Told { .. } | EventKind::GivenUp { .. } => {
                waiting.remove(&of.op);
            }
            EventKind::Heard { .. } => {
                // It may have its place still.
                lapsed.remove(&of.op);
                waiting.insert(of.op);
            }
            EventKind::Again { .. } => *is_given_up |= holding.contains(&of.op),
            EventKind::Freed { .. } => {
                holding.remove(&of.op);
                waiting.remove(&of.op);
                lapsed.remove(&of.op);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{asked, begins, claim, found, granted};
    use crate::{EventKind, Guarantee};

    fn wrong(events: Vec<(u64, EventKind)>) -> Vec<String> {
        found(Guarantee::G4, events)
    }

    fn placed(op: u64, quarantined: bool) -> EventKind {
        EventKind::Placed { op, number: op, quarantined }
    }

    fn minted(op: u64) -> EventKind {
        EventKind::Minted { op, token: op, member: None }
    }

    #[test]
    fn who_has_to_wait_for_a_lock_that_nobody_holds_is_kept_from_it() {
        let free =
            |end| vec![(0, begins()), (1, asked(1)), (2, minted(1)), (3, asked(2)), (4, end)];
        let mut held = free(asked(3));
        held.push((5, placed(2, false)));
        assert!(wrong(held).is_empty());
        let mut released = free(EventKind::Freed { op: 1 });
        released.push((5, placed(2, false)));
        assert_eq!(wrong(released.clone()), ["operation 2 has to wait, and nobody holds it"]);
        released[5].1 = placed(2, true);
        assert!(wrong(released.clone()).is_empty(), "nothing is granted in quarantine");
        released[5].1 = placed(2, false);
        let mut twice = released.clone();
        twice.insert(4, (4, EventKind::Again { op: 1, was_granted: true }));
        assert!(wrong(twice).is_empty(), "what it was granted first may not be released yet");
        released.insert(1, (1, EventKind::Forgot));
        assert!(wrong(released).is_empty(), "it may remember a holder that was gone");
    }

    #[test]
    fn who_has_lapsed_is_not_granted_the_lock_unless_it_was_heard_of_again() {
        let mut events = vec![(0, begins()), (1, asked(1)), (1, asked(2)), (2, minted(1))];
        events.extend([(3, placed(2, false)), (4, EventKind::Lapsed { op: 2 }), (5, minted(2))]);
        assert_eq!(wrong(events.clone()), ["operation 2 was granted it, and had lapsed"]);
        events.insert(6, (5, EventKind::Heard { op: 2 }));
        assert!(wrong(events).is_empty());
    }

    #[test]
    fn who_can_renew_loses_nothing_when_nothing_is_wrong() {
        let life = |calm_us: u64, until_us| {
            let lost = EventKind::Lost { op: 1, cause: "Expired".to_owned() };
            let mut events = vec![(0, begins()), (1, asked(1)), (2, minted(1))];
            events.extend([
                (10, granted(1, until_us)),
                (20, claim(1, until_us)),
                (calm_us, EventKind::Calm),
            ]);
            events.push((until_us, lost));
            events.sort_by_key(|(at_us, _)| *at_us);
            wrong(events)
        };
        assert_eq!(life(5, 100_000), ["operation 1 lost it, though nothing was wrong"]);
        assert!(life(5, 40_000).is_empty(), "it came too late to be renewed");
        assert!(life(30, 100_000).is_empty(), "a renewal may have failed before");
        assert_eq!(life(30, 9_000_000).len(), 1, "there was time to try again");
    }

    #[test]
    fn a_turn_that_was_handed_on_inside_a_process_may_run_out_with_the_lease_it_was_given() {
        let life = |minted_itself: bool| {
            let lost = EventKind::Lost { op: 2, cause: "Expired".to_owned() };
            let mut events = vec![(0, begins()), (1, asked(1)), (2, minted(1)), (3, asked(2))];
            events.extend([(10, granted(1, 100_000)), (20, EventKind::Calm)]);
            events.push((30, if minted_itself { minted(2) } else { claim(1, 100_000) }));
            events.extend([(40, granted(2, 100_000)), (100_000, lost)]);
            wrong(events)
        };
        assert!(life(false).is_empty());
        assert_eq!(life(true), ["operation 2 lost it, though nothing was wrong"]);
    }
}
