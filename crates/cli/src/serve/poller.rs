//! Polls the store: one task for the whole server, so that the load on the store does not grow with the
//! number of viewers.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use taketurns::Locks;
use taketurns::engine::Pattern;
use tokio::sync::watch;

use crate::output::whole_millis;
use crate::watch::pace::Pace;
use crate::watch::{LockHistory, WAITERS};

/// Polls the store, and keeps what it learnt.
pub(super) struct StorePoller {
    pub(super) locks: Locks,
    pub(super) pattern: Pattern,
    every: Duration,
    known: Mutex<StoreState>,
    /// The number of polls so far. A stream of events waits for it to grow.
    looks: watch::Sender<u64>,
}

#[derive(Default)]
pub(super) struct StoreState {
    pub(super) watch: LockHistory,
    /// Why the last look failed.
    pub(super) trouble: Option<String>,
    /// How long the last one took that did not fail.
    pub(super) took: Duration,
    /// From the beginning of a look to that of the next.
    pub(super) interval: Duration,
}

impl StoreState {
    /// The store answered the last look.
    pub(super) fn is_up(&self) -> bool {
        self.trouble.is_none() && self.watch.seen_ms().is_some()
    }
}

impl StorePoller {
    pub(super) fn new(locks: Locks, pattern: String, every: Duration) -> Self {
        let known = StoreState { interval: every, ..StoreState::default() };
        let pattern = Pattern::new(&pattern);
        Self { locks, pattern, every, known: Mutex::new(known), looks: watch::Sender::new(0) }
    }

    /// Looks for ever.
    pub(super) async fn run(&self) {
        let mut pace = Pace::new(self.every);
        loop {
            let rest = self.look(&mut pace).await;
            tokio::time::sleep(rest).await;
        }
    }

    /// Looks once, and says for how long to rest.
    async fn look(&self, pace: &mut Pace) -> Duration {
        let began = Instant::now();
        let listed = self.locks.list_with(self.pattern.as_str(), WAITERS).await;
        let took = began.elapsed();
        let rest = pace.rest(took, listed.is_ok());
        {
            let mut known = self.known();
            known.interval = pace.interval();
            known.trouble = listed.as_ref().err().map(ToString::to_string);
            if let Ok(listed) = listed {
                known.took = took;
                known.watch.see(now_ms(), listed);
            }
        }
        self.looks.send_modify(|looks| *looks += 1);
        rest
    }

    pub(super) fn known(&self) -> MutexGuard<'_, StoreState> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of each look from now on.
    pub(super) fn looks(&self) -> watch::Receiver<u64> {
        self.looks.subscribe()
    }
}

/// The wall clock, for people to read.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    whole_millis(since)
}
