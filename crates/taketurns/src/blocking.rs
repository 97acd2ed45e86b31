//! The blocking API, for code without async: [`Wait::wait`] in place of `.await`.
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
//! right after the drop may end before the release is sent; then the lock stays held until its lease ends. So release
//! guards with `guard.release().wait()`, or wait for all earlier drops with
//! [`locks.close().wait()`](crate::Locks::close).
//!
//! # Inside async code
//!
//! `wait()` works there too, but blocks its thread. Renewals and wake-ups keep running on the client's own thread. A
//! client of [`connect_on`](crate::connect_on) has no such thread: `wait()` on the only thread of its runtime never
//! returns.

use std::future::Future;

use tokio::task::unconstrained;

/// Blocks the calling thread until an operation completes. Implemented for everything that can be awaited; meant for
/// the futures of this crate, which need no runtime.
///
/// ```
/// use taketurns::blocking::Wait;
///
/// let report = taketurns::doctor::examine("memory:").wait()?;
/// assert_eq!(report.worst(), taketurns::doctor::Level::Ok);
/// # Ok::<(), taketurns::Error>(())
/// ```
pub trait Wait: IntoFuture + Sized {
    /// Blocks the thread until the operation has completed, and returns what `.await` would.
    fn wait(self) -> Self::Output {
        block_on(self.into_future())
    }
}

impl<F: IntoFuture> Wait for F {}

/// Runs a future on this thread. Its waker belongs to no task, which tells an engine that this thread does nothing
/// else.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    // Inside a task, tokio's cooperative budget makes futures pend until the task returns to the runtime. A blocked
    // task never does.
    pollster::block_on(unconstrained(future))
}
