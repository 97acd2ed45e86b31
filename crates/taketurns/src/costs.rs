//! How often clients of this process have locked a mutex and read a clock: for tests of what an operation
//! costs. Needs the feature `simulation`; without it nothing is counted.

use std::sync::atomic::{AtomicU64, Ordering};

static MUTEXES: AtomicU64 = AtomicU64::new(0);
static CLOCKS: AtomicU64 = AtomicU64::new(0);

/// How often a mutex was locked, those of tokio and of the allocator apart.
pub fn mutexes_locked() -> u64 {
    MUTEXES.load(Ordering::Relaxed)
}

/// How often a clock was read, by tokio's timers apart.
pub fn clocks_read() -> u64 {
    CLOCKS.load(Ordering::Relaxed)
}

pub(crate) fn count_mutex() {
    MUTEXES.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn count_clock() {
    CLOCKS.fetch_add(1, Ordering::Relaxed);
}
