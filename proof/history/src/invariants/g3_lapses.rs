//! G3, of places that a client lost: it must not have been heard for a waiter lease, because of a fault of its own or of the
//! store. A place that is refreshed in time is never lost, and nothing else may keep a client from refreshing it.

use std::collections::BTreeMap;

use super::{FaultTarget, Findings, PlaceRefreshes, Windows, faults};
use crate::units::Span;
use crate::{EventKind, HistoryEvent, Ops};

/// Judges the places that clients lost.
pub(super) fn check(
    events: &[HistoryEvent],
    ops: &Ops<'_>,
    refreshes: &PlaceRefreshes<'_>,
    disturbances: &Disturbances,
    findings: &mut Findings,
) {
    let by_lock = ops.by_lock();
    for event in events {
        let EventKind::Rejoined { client, lock } = &event.what else { continue };
        let of_lock = by_lock.get(lock.as_str()).map_or(&[][..], Vec::as_slice);
        let waiting = of_lock.iter().filter(|op| op.client == *client && op.waits_at(event.at_us));
        let Some(since_us) = waiting.map(|op| op.asked_us).min() else { continue };
        let gap = refreshes.last_gap(*client, lock, since_us, event.at_us);
        // A server may have forgotten the place, or its clock was set forward. What it forgot may show as late as at the
        // end of its quarantine, when it grants again.
        let forgets_us = ops.waiter_lease_us.saturating_add(ops.max_lease_us);
        let (from_us, until_us) =
            gap.unwrap_or((event.at_us.saturating_sub(forgets_us), event.at_us));
        if disturbances.met(*client, from_us, until_us) {
            continue;
        }
        let why = match gap {
            None => "each refresh was answered in time".to_owned(),
            Some(_) => format!("no refresh was answered for {}", Span(until_us - from_us)),
        };
        let what = format!("client {client} lost its place while nothing was wrong: {why}");
        findings.add(event.at_us, lock, what);
    }
}

/// The times in which a place may have been lost: any client's, or one client's. A client that was delayed asks again
/// within a waiter lease after the delay.
pub(super) struct Disturbances {
    times: BTreeMap<Option<u32>, Windows>,
    stopped_blocks: bool,
}

impl Disturbances {
    pub(super) fn of(events: &[HistoryEvent], ops: &Ops<'_>) -> Self {
        let mut times: BTreeMap<Option<u32>, Vec<(u64, u64)>> = BTreeMap::new();
        for fault in faults(events) {
            let whose = match fault.on {
                FaultTarget::Client(client) => Some(client),
                FaultTarget::Named(_) => None,
            };
            let until_us = fault.until_us.saturating_add(ops.waiter_lease_us);
            times.entry(whose).or_default().push((fault.from_us, until_us));
        }
        let times = times.into_iter().map(|(whose, times)| (whose, Windows::of(times))).collect();
        Self { times, stopped_blocks: ops.stopped_blocks }
    }

    /// Was something wrong with the store, or with this client?
    pub(super) fn met_alone(&self, client: u32, from_us: u64, until_us: u64) -> bool {
        let mut times = [None, Some(client)].into_iter().filter_map(|of| self.times.get(&of));
        times.any(|times| times.meet(from_us, until_us))
    }

    /// Or with another client, if that can hold up this one?
    fn met(&self, client: u32, from_us: u64, until_us: u64) -> bool {
        self.met_alone(client, from_us, until_us)
            || self.stopped_blocks && self.times.values().any(|of| of.meet(from_us, until_us))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{asked, begins, found};
    use crate::{EventKind, Guarantee};

    /// What is found of a client that asked at 0, refreshed its place at these times, and found it lost at the end.
    fn lost(refreshed_us: &[u64], at_us: u64, more: Vec<(u64, EventKind)>) -> Vec<String> {
        let lock = || "l".to_owned();
        let mut events = vec![(0, begins()), (0, asked(1))];
        events.extend(refreshed_us.iter().map(|&sent_us| {
            (sent_us + 10, EventKind::Refreshed { client: 0, lock: lock(), sent_us })
        }));
        events.extend(more);
        events.push((at_us, EventKind::Rejoined { client: 0, lock: lock() }));
        events.sort_by_key(|(at_us, _)| *at_us);
        found(Guarantee::G3, events)
    }

    #[test]
    fn a_place_that_was_refreshed_in_time_is_not_lost() {
        let found = lost(&[300_000, 600_000, 900_000], 1_000_000, Vec::new());
        let said =
            "client 0 lost its place while nothing was wrong: each refresh was answered in time";
        assert_eq!(found, [said]);
    }

    #[test]
    fn nothing_but_a_fault_keeps_a_client_from_refreshing_its_place() {
        let stuck = [300_000, 1_800_000];
        let found = lost(&stuck, 1_900_000, Vec::new());
        let said =
            "client 0 lost its place while nothing was wrong: no refresh was answered for 1.5 s";
        assert_eq!(found, [said]);
        let pause = |client| {
            vec![(400_000, EventKind::Paused { client }), (700_000, EventKind::Resumed { client })]
        };
        assert_eq!(lost(&stuck, 1_900_000, pause(7)), [said], "another client was stopped");
        assert!(lost(&stuck, 1_900_000, pause(0)).is_empty());
    }
}
