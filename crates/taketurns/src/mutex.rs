//! [`Mutex`]: one holder at a time.

use std::future::Future;

use taketurns_core::{Ask, Token};

use crate::lock::LockRef;
use crate::{Acquire, Error, Guard, Locks};

/// One holder at a time. See [`Locks::mutex`].
#[derive(Clone, Debug)]
pub struct Mutex(LockRef);

impl Mutex {
    pub(crate) fn new(locks: &Locks, name: &str) -> Self {
        Self(LockRef::new(locks, name))
    }

    /// Waits for the lock.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let guard = locks.mutex("orders/42").acquire().why("ship it").await?;
    /// guard.release().await?;
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    pub fn acquire(&self) -> Acquire {
        self.0.acquire(Ask::Mutex)
    }

    /// Takes the lock if nobody holds it or waits for it.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let guard = locks.mutex("orders/42").try_acquire().await?;
    /// assert!(guard.is_some());
    /// assert!(locks.mutex("orders/42").try_acquire().await?.is_none());
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    pub fn try_acquire(&self) -> Acquire<Option<Guard>> {
        self.0.acquire(Ask::Mutex)
    }

    /// Waits for the lock, does the work under it, and releases it. See [`Acquire::run`], which takes options.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let sum = locks.mutex("sum").run(async |_token| 1 + 1).await?;
    /// assert_eq!(sum, 2);
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`Acquire::run`].
    pub async fn run<F, Fut>(&self, work: F) -> Result<Fut::Output, Error>
    where
        F: FnOnce(Token) -> Fut,
        Fut: Future,
    {
        self.acquire().run(work).await
    }
}
