//! Guards whose calls wait for their answer.

use std::ops::Deref;

use super::{Locks, block_on};
use crate::{Error, Handle, LossCause};

/// A held lock. See [`crate::Guard`], to which it dereferences for all that does not wait. Dropping
/// it releases the lock in the background; if it is the last of its client, it waits for that.
#[must_use = "dropping a guard releases the lock"]
#[derive(Debug)]
pub struct Guard {
    guard: crate::Guard,
    /// Dropped after the guard: if it is the last of its client, that waits for the release.
    _locks: Locks,
}

impl Guard {
    pub(super) fn new(guard: crate::Guard, locks: crate::Locks) -> Self {
        Self { guard, _locks: locks.into() }
    }

    /// See [`crate::Guard::release`].
    ///
    /// # Errors
    /// As there.
    pub fn release(self) -> Result<(), Error> {
        block_on(self.guard.release())
    }

    /// See [`crate::Guard::into_handle`].
    ///
    /// # Errors
    /// As there.
    pub fn into_handle(self) -> Result<Handle, Error> {
        block_on(self.guard.into_handle())
    }

    /// Waits until the lock is lost. See [`crate::Guard::lost`].
    pub fn wait_until_lost(&self) -> LossCause {
        block_on(self.guard.lost())
    }
}

/// Several mutexes, all held. See [`crate::AllGuard`], to which it dereferences for all that does not
/// wait.
#[must_use = "dropping a guard releases the locks"]
#[derive(Debug)]
pub struct AllGuard {
    guard: crate::AllGuard,
    /// As in [`Guard`].
    _locks: Locks,
}

impl AllGuard {
    pub(super) fn new(guard: crate::AllGuard, locks: crate::Locks) -> Self {
        Self { guard, _locks: locks.into() }
    }

    /// See [`crate::AllGuard::release`].
    ///
    /// # Errors
    /// As there.
    pub fn release(self) -> Result<(), Error> {
        block_on(self.guard.release())
    }
}

impl Deref for AllGuard {
    type Target = crate::AllGuard;

    fn deref(&self) -> &crate::AllGuard {
        &self.guard
    }
}

impl Deref for Guard {
    type Target = crate::Guard;

    fn deref(&self) -> &crate::Guard {
        &self.guard
    }
}
