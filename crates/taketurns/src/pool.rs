//! [`Pool`]: named members, each with one holder at a time.

use taketurns_core::{Ask, Member, Request};

use crate::lock::LockRef;
use crate::{Acquire, Error, Guard, Locks};

/// Named members, each with one holder at a time. See [`Locks::pool`].
#[derive(Clone, Debug)]
pub struct Pool(LockRef);

impl Pool {
    pub(crate) fn new(locks: &Locks, name: &str) -> Self {
        Self(LockRef::new(locks, name))
    }

    /// Waits for any member. If several are free, takes the one that has been free for longest.
    pub fn any(&self) -> Acquire {
        self.0.acquire(Ask::Any)
    }

    /// Takes the member that has been free for longest, if one is free.
    pub fn try_any(&self) -> Acquire<Option<Guard>> {
        self.0.acquire(Ask::Any)
    }

    /// Waits for a named member, even for one that is yet to be added.
    ///
    /// # Errors
    /// [`Error::InvalidName`], when awaited, if no member can have that name.
    pub fn member(&self, member: impl AsRef<str>) -> Acquire {
        Acquire::new(self.0.clone(), ask_member(member.as_ref()))
    }

    /// Takes a named member if it is free.
    ///
    /// # Errors
    /// As [`Pool::member`].
    pub fn try_member(&self, member: impl AsRef<str>) -> Acquire<Option<Guard>> {
        Acquire::new(self.0.clone(), ask_member(member.as_ref()))
    }

    /// Adds a member, which stays until it is removed. Returns whether it is new.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let browsers = locks.pool("browsers");
    /// assert!(browsers.add("b-1").await?);
    /// assert!(browsers.remove("b-1").await?);
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidName`]; [`Error::PoolFull`]; [`Error::KindMismatch`] if the lock is in use as another kind;
    /// [`Error::Unreachable`], [`Error::Indeterminate`], [`Error::Unsupported`] or [`Error::Store`].
    pub async fn add(&self, member: impl AsRef<str>) -> Result<bool, Error> {
        let member = Member::new(member.as_ref())?;
        self.0.change(Request::PoolAdd { member }).await
    }

    /// Removes a member; one that is held goes when it is released. Returns whether it was there.
    ///
    /// # Errors
    /// As [`Pool::add`], but for [`Error::PoolFull`].
    pub async fn remove(&self, member: impl AsRef<str>) -> Result<bool, Error> {
        let member = Member::new(member.as_ref())?;
        self.0.change(Request::PoolRemove { member }).await
    }
}

fn ask_member(member: &str) -> Result<Ask, Error> {
    Ok(Ask::Member(Member::new(member)?))
}
