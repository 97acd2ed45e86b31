//! [`Semaphore`]: a number of permits.

use taketurns_core::{Ask, Request};

use crate::lock::LockRef;
use crate::{Acquire, Error, Guard, Locks};

/// A number of permits. See [`Locks::semaphore`].
#[derive(Clone, Debug)]
pub struct Semaphore {
    lock: LockRef,
    permits: u32,
}

impl Semaphore {
    pub(crate) fn new(locks: &Locks, name: &str, permits: u32) -> Self {
        Self { lock: LockRef::new(locks, name), permits }
    }

    fn ask(&self, take: u32) -> Ask {
        Ask::Permits { take, of: self.permits }
    }

    /// Waits for one permit.
    pub fn acquire(&self) -> Acquire {
        self.acquire_many(1)
    }

    /// Waits for `permits` permits, and takes all of them at once.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let gpus = locks.semaphore("gpu", 4);
    /// let three = gpus.acquire_many(3).await?;
    /// assert!(gpus.try_acquire_many(2).await?.is_none());
    /// # drop(three);
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidPermits`], when awaited, for none or for more than the semaphore has.
    pub fn acquire_many(&self, permits: u32) -> Acquire {
        self.lock.acquire(self.ask(permits))
    }

    /// Takes one permit if one is free and nobody waits.
    pub fn try_acquire(&self) -> Acquire<Option<Guard>> {
        self.try_acquire_many(1)
    }

    /// Takes `permits` permits if they are free and nobody waits.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_many`].
    pub fn try_acquire_many(&self, permits: u32) -> Acquire<Option<Guard>> {
        self.lock.acquire(self.ask(permits))
    }

    /// Changes the number of permits to that of this handle, even while the semaphore is in use. A waiter that wants
    /// more than the new number gets [`Error::KindMismatch`]. Returns whether the number was different.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let _one = locks.semaphore("gpu", 4).acquire().await?;
    /// assert!(locks.semaphore("gpu", 8).resize().await?); // four more, for everybody
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::KindMismatch`] if the lock is in use as another kind; [`Error::Unreachable`],
    /// [`Error::Indeterminate`], [`Error::Unsupported`] or [`Error::Store`].
    pub async fn resize(&self) -> Result<bool, Error> {
        self.lock.change(Request::Resize { permits: self.permits }).await
    }
}
