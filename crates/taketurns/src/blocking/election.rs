//! Elections whose calls wait for their answer.

use std::ops::Deref;
use std::time::Duration;

use super::lock::Blocking;
use super::{Locks, block_on};
use crate::{Error, Leader};

/// See [`crate::Election`].
pub type Election = Blocking<crate::Election>;
/// See [`crate::Campaign`].
pub type Campaign = Blocking<crate::Campaign>;

impl Election {
    /// See [`crate::Election::campaign`].
    pub fn campaign(&self) -> Campaign {
        Blocking(self.0.campaign())
    }

    /// See [`crate::Election::leader`].
    ///
    /// # Errors
    /// As there.
    pub fn leader(&self) -> Result<Option<Leader>, Error> {
        block_on(self.0.leader())
    }

    /// See [`crate::Election::observe`].
    pub fn observe(&self) -> Observer {
        Observer { observer: self.0.observe(), _locks: self.0.locks().clone().into() }
    }
}

impl Campaign {
    /// See [`crate::Campaign::lease`].
    pub fn lease(self, lease: Duration) -> Self {
        Blocking(self.0.lease(lease))
    }

    /// See [`crate::Campaign::within`].
    pub fn within(self, within: Duration) -> Self {
        Blocking(self.0.within(within))
    }

    /// See [`crate::Campaign::why`].
    pub fn why(self, why: impl Into<String>) -> Self {
        Blocking(self.0.why(why))
    }

    /// Waits until it leads.
    ///
    /// # Errors
    /// As awaiting a [`crate::Campaign`].
    pub fn wait(self) -> Result<Leadership, Error> {
        let locks = self.0.locks().clone();
        let leadership = block_on(self.0.into_future())?;
        Ok(Leadership { leadership, _locks: locks.into() })
    }

    /// Campaigns and does the work while it leads; if the leadership was lost before the work was done,
    /// again, with a larger token. The work can't be stopped from outside: it should ask when it takes
    /// long.
    ///
    /// ```
    /// # fn main() -> Result<(), taketurns::Error> {
    /// let locks = taketurns::blocking::connect("memory:")?;
    /// let token = locks.election("scheduler").campaign().lead(|leads| leads.check())??;
    /// println!("led with token {token}");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As awaiting a [`crate::Campaign`]; never [`Error::Lost`].
    pub fn lead<T>(self, mut work: impl FnMut(&Leadership) -> T) -> Result<T, Error> {
        loop {
            let leadership = self.clone().wait()?;
            let output = work(&leadership);
            if !leadership.is_leader() {
                continue;
            }
            let lock = leadership.name().clone();
            if let Err(error) = leadership.resign() {
                tracing::warn!(%lock, %error, "the work was done, but the lock was not released");
            }
            return Ok(output);
        }
    }
}

/// A leader's seat. See [`crate::Leadership`], to which it dereferences for all that does not wait.
/// Dropping it resigns in the background; if it is the last of its client, it waits for that.
#[must_use = "dropping a leadership resigns"]
#[derive(Debug)]
pub struct Leadership {
    leadership: crate::Leadership,
    /// Dropped after the leadership: if it is the last of its client, that waits for the release.
    _locks: Locks,
}

impl Leadership {
    /// See [`crate::Leadership::resign`].
    ///
    /// # Errors
    /// As there.
    pub fn resign(self) -> Result<(), Error> {
        block_on(self.leadership.resign())
    }
}

impl Deref for Leadership {
    type Target = crate::Leadership;

    fn deref(&self) -> &crate::Leadership {
        &self.leadership
    }
}

/// See [`crate::Observer`].
#[derive(Debug)]
pub struct Observer {
    observer: crate::Observer,
    /// As in [`Leadership`].
    _locks: Locks,
}

impl Observer {
    /// See [`crate::Observer::every`].
    pub fn every(self, every: Duration) -> Self {
        Self { observer: self.observer.every(every), ..self }
    }

    /// See [`crate::Observer::changed`].
    ///
    /// # Errors
    /// As there.
    pub fn changed(&mut self) -> Result<Option<Leader>, Error> {
        block_on(self.observer.changed())
    }
}
