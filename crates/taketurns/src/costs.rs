//! Counts how often clients of this process lock a mutex and read a clock, for tests of what an operation costs. Needs
//! the feature `simulation`; without it nothing is counted.

use std::sync::atomic::{AtomicU64, Ordering};

static MUTEXES: AtomicU64 = AtomicU64::new(0);
static CLOCKS: AtomicU64 = AtomicU64::new(0);

/// Returns how often a mutex was locked, not counting those of tokio and of the allocator.
pub fn mutexes_locked() -> u64 {
    MUTEXES.load(Ordering::Relaxed)
}

/// Returns how often a clock was read, not counting tokio's timers.
pub fn clocks_read() -> u64 {
    CLOCKS.load(Ordering::Relaxed)
}

pub(crate) fn count_mutex() {
    MUTEXES.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn count_clock() {
    CLOCKS.fetch_add(1, Ordering::Relaxed);
}
