//! The four kinds of lock as handles. A handle holds nothing: it is a name, and what can be asked.

use taketurns_core::{Ask, Member, Name, Reply, Request, Token};

use crate::acquire::{Acquire, Trying, Waiting};
use crate::{Error, Locks};

/// A name that is checked when it is first used, so that `locks.mutex("x")` needs no `?`.
#[derive(Clone, Debug)]
struct Named {
    locks: Locks,
    name: Result<Name, Error>,
}

impl Named {
    fn new(locks: &Locks, name: &str) -> Self {
        Self { locks: locks.clone(), name: Name::new(name).map_err(Error::from) }
    }

    fn acquire<M>(&self, ask: Result<Ask, Error>) -> Acquire<M> {
        Acquire::new(self.locks.clone(), self.name.clone(), ask)
    }
}

/// One holder at a time. See [`Locks::mutex`].
#[derive(Clone, Debug)]
pub struct Mutex(Named);

impl Mutex {
    pub(crate) fn new(locks: &Locks, name: &str) -> Self {
        Self(Named::new(locks, name))
    }

    /// Waits for the lock.
    pub fn acquire(&self) -> Acquire<Waiting> {
        self.0.acquire(Ok(Ask::Mutex))
    }

    /// Takes the lock if nobody holds it or waits for it.
    pub fn try_acquire(&self) -> Acquire<Trying> {
        self.0.acquire(Ok(Ask::Mutex))
    }

    /// Waits for the lock, does the work under it, and releases it. See [`Acquire::run`].
    ///
    /// # Errors
    /// As for an acquire; [`Error::Lost`] if the lock was lost, and then the work was dropped.
    pub async fn run<F, Fut>(&self, work: F) -> Result<Fut::Output, Error>
    where
        F: FnOnce(Option<Token>) -> Fut,
        Fut: Future,
    {
        self.acquire().run(work).await
    }
}

/// Many readers or one writer. See [`Locks::rwlock`].
#[derive(Clone, Debug)]
pub struct RwLock(Named);

impl RwLock {
    pub(crate) fn new(locks: &Locks, name: &str) -> Self {
        Self(Named::new(locks, name))
    }

    /// Waits to read, beside other readers.
    pub fn read(&self) -> Acquire<Waiting> {
        self.0.acquire(Ok(Ask::Read))
    }

    /// Waits to write, alone.
    pub fn write(&self) -> Acquire<Waiting> {
        self.0.acquire(Ok(Ask::Write))
    }

    /// Reads if no writer holds or waits.
    pub fn try_read(&self) -> Acquire<Trying> {
        self.0.acquire(Ok(Ask::Read))
    }

    /// Writes if nobody holds or waits.
    pub fn try_write(&self) -> Acquire<Trying> {
        self.0.acquire(Ok(Ask::Write))
    }
}

/// A number of permits. See [`Locks::semaphore`].
#[derive(Clone, Debug)]
pub struct Semaphore {
    named: Named,
    permits: u32,
}

impl Semaphore {
    pub(crate) fn new(locks: &Locks, name: &str, permits: u32) -> Self {
        Self { named: Named::new(locks, name), permits }
    }

    /// Waits for one permit, or for as many as [`Acquire::permits`] says.
    pub fn acquire(&self) -> Acquire<Waiting> {
        self.named.acquire(Ok(Ask::Permits { take: 1, of: self.permits }))
    }

    /// Takes permits if they are free and nobody waits.
    pub fn try_acquire(&self) -> Acquire<Trying> {
        self.named.acquire(Ok(Ask::Permits { take: 1, of: self.permits }))
    }

    /// Gives the semaphore the number of permits of this handle, also while it is in use. Who waits
    /// for more than there are then gets [`Error::KindMismatch`]. True if the number was another.
    ///
    /// # Errors
    /// [`Error::KindMismatch`] if the lock is in use as another kind.
    pub async fn resize(&self) -> Result<bool, Error> {
        let name = self.named.name.clone()?;
        changed(&self.named.locks, &name, Request::Resize { permits: self.permits }).await
    }
}

/// Named members, each with one holder at a time. See [`Locks::pool`].
#[derive(Clone, Debug)]
pub struct Pool(Named);

impl Pool {
    pub(crate) fn new(locks: &Locks, name: &str) -> Self {
        Self(Named::new(locks, name))
    }

    /// Waits for whichever member is free first; of several the one free for longest.
    pub fn any(&self) -> Acquire<Waiting> {
        self.0.acquire(Ok(Ask::Any))
    }

    /// Takes the member free for longest, if one is free.
    pub fn try_any(&self) -> Acquire<Trying> {
        self.0.acquire(Ok(Ask::Any))
    }

    /// Waits for one member, also for one that is yet to be added.
    pub fn member(&self, member: impl AsRef<str>) -> Acquire<Waiting> {
        self.0.acquire(ask_member(member.as_ref()))
    }

    /// Takes one member if it is free.
    pub fn try_member(&self, member: impl AsRef<str>) -> Acquire<Trying> {
        self.0.acquire(ask_member(member.as_ref()))
    }

    /// Adds a member, which stays until it is removed. True if it was not there.
    ///
    /// # Errors
    /// [`Error::PoolFull`]; [`Error::KindMismatch`] if the lock is in use as another kind.
    pub async fn add(&self, member: impl AsRef<str>) -> Result<bool, Error> {
        let (name, member) = (self.0.name.clone()?, Member::new(member.as_ref())?);
        changed(&self.0.locks, &name, Request::PoolAdd { member }).await
    }

    /// Removes a member; one that is held goes at its release. True if it was there.
    ///
    /// # Errors
    /// [`Error::KindMismatch`] if the lock is in use as another kind.
    pub async fn remove(&self, member: impl AsRef<str>) -> Result<bool, Error> {
        let (name, member) = (self.0.name.clone()?, Member::new(member.as_ref())?);
        changed(&self.0.locks, &name, Request::PoolRemove { member }).await
    }
}

fn ask_member(member: &str) -> Result<Ask, Error> {
    Ok(Ask::Member(Member::new(member)?))
}

async fn changed(locks: &Locks, lock: &Name, request: Request) -> Result<bool, Error> {
    match locks.request(lock, request).await? {
        Reply::Changed(changed) => Ok(changed),
        reply => Err(Error::Store(format!("a change was answered with {reply:?}"))),
    }
}
