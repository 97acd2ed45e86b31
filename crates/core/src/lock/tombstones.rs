//! Tombstones: owners that were cancelled while one of their acquires may still be in flight.

use std::collections::{BTreeMap, VecDeque};

use super::lazy_box::StaticDefault;
use crate::{Owner, limits};

/// The tombstones of one lock. Invariant: `order` names each owner once, the oldest tombstone
/// first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tombstones {
    until: BTreeMap<Owner, u64>,
    order: VecDeque<Owner>,
}

impl StaticDefault for Tombstones {
    fn static_default() -> &'static Self {
        static BLANK: Tombstones = Tombstones { until: BTreeMap::new(), order: VecDeque::new() };
        &BLANK
    }
}

impl Tombstones {
    pub(super) fn bury(&mut self, owner: Owner, until_ms: u64) {
        if self.until.insert(owner, until_ms).is_none() {
            self.order.push_back(owner);
        }
        if self.until.len() > limits::TOMBS_MAX {
            self.drop_first();
        }
    }

    pub(super) fn contains(&self, owner: Owner, now_ms: u64) -> bool {
        self.until.get(&owner).is_some_and(|&until_ms| until_ms > now_ms)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.until.is_empty()
    }

    /// Iterates in the order in which they were buried.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Owner, u64)> {
        self.order.iter().map(|&owner| (owner, self.until[&owner]))
    }

    /// Drops a bounded number of expired tombstones from the front. A long-lived one may keep the
    /// ones behind it for longer than needed. Returns true if any was dropped.
    pub(super) fn purge(&mut self, now_ms: u64) -> bool {
        let before = self.order.len();
        for _ in 0..limits::STEP_MAX {
            match self.order.front() {
                Some(owner) if !self.contains(*owner, now_ms) => self.drop_first(),
                _ => break,
            }
        }
        self.order.len() < before
    }

    fn drop_first(&mut self) {
        if let Some(owner) = self.order.pop_front() {
            self.until.remove(&owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_limit_are_kept_and_the_first_buried_goes_first() {
        let mut tombs = Tombstones::default();
        for n in 0..=limits::TOMBS_MAX as u64 {
            tombs.bury(Owner::from_bits(n.into()), 10 + n);
        }
        assert_eq!(tombs.iter().count(), limits::TOMBS_MAX);
        assert!(!tombs.contains(Owner::from_bits(0), 0));
        assert!(tombs.contains(Owner::from_bits(1), 0));
    }

    #[test]
    fn one_purge_drops_a_bounded_number() {
        let mut tombs = Tombstones::default();
        for n in 0..100 {
            tombs.bury(Owner::from_bits(n), 5);
        }
        tombs.purge(4);
        assert_eq!(tombs.iter().count(), 100);
        tombs.purge(5);
        assert_eq!(tombs.iter().count(), 100 - limits::STEP_MAX as usize);
    }

    #[test]
    fn burying_again_moves_the_time() {
        let (mut tombs, owner) = (Tombstones::default(), Owner::from_bits(1));
        tombs.bury(owner, 5);
        tombs.bury(owner, 9);
        tombs.purge(5);
        assert_eq!(tombs.iter().collect::<Vec<_>>(), [(owner, 9)]);
        tombs.purge(9);
        assert!(!tombs.contains(owner, 0));
    }

    #[test]
    fn one_whose_time_has_come_counts_no_more_even_behind_another() {
        let (mut tombs, first, second) =
            (Tombstones::default(), Owner::from_bits(1), Owner::from_bits(2));
        tombs.bury(first, 9);
        tombs.bury(second, 5);
        tombs.purge(5);
        assert!(tombs.contains(first, 5) && !tombs.contains(second, 5));
        assert_eq!(tombs.iter().count(), 2, "kept behind the first");
    }
}
