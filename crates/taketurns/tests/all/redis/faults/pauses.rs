//! Times in which nobody was granted anything, seen in a history.

use std::time::Duration;

use crate::support::history::History;

impl History {
    /// Nobody was granted anything for that long from a time on, by the servers' clock, which tokens
    /// show; and somebody was afterwards.
    pub(crate) fn pauses(&self, from_us: u64, pause: Duration) {
        let mut locks: Vec<String> = self.turns().into_iter().map(|turn| turn.lock).collect();
        locks.sort();
        locks.dedup();
        locks.iter().for_each(|lock| self.pauses_for(lock, from_us, pause));
    }

    /// The same of one lock.
    pub(crate) fn pauses_for(&self, lock: &str, from_us: u64, pause: Duration) {
        // Servers count leases in whole milliseconds.
        let end_us = (from_us / 1_000 + u64::try_from(pause.as_millis()).expect("short")) * 1_000;
        let turns = self.turns().into_iter().filter(|turn| turn.lock == lock);
        let granted_us: Vec<u64> = turns.map(|turn| turn.token.raw()).collect();
        for at_us in &granted_us {
            assert!(
                *at_us <= from_us || *at_us >= end_us,
                "{lock} was granted {} ms after what should have begun a pause of {pause:?}",
                (at_us - from_us) / 1_000
            );
        }
        assert!(granted_us.iter().any(|at_us| *at_us >= end_us), "{lock} was never granted again");
    }
}
