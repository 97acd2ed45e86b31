//! Owners that were cancelled while an acquire of theirs may still be under way.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Owner, limits};

/// Invariant: `by_time` has exactly one entry per owner, at its time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tombs {
    until: BTreeMap<Owner, u64>,
    by_time: BTreeSet<(u64, Owner)>,
}

impl Tombs {
    pub(super) fn bury(&mut self, owner: Owner, until_ms: u64) {
        if let Some(before) = self.until.insert(owner, until_ms) {
            self.by_time.remove(&(before, owner));
        }
        self.by_time.insert((until_ms, owner));
        if self.until.len() > limits::TOMBS_MAX {
            self.drop_first();
        }
    }

    pub(super) fn contains(&self, owner: Owner) -> bool {
        self.until.contains_key(&owner)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.until.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Owner, u64)> {
        self.until.iter().map(|(&owner, &until_ms)| (owner, until_ms))
    }

    /// Forgets those whose time has come, a bounded number of them.
    pub(super) fn purge(&mut self, now_ms: u64) {
        for _ in 0..limits::STEP_MAX {
            match self.by_time.first() {
                Some(&(until_ms, _)) if until_ms <= now_ms => self.drop_first(),
                _ => break,
            }
        }
    }

    fn drop_first(&mut self) {
        if let Some((_, owner)) = self.by_time.pop_first() {
            self.until.remove(&owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_limit_are_kept_and_the_earliest_goes_first() {
        let mut tombs = Tombs::default();
        for n in 0..=limits::TOMBS_MAX as u64 {
            tombs.bury(Owner::from_bits(n.into()), 10 + n);
        }
        assert_eq!(tombs.iter().count(), limits::TOMBS_MAX);
        assert!(!tombs.contains(Owner::from_bits(0)));
        assert!(tombs.contains(Owner::from_bits(1)));
    }

    #[test]
    fn one_purge_drops_a_bounded_number() {
        let mut tombs = Tombs::default();
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
        let (mut tombs, owner) = (Tombs::default(), Owner::from_bits(1));
        tombs.bury(owner, 5);
        tombs.bury(owner, 9);
        tombs.purge(5);
        assert_eq!(tombs.iter().collect::<Vec<_>>(), [(owner, 9)]);
        tombs.purge(9);
        assert!(!tombs.contains(owner));
    }
}
