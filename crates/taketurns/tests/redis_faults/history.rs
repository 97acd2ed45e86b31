//! What all holders saw, and whether that can be: turns, and writes to a counter behind a fence.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use taketurns::Token;
use taketurns::fence::{Fence, Stale};

/// One turn as its holder saw it: certain to hold from `from` to `until`, by its own clock.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) lock: String,
    pub(crate) token: Token,
    pub(crate) from: Instant,
    pub(crate) until: Instant,
}

/// What the load did. Counters stand for what the locks guard.
#[derive(Default)]
pub(crate) struct History {
    turns: Mutex<Vec<Turn>>,
    fence: Fence,
    counters: Mutex<BTreeMap<String, Counter>>,
}

#[derive(Default)]
struct Counter {
    value: u64,
    /// The tokens of the writes that were let through, in that order.
    written: Vec<Token>,
}

impl History {
    pub(crate) fn add(&self, turn: Turn) {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).push(turn);
    }

    pub(crate) fn turns(&self) -> Vec<Turn> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the counter that a lock guards. The fence sees the token: nobody older writes from now
    /// on.
    pub(crate) fn read(&self, lock: &str, token: Token) -> Result<u64, Stale> {
        self.fence.write(lock, token, || self.counter(lock, |counter| counter.value))
    }

    /// Writes what was made of the value that was read.
    pub(crate) fn write(&self, lock: &str, token: Token, value: u64) -> Result<(), Stale> {
        self.fence.write(lock, token, || {
            self.counter(lock, |counter| {
                counter.value = value;
                counter.written.push(token);
            });
        })
    }

    fn counter<T>(&self, lock: &str, use_it: impl FnOnce(&mut Counter) -> T) -> T {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        use_it(counters.entry(lock.to_owned()).or_default())
    }

    /// Of each lock: no two turns had one token, whoever could still `check` was alone, turns came
    /// in the order of their tokens, and no write that was let through undid another.
    pub(crate) fn check(&self) {
        let mut locks: BTreeMap<String, Vec<Turn>> = BTreeMap::new();
        for turn in self.turns() {
            locks.entry(turn.lock.clone()).or_default().push(turn);
        }
        for (lock, mut turns) in locks {
            turns.sort_by_key(|turn| turn.token);
            for pair in turns.windows(2) {
                let (one, next) = (&pair[0], &pair[1]);
                assert!(one.token < next.token, "{lock}: two grants had token {}", one.token);
                assert!(
                    one.until <= next.from,
                    "{lock}: {} was valid for {:?} more when {} began",
                    one.token,
                    one.until - next.from,
                    next.token
                );
            }
            let written = self.counter(&lock, |counter| counter.written.clone());
            let in_order = written.windows(2).all(|pair| pair[0] < pair[1]);
            assert!(in_order, "{lock}: the fence let an old token write, or one write twice");
            let value = self.counter(&lock, |counter| counter.value);
            assert_eq!(value, written.len() as u64, "{lock}: a write was undone by another");
        }
    }

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
