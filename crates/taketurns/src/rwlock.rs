//! [`RwLock`]: many readers or one writer.

use taketurns_core::Ask;

use crate::lock::LockRef;
use crate::{Acquire, Guard, Locks};

/// Many readers or one writer. See [`Locks::rwlock`].
///
/// ```
/// # use taketurns::blocking::Wait;
/// # async {
/// # let locks = taketurns::connect("memory:").await?;
/// let config = locks.rwlock("config");
/// let (one, two) = (config.read().await?, config.read().await?);
/// assert!(config.try_write().await?.is_none());
/// # drop((one, two));
/// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct RwLock(LockRef);

impl RwLock {
    pub(crate) fn new(locks: &Locks, name: &str) -> Self {
        Self(LockRef::new(locks, name))
    }

    /// Waits to read, beside other readers.
    pub fn read(&self) -> Acquire {
        self.0.acquire(Ask::Read)
    }

    /// Waits to write, alone.
    pub fn write(&self) -> Acquire {
        self.0.acquire(Ask::Write)
    }

    /// Takes the lock for reading if no writer holds or waits.
    pub fn try_read(&self) -> Acquire<Option<Guard>> {
        self.0.acquire(Ask::Read)
    }

    /// Takes the lock for writing if nobody holds or waits.
    pub fn try_write(&self) -> Acquire<Option<Guard>> {
        self.0.acquire(Ask::Write)
    }
}
