//! A lock as bytes, for engines that keep it in a row of a database: a version byte, then the whole lock.

use taketurns_core::{Lock, Snapshot};

use super::EngineError;

/// The version of the stored lock. Another one is refused, not guessed at.
pub(super) const VERSION: u8 = 4;

/// A stored lock that can't be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoredLockError {
    #[error("a lock of an unknown format")]
    Version,
    #[error("a lock that can't be read")]
    Unreadable,
    #[error("a lock that can't be stored")]
    Unwritable,
    #[error("{0}")]
    Corrupt(#[from] taketurns_core::CorruptSnapshot),
}

impl From<StoredLockError> for EngineError {
    fn from(error: StoredLockError) -> Self {
        Self::Broken(format!("the store is damaged: {error}"))
    }
}

pub(super) fn encode(lock: &Lock) -> Result<Vec<u8>, StoredLockError> {
    postcard::to_extend(&lock.snapshot(), vec![VERSION]).map_err(|_| StoredLockError::Unwritable)
}

pub(super) fn decode(state: &[u8]) -> Result<Snapshot, StoredLockError> {
    let Some((&VERSION, snapshot)) = state.split_first() else {
        return Err(StoredLockError::Version);
    };
    postcard::from_bytes(snapshot).map_err(|_| StoredLockError::Unreadable)
}

pub(super) fn restore(snapshot: Snapshot) -> Result<Lock, StoredLockError> {
    Ok(Lock::restore(snapshot)?)
}
