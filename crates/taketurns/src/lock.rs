//! [`LockRef`]: what every kind of lock has in common. A handle holds nothing: it is a name, and what can be asked.

use taketurns_core::{Ask, Name, Reply, Request};

use crate::error::malformed;
use crate::{Acquire, Error, Locks};

/// A lock by its name. The name is checked when it is first used, so that `locks.mutex("x")` needs no `?`.
#[derive(Clone, Debug)]
pub(crate) struct LockRef {
    pub(crate) locks: Locks,
    pub(crate) name: Result<Name, Error>,
}

impl LockRef {
    pub(crate) fn new(locks: &Locks, name: &str) -> Self {
        Self { locks: locks.clone(), name: Name::new(name).map_err(Error::from) }
    }

    pub(crate) fn acquire<T>(&self, ask: Ask) -> Acquire<T> {
        Acquire::new(self.clone(), Ok(ask))
    }

    /// Changes what the lock is made of. Returns whether it was different before.
    pub(crate) async fn change(&self, request: Request) -> Result<bool, Error> {
        match self.locks.request(&self.name.clone()?, request).await? {
            Reply::Changed(changed) => Ok(changed),
            reply => Err(malformed("a change", &reply)),
        }
    }
}
