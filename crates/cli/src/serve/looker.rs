//! The one who looks: one task for the whole server, however many watch it, so that what the store has to
//! bear does not depend on them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use taketurns::Locks;
use taketurns::engine::Pattern;
use tokio::sync::watch;

use crate::watch::pace::Pace;
use crate::watch::{WAITERS, Watch};

/// What is known, and how.
pub(super) struct Looker {
    pub(super) locks: Locks,
    pub(super) pattern: Pattern,
    every: Duration,
    known: Mutex<Known>,
    /// Counts the looks. Whoever shows something waits for the next.
    looks: watch::Sender<u64>,
}

#[derive(Default)]
pub(super) struct Known {
    pub(super) watch: Watch,
    /// Why the last look failed.
    pub(super) trouble: Option<String>,
    /// How long the last one took that did not fail.
    pub(super) took: Duration,
    /// From the beginning of a look to that of the next.
    pub(super) interval: Duration,
}

impl Known {
    /// The store answered the last look.
    pub(super) fn is_up(&self) -> bool {
        self.trouble.is_none() && self.watch.seen_ms().is_some()
    }
}

impl Looker {
    pub(super) fn new(locks: Locks, pattern: String, every: Duration) -> Self {
        let known = Known { interval: every, ..Known::default() };
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

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
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
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
