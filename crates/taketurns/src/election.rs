//! [`Election`]: one leader at a time.
//!
//! ```text
//!   campaign ── waits its turn ──► leads ── releases, or loses it ──► the next one leads
//!   observe  ── looks at the lock every so often ──► tells whenever somebody else leads
//! ```
//!
//! An election is the mutex of that name: its holder leads, and its waiters are the candidates. So a leader has every
//! guarantee of a mutex, tokens included, and `taketurns show` shows an election as it shows any lock.

mod observer;

use std::future::Future;

use taketurns_core::{Ask, HolderView, Kind, Name, Token, View};

use crate::lock::LockRef;
use crate::{Acquire, Error, Locks};

pub use observer::Observer;

/// How many waiters a view contains. None is used, but stores accept no less.
const WAITERS: usize = 1;

/// One leader at a time among the candidates. See [`Locks::election`].
#[derive(Clone, Debug)]
pub struct Election(LockRef);

impl Election {
    pub(crate) fn new(locks: &Locks, name: &str) -> Self {
        Self(LockRef::new(locks, name))
    }

    /// Campaigns: waits until nobody leads and no earlier candidate waits. The [`Guard`](crate::Guard) that it returns
    /// is the leadership: `check()` it right before each use of what only the leader may touch, `release()` it to
    /// resign.
    pub fn campaign(&self) -> Acquire {
        self.0.acquire(Ask::Mutex)
    }

    /// Campaigns, runs `work` while leading, and campaigns again if the leadership is lost. See [`Acquire::lead`] to
    /// set options.
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
    ///
    /// # Cancel safety
    /// Dropping the future drops the work and resigns.
    pub async fn lead<F, Fut>(&self, work: F) -> Result<Fut::Output, Error>
    where
        F: FnMut(Token) -> Fut,
        Fut: Future,
    {
        self.campaign().lead(work).await
    }

    /// Returns the current leader: the holder of the mutex. `None` if nobody leads, or if the leader's lock was broken
    /// and has yet to pass on.
    ///
    /// # Errors
    /// [`Error::InvalidName`]; [`Error::KindMismatch`] if the lock of that name is not a mutex; [`Error::Unreachable`],
    /// [`Error::NoQuorum`], [`Error::Unsupported`] or [`Error::Store`].
    ///
    /// # Cancel safety
    /// It only reads, so dropping the future has no effect.
    pub async fn leader(&self) -> Result<Option<HolderView>, Error> {
        let LockRef { locks, name } = &self.0;
        let name = name.clone()?;
        match locks.look(&name, WAITERS).await? {
            Some(view) => leader_of(&name, view),
            None => Ok(None),
        }
    }

    /// Returns an [`Observer`], which watches who leads without taking part.
    pub fn observe(&self) -> Observer {
        Observer::new(self.clone())
    }
}

/// Returns the leader from a view of the lock.
fn leader_of(name: &Name, view: View) -> Result<Option<HolderView>, Error> {
    if view.kind != Kind::Mutex && !view.holders.is_empty() {
        return Err(Error::KindMismatch { lock: name.clone(), is: view.kind });
    }
    // A holder whose lock was broken knows that it no longer leads.
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
