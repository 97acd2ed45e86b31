//! The places that a client has in one lock's queue: when to refresh them, and when to ask whether the
//! holder's lease has run out.

use std::collections::BTreeSet;

use super::Anchor;
use super::timers::DueTime;
use crate::Owner;

/// Between two places in the queue that ask again at the holder's deadline, so that they do not all
/// ask at once: the first is the one that matters.
const STAGGER_US: u64 = 5_000;

/// The places of a client in one lock's queue. While all is well, the client sends only their refresh.
#[derive(Debug)]
pub(super) struct PlaceSet {
    /// In a quorum two may have the same number.
    places: BTreeSet<(u64, Owner)>,
    pub(super) due: DueTime,
    third_us: u64,
    refresh_at_us: u64,
    recheck_at_us: Option<u64>,
    /// Since when something may have been missed that no refresh sent since can have told of.
    doubt_since_us: Option<u64>,
    /// The local time at which the quarantine ends that the last answer spoke of.
    pub(super) quarantined_until_us: Option<u64>,
}

impl PlaceSet {
    /// Starts with a request that was sent at `sent_us` and has given the first place: it kept the place
    /// alive too.
    pub(super) fn new(sent_us: u64, waiter_lease_ms: u64) -> Self {
        let third_us = waiter_lease_ms.saturating_mul(1_000) / 3;
        Self {
            places: BTreeSet::new(),
            due: DueTime::default(),
            third_us,
            refresh_at_us: sent_us.saturating_add(third_us),
            recheck_at_us: None,
            doubt_since_us: None,
            quarantined_until_us: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Notes the place of an owner, and takes back the one that it had before.
    pub(super) fn put(&mut self, owner: Owner, place: u64, before: Option<u64>) {
        if let Some(before) = before {
            self.remove(owner, before);
        }
        self.places.insert((place, owner));
    }

    pub(super) fn remove(&mut self, owner: Owner, place: u64) {
        self.places.remove(&(place, owner));
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = Owner> {
        self.places.iter().map(|(_, owner)| *owner)
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// How many are before the client's foremost place.
    pub(super) fn ahead(&self, front: u64) -> u64 {
        self.places.first().map_or(0, |(place, _)| place.saturating_sub(front))
    }

    /// When the next refresh is due.
    pub(super) fn due_us(&self) -> u64 {
        let sooner = [self.recheck_at_us, self.doubt_since_us].into_iter().flatten();
        sooner.fold(self.refresh_at_us, u64::min)
    }

    /// A refresh is sent now; the next is due a third of the waiter lease later, whether or not this
    /// one is answered.
    pub(super) fn handle_sent(&mut self, now_us: u64) {
        self.refresh_at_us = now_us.saturating_add(self.third_us);
        self.recheck_at_us = None;
        self.doubt_since_us = None;
    }

    /// The engine said when the next holder's lease ends. `ahead` of the client's foremost place
    /// staggers the question, by at most one refresh.
    pub(super) fn handle_recheck(
        &mut self,
        now_us: u64,
        anchor: Anchor,
        recheck_ms: Option<u64>,
        ahead: u64,
    ) {
        self.recheck_at_us = recheck_ms.map(|recheck_ms| {
            let stagger_us = ahead.saturating_mul(STAGGER_US).min(self.third_us);
            anchor.surely_passed_us(now_us, recheck_ms).saturating_add(stagger_us)
        });
    }

    /// Something may have been missed (a connection was lost): ask now.
    pub(super) fn handle_doubt(&mut self, now_us: u64) {
        self.doubt_since_us = Some(now_us);
    }

    /// Remembers a quarantine. Returns for how long it lasts if that is news.
    pub(super) fn handle_quarantine(
        &mut self,
        anchor: Anchor,
        until_ms: Option<u64>,
    ) -> Option<u64> {
        let left_ms = until_ms.map(|until_ms| until_ms.saturating_sub(anchor.engine_ms));
        let is_news = self.quarantined_until_us.is_none();
        let until_us = |left_ms: u64| anchor.sent_us.saturating_add(left_ms.saturating_mul(1_000));
        self.quarantined_until_us = left_ms.map(until_us);
        left_ms.filter(|_| is_news)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANCHOR: Anchor = Anchor { sent_us: 0, engine_ms: 100 };

    #[test]
    fn two_with_the_same_number_each_have_a_place() {
        let mut queue = PlaceSet::new(0, 3_000);
        let owners = [1, 2].map(Owner::from_bits);
        for owner in owners {
            queue.put(owner, 7, None);
        }
        assert_eq!(queue.len(), 2);
        queue.remove(owners[0], 7);
        assert_eq!(queue.owners().collect::<Vec<_>>(), [owners[1]]);
        queue.put(owners[1], 9, Some(7));
        assert_eq!((queue.len(), queue.ahead(4)), (1, 5));
    }

    #[test]
    fn a_place_is_refreshed_at_a_third_of_its_lease() {
        let mut queue = PlaceSet::new(1_000, 3_000);
        assert_eq!(queue.due_us(), 1_001_000);
        queue.handle_sent(1_200_000);
        assert_eq!(queue.due_us(), 2_200_000);
    }

    #[test]
    fn the_holders_deadline_is_asked_about_once_it_has_passed() {
        let mut queue = PlaceSet::new(0, 3_000);
        queue.handle_recheck(0, ANCHOR, Some(300), 0);
        assert_eq!(queue.due_us(), 200_000 + 2_000 + 2_000);
        queue.handle_recheck(0, ANCHOR, Some(60_000), 0);
        assert_eq!(queue.due_us(), 1_000_000, "a far deadline is left to the refresh");
        queue.handle_recheck(0, ANCHOR, None, 0);
        assert_eq!(queue.due_us(), 1_000_000);
    }

    #[test]
    fn what_is_missed_while_a_refresh_is_under_way_stays_in_doubt() {
        let mut queue = PlaceSet::new(0, 3_000);
        queue.handle_sent(10);
        queue.handle_doubt(20);
        queue.handle_recheck(30, ANCHOR, Some(60_000), 0);
        assert_eq!(queue.due_us(), 20, "its answer may be older");
        queue.handle_sent(40);
        assert_eq!(queue.due_us(), 1_000_040);
    }

    #[test]
    fn those_behind_ask_later_but_not_by_more_than_a_refresh() {
        let due = |ahead| {
            let mut queue = PlaceSet::new(0, 30_000);
            queue.handle_recheck(0, ANCHOR, Some(100), ahead);
            queue.due_us()
        };
        assert_eq!(due(3) - due(0), 15_000);
        assert_eq!(due(u64::MAX), 10_000_000);
    }

    #[test]
    fn a_quarantine_is_news_once() {
        let mut queue = PlaceSet::new(0, 3_000);
        assert_eq!(queue.handle_quarantine(ANCHOR, Some(600)), Some(500));
        assert_eq!(queue.quarantined_until_us, Some(500_000));
        assert_eq!(queue.handle_quarantine(ANCHOR, Some(600)), None);
        assert_eq!(queue.handle_quarantine(ANCHOR, None), None);
        assert_eq!(queue.quarantined_until_us, None);
    }
}
