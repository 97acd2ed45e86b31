//! The four kinds of lock, and the acquire, whose calls wait for their answer.

use std::time::Duration;

use super::{AllGuard, Guard, block_on};
use crate::{Error, Token, Trying, Waiting};

/// Something of this crate whose calls wait for their answer.
#[must_use = "nothing happens until `wait` is called"]
#[derive(Clone, Debug)]
pub struct Blocking<T>(pub(super) T);

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
        let locks = self.0.locks().clone();
        block_on(self.0.into_future()).map(|guard| Guard::new(guard, locks))
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
        let lock = guard.name().clone();
        if let Err(error) = guard.release() {
            tracing::warn!(%lock, %error, "the work was done, but the lock was not released");
        }
        Ok(output)
    }
}

impl Acquire<Trying> {
    /// Takes the lock if it is free.
    ///
    /// # Errors
    /// As awaiting a [`crate::Acquire`].
    pub fn wait(self) -> Result<Option<Guard>, Error> {
        let locks = self.0.locks().clone();
        let guard = block_on(self.0.into_future())?;
        Ok(guard.map(|guard| Guard::new(guard, locks)))
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
        let locks = self.0.locks().clone();
        block_on(self.0.into_future()).map(|guard| AllGuard::new(guard, locks))
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
