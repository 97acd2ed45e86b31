//! The order in which the waiters of one client try again. The nodes have no queue, so only the first waiter
//! tries, and the others wait for it.

use std::collections::BTreeMap;

use taketurns_core::redlock::pause_us;
use taketurns_core::{Name, Owner};

/// The waiters of this client, for each lock.
#[derive(Debug, Default)]
pub(super) struct RetryQueues {
    queues: BTreeMap<Name, RetryQueue>,
    /// Numbers only grow.
    last: u64,
}

/// The waiters of this client for one lock. Never empty.
#[derive(Debug, Default)]
pub(super) struct RetryQueue {
    places: BTreeMap<u64, Owner>,
    /// Who is trying just now.
    tries: Option<Owner>,
    /// Rounds that failed in a row.
    failures: u32,
    /// Before this local time nobody tries again.
    next_us: u64,
}

impl RetryQueues {
    pub(super) fn of(&mut self, name: &Name) -> Option<&mut RetryQueue> {
        self.queues.get_mut(name)
    }

    /// Takes a place at the tail. Answers its number.
    pub(super) fn join(&mut self, name: &Name, owner: Owner) -> u64 {
        self.last += 1;
        self.queues.entry(name.clone()).or_default().places.insert(self.last, owner);
        self.last
    }

    pub(super) fn leave(&mut self, name: &Name, owner: Owner) {
        let Some(queue) = self.queues.get_mut(name) else { return };
        queue.places.retain(|_, waiting| *waiting != owner);
        queue.tries = queue.tries.filter(|tries| *tries != owner);
        if queue.places.is_empty() {
            self.queues.remove(name);
        }
    }
}

impl RetryQueue {
    pub(super) fn front(&self) -> u64 {
        self.places.keys().next().copied().unwrap_or(0)
    }

    pub(super) fn number_of(&self, owner: Owner) -> Option<u64> {
        self.places.iter().find(|(_, waiting)| **waiting == owner).map(|(number, _)| *number)
    }

    pub(super) fn next_ms(&self) -> u64 {
        self.next_us.div_ceil(1_000)
    }

    pub(super) fn waiting(&self) -> u32 {
        u32::try_from(self.places.len()).unwrap_or(u32::MAX)
    }

    /// Who is to try now: the foremost, unless it does already or the pause is not over. Whatever becomes of
    /// it, nobody looks again before a pause.
    pub(super) fn poll(&mut self, now_us: u64, random: u64) -> Option<Owner> {
        if now_us < self.next_us {
            return None;
        }
        self.next_us = now_us + pause_us(self.failures, random);
        if self.tries.is_some() {
            return None;
        }
        self.tries = self.places.values().next().copied();
        self.tries
    }

    /// It tries, whatever the pause.
    pub(super) fn is_tried_by(&mut self, owner: Owner) {
        self.tries = Some(owner);
    }

    /// This one has failed. While a quarantine lasts, there is nothing to be had.
    pub(super) fn handle_failure(
        &mut self,
        owner: Owner,
        now_us: u64,
        random: u64,
        quarantined_until_us: Option<u64>,
    ) {
        if self.tries != Some(owner) {
            // One that does not wait, and is not in this queue.
            return;
        }
        self.tries = None;
        self.failures = self.failures.saturating_add(1);
        let next_us = now_us + pause_us(self.failures, random);
        self.next_us = next_us.max(quarantined_until_us.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> Name {
        Name::new("l").expect("a name")
    }

    #[test]
    fn the_foremost_tries_alone_and_after_a_pause() {
        let [one, two] = [1, 2].map(Owner::from_bits);
        let mut queues = RetryQueues::default();
        assert_eq!((queues.join(&name(), one), queues.join(&name(), two)), (1, 2));
        let queue = queues.of(&name()).expect("a line");
        assert_eq!(queue.poll(1_000, 0), Some(one));
        assert_eq!(queue.poll(1_000, 0), None, "it is too early");
        assert_eq!(queue.poll(51_000, 0), None, "it tries still");
        queue.handle_failure(two, 60_000, 0, None);
        assert_eq!(queue.poll(101_000, 0), None, "another has failed");
        queue.handle_failure(one, 60_000, 0, None);
        assert_eq!(queue.next_ms(), 110);
        assert_eq!(queue.poll(109_999, 0), None);
        assert_eq!(queue.poll(110_000, 0), Some(one));
        queues.leave(&name(), one);
        let queue = queues.of(&name()).expect("a line");
        assert_eq!((queue.front(), queue.waiting()), (2, 1));
        assert_eq!(queue.poll(1_000_000, 0), Some(two));
        queue.handle_failure(two, 1_000_000, 0, Some(9_000_000));
        assert_eq!(queue.next_ms(), 9_000);
        queues.leave(&name(), two);
        assert!(queues.of(&name()).is_none());
    }
}
