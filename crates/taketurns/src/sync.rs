//! What threads share: mutexes, as std has them.
//!
//! `proof/threads` builds the client once more with `cfg(shuttle)`. There they are shuttle's, as its tokio is,
//! and whoever locks, sends or waits may have to let any other thread go first. So what several threads
//! touch is taken from here and from tokio, and from nowhere else. (tokio_util's `TaskTracker`, a counter with a
//! waker, is as it is: no thread waits for another inside it.)

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

/// Locks. To be used where nothing can panic half-way under the mutex.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    #[cfg(feature = "simulation")]
    crate::costs::count_mutex();
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
