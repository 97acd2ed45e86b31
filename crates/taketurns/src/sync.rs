//! The mutexes that threads share, as in std.
//!
//! `proof/threads` builds the client again with `cfg(shuttle)`. There the mutexes and tokio are shuttle's, and a thread
//! that locks, sends or waits may be preempted by any other. So everything that several threads touch comes from here
//! and from tokio, and from nowhere else. (tokio_util's `TaskTracker`, a counter with a waker, is the original: no
//! thread waits for another inside it.)

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
#[cfg(shuttle)]
pub(crate) use shuttle::thread;
#[cfg(feature = "redis")]
pub(crate) use std::sync::atomic;
#[cfg(not(shuttle))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
#[cfg(not(shuttle))]
pub(crate) use std::thread;

/// Locks a mutex. Use it where nothing can panic while the mutex is locked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    #[cfg(feature = "simulation")]
    crate::costs::count_mutex();
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
