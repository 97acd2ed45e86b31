//! Guards whose calls wait for their answer.

use std::ops::Deref;

use super::block_on;
use crate::{Error, Handle, LossCause};

/// A held lock. See [`crate::Guard`], to which it dereferences for all that does not wait.
#[must_use = "dropping a guard releases the lock"]
#[derive(Debug)]
pub struct Guard(pub(super) crate::Guard);

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
pub struct AllGuard(pub(super) crate::AllGuard);

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
