//! The kinds of locks: [`Mutex`], [`RwLock`], [`Semaphore`] and [`Pool`]. A handle holds nothing: it is a
//! name, and what can be asked for under that name.

use std::future::Future;

use taketurns_core::{Ask, Member, Name, Reply, Request, Token};

use crate::error::malformed;
use crate::{Acquire, Error, Guard, Locks};

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

/// One holder at a time. See [`Locks::mutex`].
#[derive(Clone, Debug)]
pub struct Mutex(LockRef);

impl Mutex {
    pub(crate) fn new(locks: &Locks, name: &str) -> Self {
        Self(LockRef::new(locks, name))
    }

    /// Waits for the lock.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let guard = locks.mutex("orders/42").acquire().why("ship it").await?;
    /// guard.release().await?;
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    pub fn acquire(&self) -> Acquire {
        self.0.acquire(Ask::Mutex)
    }

    /// Takes the lock if nobody holds it or waits for it.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let guard = locks.mutex("orders/42").try_acquire().await?;
    /// assert!(guard.is_some());
    /// assert!(locks.mutex("orders/42").try_acquire().await?.is_none());
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    pub fn try_acquire(&self) -> Acquire<Option<Guard>> {
        self.0.acquire(Ask::Mutex)
    }

    /// Waits for the lock, does the work under it, and releases it. See [`Acquire::run`], which takes options.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let sum = locks.mutex("sum").run(async |_token| 1 + 1).await?;
    /// assert_eq!(sum, 2);
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`Acquire::run`].
    pub async fn run<F, Fut>(&self, work: F) -> Result<Fut::Output, Error>
    where
        F: FnOnce(Token) -> Fut,
        Fut: Future,
    {
        self.acquire().run(work).await
    }
}

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

/// A number of permits. See [`Locks::semaphore`].
#[derive(Clone, Debug)]
pub struct Semaphore {
    lock: LockRef,
    permits: u32,
}

impl Semaphore {
    pub(crate) fn new(locks: &Locks, name: &str, permits: u32) -> Self {
        Self { lock: LockRef::new(locks, name), permits }
    }

    fn ask(&self, take: u32) -> Ask {
        Ask::Permits { take, of: self.permits }
    }

    /// Waits for one permit.
    pub fn acquire(&self) -> Acquire {
        self.acquire_many(1)
    }

    /// Waits for `permits` permits, and takes all of them at once.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let gpus = locks.semaphore("gpu", 4);
    /// let three = gpus.acquire_many(3).await?;
    /// assert!(gpus.try_acquire_many(2).await?.is_none());
    /// # drop(three);
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidPermits`], when awaited, for none or for more than the semaphore has.
    pub fn acquire_many(&self, permits: u32) -> Acquire {
        self.lock.acquire(self.ask(permits))
    }

    /// Takes one permit if one is free and nobody waits.
    pub fn try_acquire(&self) -> Acquire<Option<Guard>> {
        self.try_acquire_many(1)
    }

    /// Takes `permits` permits if they are free and nobody waits.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_many`].
    pub fn try_acquire_many(&self, permits: u32) -> Acquire<Option<Guard>> {
        self.lock.acquire(self.ask(permits))
    }

    /// Changes the number of permits to that of this handle, even while the semaphore is in use. A waiter that wants
    /// more than the new number gets [`Error::KindMismatch`]. Returns whether the number was different.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let _one = locks.semaphore("gpu", 4).acquire().await?;
    /// assert!(locks.semaphore("gpu", 8).resize().await?); // four more, for everybody
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::KindMismatch`] if the lock is in use as another kind; [`Error::Unreachable`],
    /// [`Error::Indeterminate`], [`Error::Unsupported`] or [`Error::Store`].
    pub async fn resize(&self) -> Result<bool, Error> {
        self.lock.change(Request::Resize { permits: self.permits }).await
    }
}

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
