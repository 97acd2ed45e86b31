//! All of it without async: the same names, and what async code `await`s, this `wait`s for.
//!
//! It works anywhere, also inside async code (where it blocks that thread), since everything that
//! has to go on meanwhile runs on the client's own thread.
//!
//! ```
//! # fn main() -> Result<(), taketurns::Error> {
//! let locks = taketurns::blocking::connect("memory:")?;
//! let guard = locks.mutex("orders/42").acquire().why("ship it").wait()?;
//! println!("held with token {}", guard.check()?);
//! guard.release()?;
//! # Ok(()) }
//! ```

mod election;
mod guard;
mod lock;

use std::future::Future;
use std::time::Duration;

use tokio::task::unconstrained;

use crate::engine::Guarantees;
use crate::{ClientId, Error, Handle, Name, View};

pub use election::{Campaign, Election, Leadership, Observer};
pub use guard::{AllGuard, Guard};
pub use lock::{Acquire, AcquireAll, All, Blocking, Break, Mutex, Pool, RwLock, Semaphore};

/// Connects to a store. See [`crate::connect()`].
///
/// # Errors
/// As [`crate::connect()`].
pub fn connect(url: &str) -> Result<Locks, Error> {
    open(crate::Connect::new(url))
}

/// Connects with options. See [`crate::Connect`]; how long it waits for a server that is loading its data
/// is [`crate::Connect::within`].
///
/// # Errors
/// As [`crate::Connect::open`].
pub fn open(connect: crate::Connect) -> Result<Locks, Error> {
    block_on(connect.open()).map(Locks::from)
}

/// Looks whether a store is fit to hold locks. See [`crate::doctor::examine`].
///
/// ```
/// # fn main() -> Result<(), taketurns::Error> {
/// let report = taketurns::blocking::examine("memory:")?;
/// assert_eq!(report.worst(), taketurns::doctor::Level::Ok);
/// # Ok(()) }
/// ```
///
/// # Errors
/// As [`crate::doctor::examine`].
pub fn examine(url: &str) -> Result<crate::doctor::Report, Error> {
    block_on(crate::doctor::examine(url))
}

/// Runs a future on this thread. It may be any of this crate's: none needs a runtime to be polled.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    // Inside a task, tokio has every future pause now and then, until the task is back at its runtime: it never would be.
    pollster::block_on(unconstrained(future))
}

/// The locks of one store. See [`crate::Locks`]. Dropping the last clone waits until everything
/// dropped or released before is released, for 5 s at most.
#[derive(Clone, Debug)]
pub struct Locks(Option<crate::Locks>);

impl Locks {
    fn inner(&self) -> &crate::Locks {
        self.0.as_ref().expect("there until it is dropped")
    }

    /// See [`crate::Locks::mutex`].
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Blocking(self.inner().mutex(name))
    }

    /// See [`crate::Locks::rwlock`].
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        Blocking(self.inner().rwlock(name))
    }

    /// See [`crate::Locks::semaphore`].
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        Blocking(self.inner().semaphore(name, permits))
    }

    /// See [`crate::Locks::pool`].
    pub fn pool(&self, name: impl AsRef<str>) -> Pool {
        Blocking(self.inner().pool(name))
    }

    /// See [`crate::Locks::all`].
    pub fn all<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> All {
        Blocking(self.inner().all(names))
    }

    /// See [`crate::Locks::election`].
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Blocking(self.inner().election(name))
    }

    /// See [`crate::Locks::adopt`].
    ///
    /// # Errors
    /// As there.
    pub fn adopt(&self, handle: Handle) -> Result<Guard, Error> {
        let guard = block_on(self.inner().adopt(handle))?;
        Ok(Guard::new(guard, self.inner().clone()))
    }

    /// See [`crate::Locks::renew`].
    ///
    /// # Errors
    /// As there.
    pub fn renew(&self, handle: &Handle, lease: Option<Duration>) -> Result<Duration, Error> {
        block_on(self.inner().renew(handle, lease))
    }

    /// See [`crate::Locks::release`].
    ///
    /// # Errors
    /// As there.
    pub fn release(&self, handle: &Handle) -> Result<(), Error> {
        block_on(self.inner().release(handle))
    }

    /// See [`crate::Locks::client_id`].
    pub fn client_id(&self) -> ClientId {
        self.inner().client_id()
    }

    /// See [`crate::Locks::guarantees`].
    pub fn guarantees(&self) -> Guarantees {
        self.inner().guarantees()
    }

    /// See [`crate::Locks::inspect`].
    ///
    /// # Errors
    /// As there.
    pub fn inspect(&self, name: impl AsRef<str>) -> Result<Option<View>, Error> {
        block_on(self.inner().inspect(name))
    }

    /// See [`crate::Locks::list`].
    ///
    /// # Errors
    /// As there.
    pub fn list(&self, pattern: &str) -> Result<Vec<(Name, View)>, Error> {
        block_on(self.inner().list(pattern))
    }

    /// See [`crate::Locks::list_with`].
    ///
    /// # Errors
    /// As there.
    pub fn list_with(&self, pattern: &str, waiters: usize) -> Result<Vec<(Name, View)>, Error> {
        block_on(self.inner().list_with(pattern, waiters))
    }

    /// See [`crate::Locks::break_lock`].
    pub fn break_lock(&self, name: impl AsRef<str>) -> Break {
        Blocking(self.inner().break_lock(name))
    }
}

impl From<crate::Locks> for Locks {
    /// The same client, used from code that is not async. If it is one of
    /// [`connect_on`](crate::connect_on), its runtime must run on other threads than those that
    /// block.
    fn from(locks: crate::Locks) -> Self {
        Self(Some(locks))
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        // On a runtime of the caller's we may be the very thread that the end has to run on.
        if let Some(locks) = self.0.take()
            && locks.shared.has_thread()
        {
            block_on(locks.close());
        }
    }
}
