//! Code without async: [`Wait::wait`] where async code says `.await`.
//!
//! ```
//! # fn main() -> Result<(), taketurns::Error> {
//! use std::time::Duration;
//! use taketurns::blocking::Wait;
//!
//! let locks = taketurns::connect("memory:").wait()?;
//! let guard = locks.mutex("orders/42").acquire().within(Duration::from_secs(5)).wait()?;
//! println!("held with token {}", guard.check()?);
//! guard.release().wait()?;
//! # Ok(()) }
//! ```
//!
//! # Before a process ends
//!
//! Dropping a [`Guard`](crate::Guard) releases its lock in the background, here as in async code. A process that ends
//! right after the drop may be quicker, and the lock stays until its lease ends. So release guards with
//! `guard.release().wait()`, or wait for all that was dropped before with
//! [`locks.close().wait()`](crate::Locks::close).
//!
//! # Inside async code
//!
//! `wait()` works there too, and blocks its thread. What has to go on meanwhile runs on the client's own thread.
//! A client of [`connect_on`](crate::connect_on) has none: `wait()` on the only thread of its runtime never returns.

use std::future::Future;

use tokio::task::unconstrained;

/// Waits for an operation on the calling thread. Every future is one, so this is there for all that can be awaited; it
/// is meant for the futures of this crate, which need no runtime.
///
/// ```
/// use taketurns::blocking::Wait;
///
/// let report = taketurns::doctor::examine("memory:").wait()?;
/// assert_eq!(report.worst(), taketurns::doctor::Level::Ok);
/// # Ok::<(), taketurns::Error>(())
/// ```
pub trait Wait: IntoFuture + Sized {
    /// Blocks the thread until the operation has ended, and returns what `.await` would.
    fn wait(self) -> Self::Output {
        block_on(self.into_future())
    }
}

impl<F: IntoFuture> Wait for F {}

/// Runs a future on this thread. Its waker is no task's, so an engine knows that this thread does nothing else.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    // Inside a task, tokio has every future pause now and then, until the task is back at its runtime: it never would be.
    pollster::block_on(unconstrained(future))
}
