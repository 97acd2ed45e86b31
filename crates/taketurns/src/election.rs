//! [`Election`]: one leader at a time.
//!
//! ```text
//!   campaign ── waits its turn ──► leads ── releases, or loses it ──► the next one leads
//!   observe  ── looks at the lock every so often ──► tells whenever somebody else leads
//! ```
//!
//! It is the mutex of that name: its holder leads, its waiters are the candidates. So all that is promised of a mutex
//! is promised of a leader, tokens included, and `taketurns show` shows an election as it shows any lock.

mod observer;

use std::future::Future;

use taketurns_core::{Ask, HolderView, Kind, Name, Token, View};

use crate::lock::LockRef;
use crate::{Acquire, Error, Locks};

pub use observer::Observer;

/// How many waiters a look shows. None is looked at, but stores take no less.
const WAITERS: usize = 1;

/// One leader at a time among those who campaign. See [`Locks::election`].
#[derive(Clone, Debug)]
pub struct Election(LockRef);

impl Election {
    pub(crate) fn new(locks: &Locks, name: &str) -> Self {
        Self(LockRef::new(locks, name))
    }

    /// Campaigns: waits until nobody leads and nobody is before it in the queue. The [`Guard`](crate::Guard) that it
    /// gives is the leadership: `check()` it right before each use of what only the leader may touch, `release()` it to
    /// resign.
    pub fn campaign(&self) -> Acquire {
        self.0.acquire(Ask::Mutex)
    }

    /// Campaigns, does the work while it leads, and campaigns again if the leadership is lost. See [`Acquire::lead`],
    /// which takes options.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let led = locks.election("scheduler").lead(async |token| format!("with token {token}")).await?;
    /// # drop(led);
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`Acquire::lead`].
    pub async fn lead<F, Fut>(&self, work: F) -> Result<Fut::Output, Error>
    where
        F: FnMut(Token) -> Fut,
        Fut: Future,
    {
        self.campaign().lead(work).await
    }

    /// Returns who leads now: the holder of the mutex. `None` if nobody does, or if a leader that was broken has yet to
    /// stop.
    ///
    /// # Errors
    /// [`Error::InvalidName`]; [`Error::KindMismatch`] if the lock of that name is no mutex;
    /// [`Error::Unreachable`], [`Error::NoQuorum`], [`Error::Unsupported`] or [`Error::Store`].
    pub async fn leader(&self) -> Result<Option<HolderView>, Error> {
        let LockRef { locks, name } = &self.0;
        let name = name.clone()?;
        match locks.look(&name, WAITERS).await? {
            Some(view) => leader_of(&name, view),
            None => Ok(None),
        }
    }

    /// Watches who leads, without taking part. See [`Observer`].
    pub fn observe(&self) -> Observer {
        Observer::new(self.clone())
    }
}

/// Returns who leads, by a view of the lock.
fn leader_of(name: &Name, view: View) -> Result<Option<HolderView>, Error> {
    if view.kind != Kind::Mutex && !view.holders.is_empty() {
        return Err(Error::KindMismatch { lock: name.clone(), is: view.kind });
    }
    // A holder that was broken knows that it leads no more.
    Ok(view.holders.into_iter().find(|holder| !holder.revoked))
}

#[cfg(test)]
mod tests {
    use super::observer::tests::holder;
    use super::*;

    fn leader(view: View) -> Result<Option<HolderView>, Error> {
        leader_of(&Name::new("l").expect("a name"), view)
    }

    #[test]
    fn the_holder_of_the_mutex_leads_unless_it_was_broken() {
        let mut broken = holder(7);
        broken.revoked = true;
        let view = |holders| {
            let mut view = View::default();
            view.holders = holders;
            view
        };
        assert_eq!(leader(view(vec![])).expect("nobody"), None);
        assert_eq!(leader(view(vec![holder(7)])).expect("a mutex"), Some(holder(7)));
        assert_eq!(leader(view(vec![broken.clone()])).expect("a mutex"), None);
        assert_eq!(leader(view(vec![broken, holder(9)])).expect("a mutex"), Some(holder(9)));
    }

    #[test]
    fn a_lock_of_another_kind_has_no_leader() {
        let mut view = View::default();
        (view.kind, view.holders) = (Kind::RwLock, vec![holder(7)]);
        let error = leader(view).expect_err("no mutex");
        assert_eq!(error.kind(), crate::ErrorKind::KindMismatch);
    }
}
