//! What all holders saw, and whether that can be: turns, and writes to a counter behind a fence.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use taketurns::fence::{Fence, StaleToken};
use taketurns::{ErrorKind, Guard, Token};

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
    pub(crate) fn read(&self, lock: &str, token: Token) -> Result<u64, StaleToken> {
        self.fence.write(lock, token, || self.counter(lock, |counter| counter.value))
    }

    /// Writes what was made of the value that was read.
    pub(crate) fn write(&self, lock: &str, token: Token, value: u64) -> Result<(), StaleToken> {
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

    /// Asserts for each lock: no two turns had the same token, a holder whose `check` succeeded was alone, turns came in
    /// the order of their tokens, and no admitted write undid another.
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
}

/// One turn: read the counter, take one's time, write it, and see all along that the lock is held.
pub(crate) async fn turn(guard: Guard, hold: Duration, history: &History) {
    let from = Instant::now();
    let (lock, token) = (guard.name().to_string(), guard.token());
    let mut until = from;
    // The instant is taken first: it was held then.
    let mut is_held = || {
        let now = Instant::now();
        let held = guard.check().is_ok();
        if held {
            until = now;
        }
        held
    };
    let read = history.read(&lock, token);
    assert!(read.is_ok() || !is_held(), "{lock}: {token} is held, and a newer one was seen");
    while is_held() && from.elapsed() < hold {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    if let Ok(value) = read
        && is_held()
    {
        let written = history.write(&lock, token, value + 1);
        assert!(written.is_ok() || !is_held(), "{lock}: {token} is held, and a newer one was seen");
    }
    is_held();
    history.add(Turn { lock: lock.clone(), token, from, until });
    if let Err(error) = guard.release().await {
        use ErrorKind::{Indeterminate, Lost, NoQuorum, NotHeld, Unreachable};
        let known = [Lost, NotHeld, Indeterminate, Unreachable, NoQuorum].contains(&error.kind());
        assert!(known, "{lock}: {error}");
    }
}
