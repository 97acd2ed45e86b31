//! When a client's places in a queue were surely alive: a place outlives its client's last refresh by a waiter lease.
//!
//! ```text
//!   refresh sent ──────────── + waiter lease          the place may lapse from here on
//!        └── answered ═══════════════╡ surely alive
//!                                    next refresh sent ── answered ═══ …
//!                                    ├────────────────────┤ may have lapsed
//! ```

use std::collections::BTreeMap;

use crate::{EventKind, HistoryEvent, Op};

/// The refreshes of all clients that noted them.
pub(crate) struct PlaceRefreshes<'a> {
    waiter_lease_us: u64,
    /// By client and lock: when each was answered, and when it had been sent. In the order of the answers.
    answered: BTreeMap<(u32, &'a str), Vec<(u64, u64)>>,
}

impl<'a> PlaceRefreshes<'a> {
    pub(crate) fn of(events: &'a [HistoryEvent], waiter_lease_us: u64) -> Self {
        let mut answered: BTreeMap<(u32, &str), Vec<(u64, u64)>> = BTreeMap::new();
        for event in events {
            if let EventKind::Refreshed { client, lock, sent_us } = &event.what {
                answered.entry((*client, lock)).or_default().push((event.at_us, *sent_us));
            }
        }
        Self { waiter_lease_us, answered }
    }

    /// Returns whether the place of an operation, which was seen at `seen_us`, may have lapsed by `until_us` because its
    /// client was not heard for a waiter lease. False if no client noted any refresh.
    pub(crate) fn may_have_lapsed(&self, op: &Op<'_>, seen_us: u64, until_us: u64) -> bool {
        if self.answered.is_empty() {
            return false;
        }
        // The acquire itself was answered before its place was seen.
        let gaps = self.gaps(op.client, op.lock, op.asked_us, until_us);
        gaps.into_iter().any(|(_, gap_until_us)| gap_until_us > seen_us)
    }

    /// The last time without a sign of life of a client, from one that it had sent until the next was answered, that was
    /// longer than a waiter lease. It has waited for the lock since `from_us`.
    pub(crate) fn last_gap(
        &self,
        client: u32,
        lock: &str,
        from_us: u64,
        until_us: u64,
    ) -> Option<(u64, u64)> {
        self.gaps(client, lock, from_us, until_us).pop()
    }

    fn gaps(&self, client: u32, lock: &str, from_us: u64, until_us: u64) -> Vec<(u64, u64)> {
        let refreshes = self.answered.get(&(client, lock)).map_or(&[][..], Vec::as_slice);
        let first = refreshes.partition_point(|&(answered_us, _)| answered_us <= from_us);
        let signs = refreshes[first..].iter().copied().take_while(|sign| sign.0 < until_us);
        let (mut gaps, mut sent_us) = (Vec::<(u64, u64)>::new(), from_us);
        for (answered_us, next_us) in signs.chain([(until_us, until_us)]) {
            if answered_us > sent_us.saturating_add(self.waiter_lease_us) {
                match gaps.last_mut() {
                    // Answers that were all late came at once.
                    Some(last) if sent_us < last.1 => last.1 = answered_us,
                    _ => gaps.push((sent_us, answered_us)),
                }
            }
            sent_us = sent_us.max(next_us);
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{asked, begins};
    use super::*;
    use crate::Ops;

    /// The place of operation 1, asked for at 0 and seen at 500 000; a place lives for 1 000 000.
    fn may_have_lapsed(refreshes: &[(u64, u64)], until_us: u64) -> bool {
        let refreshed = |&(sent_us, answered_us): &(u64, u64)| {
            let what = EventKind::Refreshed { client: 0, lock: "l".to_owned(), sent_us };
            HistoryEvent { at_us: answered_us, what }
        };
        let mut events: Vec<HistoryEvent> =
            [begins(), asked(1)].into_iter().map(|what| HistoryEvent { at_us: 0, what }).collect();
        events.extend(refreshes.iter().map(refreshed));
        let ops = Ops::of(&events);
        let refreshes = PlaceRefreshes::of(&events, ops.waiter_lease_us);
        refreshes.may_have_lapsed(&ops.all[&1], 500_000, until_us)
    }

    #[test]
    fn a_place_that_was_refreshed_in_time_has_not_lapsed() {
        let in_time = [(300_000, 310_000), (900_000, 1_299_999), (1_600_000, 1_700_000)];
        assert!(!may_have_lapsed(&in_time, 2_600_000));
        assert!(may_have_lapsed(&in_time, 2_600_001), "the last one was sent at 1 600 000");
    }

    #[test]
    fn a_refresh_that_was_answered_late_may_have_come_too_late() {
        let late = [(300_000, 310_000), (900_000, 1_300_001), (1_600_000, 1_700_000)];
        assert!(may_have_lapsed(&late, 2_000_000));
        assert!(!may_have_lapsed(&late, 1_300_000), "by then it had not lapsed yet");
    }

    #[test]
    fn where_nobody_notes_refreshes_nothing_is_excused_by_them() {
        assert!(!may_have_lapsed(&[], 9_000_000));
    }
}
