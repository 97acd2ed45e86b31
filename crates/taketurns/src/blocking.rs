//! All of it without async: the same names, each call waits for its answer.
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

use std::future::{Future, IntoFuture};
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::engine::Guarantees;
use crate::{Error, Handle, LossCause, Name, Token, Trying, View, Waiting};

/// Connects to a store. See [`crate::connect`].
///
/// # Errors
/// As [`crate::connect`].
pub fn connect(url: &str) -> Result<Locks, Error> {
    open(crate::Connect::new(url))
}

/// Connects with options. See [`crate::Connect`].
///
/// # Errors
/// As [`crate::Connect::open`].
pub fn open(connect: crate::Connect) -> Result<Locks, Error> {
    block_on(connect.open()).map(Locks::from)
}

/// Runs a future on this thread. It may be any of this crate's: none needs a runtime to be polled.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
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

    /// See [`crate::Locks::adopt`].
    ///
    /// # Errors
    /// As there.
    pub fn adopt(&self, handle: Handle) -> Result<Guard, Error> {
        block_on(self.inner().adopt(handle)).map(Guard)
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

/// Something of this crate whose calls wait for their answer.
#[derive(Clone, Debug)]
pub struct Blocking<T>(T);

/// See [`crate::Mutex`].
pub type Mutex = Blocking<crate::Mutex>;
/// See [`crate::RwLock`].
pub type RwLock = Blocking<crate::RwLock>;
/// See [`crate::Semaphore`].
pub type Semaphore = Blocking<crate::Semaphore>;
/// See [`crate::Pool`].
pub type Pool = Blocking<crate::Pool>;
/// See [`crate::All`].
pub type All = Blocking<crate::All>;
/// See [`crate::Acquire`].
pub type Acquire<M = Waiting> = Blocking<crate::Acquire<M>>;
/// See [`crate::AcquireAll`].
pub type AcquireAll = Blocking<crate::AcquireAll>;
/// See [`crate::Break`].
pub type Break = Blocking<crate::Break>;

impl Mutex {
    /// See [`crate::Mutex::acquire`].
    pub fn acquire(&self) -> Acquire {
        Blocking(self.0.acquire())
    }

    /// See [`crate::Mutex::try_acquire`].
    pub fn try_acquire(&self) -> Acquire<Trying> {
        Blocking(self.0.try_acquire())
    }
}

impl RwLock {
    /// See [`crate::RwLock::read`].
    pub fn read(&self) -> Acquire {
        Blocking(self.0.read())
    }

    /// See [`crate::RwLock::write`].
    pub fn write(&self) -> Acquire {
        Blocking(self.0.write())
    }

    /// See [`crate::RwLock::try_read`].
    pub fn try_read(&self) -> Acquire<Trying> {
        Blocking(self.0.try_read())
    }

    /// See [`crate::RwLock::try_write`].
    pub fn try_write(&self) -> Acquire<Trying> {
        Blocking(self.0.try_write())
    }
}

impl Semaphore {
    /// See [`crate::Semaphore::acquire`].
    pub fn acquire(&self) -> Acquire {
        Blocking(self.0.acquire())
    }

    /// See [`crate::Semaphore::try_acquire`].
    pub fn try_acquire(&self) -> Acquire<Trying> {
        Blocking(self.0.try_acquire())
    }

    /// See [`crate::Semaphore::resize`].
    ///
    /// # Errors
    /// As there.
    pub fn resize(&self) -> Result<bool, Error> {
        block_on(self.0.resize())
    }
}

impl Pool {
    /// See [`crate::Pool::any`].
    pub fn any(&self) -> Acquire {
        Blocking(self.0.any())
    }

    /// See [`crate::Pool::try_any`].
    pub fn try_any(&self) -> Acquire<Trying> {
        Blocking(self.0.try_any())
    }

    /// See [`crate::Pool::member`].
    pub fn member(&self, member: impl AsRef<str>) -> Acquire {
        Blocking(self.0.member(member))
    }

    /// See [`crate::Pool::try_member`].
    pub fn try_member(&self, member: impl AsRef<str>) -> Acquire<Trying> {
        Blocking(self.0.try_member(member))
    }

    /// See [`crate::Pool::add`].
    ///
    /// # Errors
    /// As there.
    pub fn add(&self, member: impl AsRef<str>) -> Result<bool, Error> {
        block_on(self.0.add(member))
    }

    /// See [`crate::Pool::remove`].
    ///
    /// # Errors
    /// As there.
    pub fn remove(&self, member: impl AsRef<str>) -> Result<bool, Error> {
        block_on(self.0.remove(member))
    }
}

impl All {
    /// See [`crate::All::acquire`].
    pub fn acquire(&self) -> AcquireAll {
        Blocking(self.0.acquire())
    }
}

impl<M> Acquire<M> {
    /// See [`crate::Acquire::lease`].
    pub fn lease(self, lease: Duration) -> Self {
        Blocking(self.0.lease(lease))
    }

    /// See [`crate::Acquire::max_hold`].
    pub fn max_hold(self, max_hold: Duration) -> Self {
        Blocking(self.0.max_hold(max_hold))
    }

    /// See [`crate::Acquire::why`].
    pub fn why(self, why: impl Into<String>) -> Self {
        Blocking(self.0.why(why))
    }

    /// See [`crate::Acquire::permits`].
    pub fn permits(self, permits: u32) -> Self {
        Blocking(self.0.permits(permits))
    }
}

impl Acquire<Waiting> {
    /// See [`crate::Acquire::within`].
    pub fn within(self, within: Duration) -> Self {
        Blocking(self.0.within(within))
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// As awaiting a [`crate::Acquire`].
    pub fn wait(self) -> Result<Guard, Error> {
        block_on(self.0.into_future()).map(Guard)
    }

    /// Waits for the lock, does the work under it, and releases it. The work can't be stopped from
    /// outside: it should ask its guard when it takes long.
    ///
    /// # Errors
    /// As awaiting a [`crate::Acquire`]; [`Error::Lost`] if the lock was lost before the work was
    /// done.
    pub fn run<T>(self, work: impl FnOnce(&Guard) -> T) -> Result<T, Error> {
        let guard = self.wait()?;
        let output = work(&guard);
        guard.still_held()?;
        Ok(output)
    }
}

impl Acquire<Trying> {
    /// Takes the lock if it is free.
    ///
    /// # Errors
    /// As awaiting a [`crate::Acquire`].
    pub fn wait(self) -> Result<Option<Guard>, Error> {
        block_on(self.0.into_future()).map(|guard| guard.map(Guard))
    }
}

impl AcquireAll {
    /// See [`crate::AcquireAll::lease`].
    pub fn lease(self, lease: Duration) -> Self {
        Blocking(self.0.lease(lease))
    }

    /// See [`crate::AcquireAll::within`].
    pub fn within(self, within: Duration) -> Self {
        Blocking(self.0.within(within))
    }

    /// See [`crate::AcquireAll::why`].
    pub fn why(self, why: impl Into<String>) -> Self {
        Blocking(self.0.why(why))
    }

    /// Waits for all of them.
    ///
    /// # Errors
    /// As awaiting a [`crate::AcquireAll`].
    pub fn wait(self) -> Result<AllGuard, Error> {
        block_on(self.0.into_future()).map(AllGuard)
    }
}

impl Break {
    /// See [`crate::Break::at_once`].
    pub fn at_once(self) -> Self {
        Blocking(self.0.at_once())
    }

    /// See [`crate::Break::token`].
    pub fn token(self, token: Token) -> Self {
        Blocking(self.0.token(token))
    }

    /// Breaks it.
    ///
    /// # Errors
    /// As awaiting a [`crate::Break`].
    pub fn wait(self) -> Result<u32, Error> {
        block_on(self.0.into_future())
    }
}

/// A held lock. See [`crate::Guard`], to which it dereferences for all that does not wait.
#[must_use = "dropping a guard releases the lock"]
#[derive(Debug)]
pub struct Guard(crate::Guard);

impl Guard {
    /// See [`crate::Guard::release`].
    ///
    /// # Errors
    /// As there.
    pub fn release(self) -> Result<(), Error> {
        block_on(self.0.release())
    }

    /// See [`crate::Guard::into_handle`].
    ///
    /// # Errors
    /// As there.
    pub fn into_handle(self) -> Result<Handle, Error> {
        block_on(self.0.into_handle())
    }

    /// Waits until the lock is lost. See [`crate::Guard::lost`].
    pub fn wait_until_lost(&self) -> LossCause {
        block_on(self.0.lost())
    }
}

/// Several mutexes, all held. See [`crate::AllGuard`], to which it dereferences for all that does not
/// wait.
#[must_use = "dropping a guard releases the locks"]
#[derive(Debug)]
pub struct AllGuard(crate::AllGuard);

impl AllGuard {
    /// See [`crate::AllGuard::release`].
    ///
    /// # Errors
    /// As there.
    pub fn release(self) -> Result<(), Error> {
        block_on(self.0.release())
    }
}

impl Deref for AllGuard {
    type Target = crate::AllGuard;

    fn deref(&self) -> &crate::AllGuard {
        &self.0
    }
}

impl Deref for Guard {
    type Target = crate::Guard;

    fn deref(&self) -> &crate::Guard {
        &self.0
    }
}
