//! [`Locks`]: the locks of one store.

use std::sync::Arc;
use std::time::Duration;

use taketurns_core::session::{HoldTerms, LossCause, TimedReply};
use taketurns_core::{ClientId, Grant, Name, Pattern, Reply, Request, View};

use crate::clock::local_us;
use crate::connect::checked_lease;
use crate::driver::ClientHandle;
use crate::engine::Guarantees;
use crate::meter::{self, RenewalOutcome};
use crate::operation::ReleaseOperation;
use crate::{All, BreakLock, Election, Error, Guard, Handle, Mutex, Once, Pool, RwLock, Semaphore};

/// How many waiters [`Locks::inspect`] shows, and how many locks one page of a listing has.
const PAGE: usize = 500;

/// The locks of one store. Cheap to clone. The connection ends when the last clone, the last lock handle (such as a
/// [`Mutex`]) and the last guard are dropped and everything they released is released.
#[derive(Clone)]
pub struct Locks {
    pub(crate) shared: Arc<ClientHandle>,
}

impl Locks {
    /// Returns the mutex of that name: one holder at a time.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let guard = locks.mutex("orders/42").acquire().await?;
    /// guard.release().await?;
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(self, name.as_ref())
    }

    /// Returns the read-write lock of that name: many readers or one writer. A waiting writer blocks later readers.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let writer = locks.rwlock("config").write().await?;
    /// assert!(locks.rwlock("config").try_read().await?.is_none());
    /// # drop(writer);
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self, name.as_ref())
    }

    /// Returns the semaphore of that name, with this many permits.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let gpus = locks.semaphore("gpu", 4);
    /// let (one, two) = (gpus.acquire().await?, gpus.acquire_many(2).await?);
    /// # drop((one, two));
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        Semaphore::new(self, name.as_ref(), permits)
    }

    /// Returns the pool of that name: named members, each with one holder at a time.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let browsers = locks.pool("browsers");
    /// browsers.add("b-1").await?;
    /// let guard = browsers.any().await?;
    /// assert_eq!(guard.member().map(|member| member.as_str()), Some("b-1"));
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    pub fn pool(&self, name: impl AsRef<str>) -> Pool {
        Pool::new(self, name.as_ref())
    }

    /// Returns several mutexes as one. They are acquired in the order of their names, so no two `all`s deadlock.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let both = locks.all(["to", "from"]).acquire().await?;
    /// assert_eq!(both.check()?.len(), 2);
    /// both.release().await?;
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    pub fn all<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> All {
        All::new(self, names)
    }

    /// Returns the election of that name: the mutex of that name, whose holder is the leader.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let election = locks.election("scheduler");
    /// let leadership = election.campaign().why("node-1").await?;
    /// let token = leadership.check()?; // still the leader? the resource refuses older ones
    /// let leader = election.leader().await?.expect("it leads"); // anybody may ask
    /// assert_eq!((leader.token, leader.label.why()), (Some(token), "node-1"));
    /// leadership.release().await?; // resigns
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self, name.as_ref())
    }

    /// Returns the once of that name: work that is done once, and remembered. See [`Once`].
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// use std::convert::Infallible;
    /// use taketurns::OnceOutcome;
    ///
    /// let migrated = locks.once("migrate/42").run(async |_token| Ok::<_, Infallible>(3)).await?;
    /// assert!(matches!(migrated, OnceOutcome::DidIt(3)));
    /// let done = locks.once("migrate/42").completion().await?.expect("it is done");
    /// println!("{} did it, with token {}", done.by, done.token);
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    pub fn once(&self, name: impl AsRef<str>) -> Once {
        Once::new(self, name.as_ref())
    }

    /// Adopts a lock that another process turned into a [`Handle`], and renews it from now on.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// # use taketurns::Handle;
    /// let text = locks.mutex("x").acquire().await?.into_handle().await?.expose();
    /// let guard = locks.adopt(Handle::parse(&text)?).await?; // elsewhere, before the lease ends
    /// # drop(guard);
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::NotHeld`] if its lease is over; [`Error::Lost`] if it was broken; [`Error::Unreachable`],
    /// [`Error::NoQuorum`], [`Error::Indeterminate`] or [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future drops the handle. The lock ends with its lease.
    pub async fn adopt(&self, handle: Handle) -> Result<Guard, Error> {
        let terms = handle.terms();
        let (grant, TimedReply { origin, anchor, .. }) =
            self.renew_handle(&terms, terms.lease_ms).await?;
        let client = &self.shared.client;
        let hold = client.drive(|session, now_us| {
            session.adopt(now_us, terms.clone(), handle.token().fenced(), grant, (origin, anchor))
        });
        if let Some(hold) = hold {
            meter::hold_began();
            return Ok(Guard::new(hold, None, self.shared.clone()));
        }
        // The reply took longer than the lease: nobody may rely on this lock, and nobody should have to wait for its
        // end.
        self.release(&handle).await.and(Err(Error::NotHeld { lock: terms.lock }))
    }

    /// Renews the lock of a handle once, without adopting it: for the handle's lease, or for the given one if that ends
    /// later. Returns how long the lock stays held.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let handle = locks.mutex("import").acquire().await?.into_handle().await?;
    /// assert!(!locks.renew(&handle, None).await?.is_zero());
    /// locks.release(&handle).await?;
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`Locks::adopt`]; [`Error::InvalidLease`].
    ///
    /// # Cancel safety
    /// Once polled, the renewal may be carried out even if the future is dropped.
    pub async fn renew(&self, handle: &Handle, lease: Option<Duration>) -> Result<Duration, Error> {
        let terms = handle.terms();
        let lease_ms = match lease {
            Some(lease) => checked_lease(lease, self.shared.client.engine.max_lease())?,
            None => terms.lease_ms,
        };
        let (grant, answer) = self.renew_handle(&terms, lease_ms).await?;
        let valid_until_us = answer.anchor.valid_until_us(grant.deadline_ms);
        Ok(Duration::from_micros(valid_until_us.saturating_sub(local_us())))
    }

    /// Releases the lock of a handle.
    ///
    /// # Errors
    /// [`Error::NotHeld`] if it was released before or its lease is over; [`Error::Unreachable`],
    /// [`Error::NoQuorum`], [`Error::Indeterminate`] or [`Error::Store`].
    ///
    /// # Cancel safety
    /// Once polled, the release goes on even if the future is dropped.
    pub async fn release(&self, handle: &Handle) -> Result<(), Error> {
        let HoldTerms { lock, owner, lease_ms, bury_until_ms, .. } = handle.terms();
        let client = &self.shared.client;
        let id = client.drive(|session, now_us| {
            session.begin_release(now_us, owner, bury_until_ms, None, lease_ms * 1_000)
        });
        ReleaseOperation::new(client, lock, id).await
    }

    async fn renew_handle(
        &self,
        terms: &HoldTerms,
        lease_ms: u64,
    ) -> Result<(Grant, TimedReply), Error> {
        let lock = &terms.lock;
        let client = &self.shared.client;
        let answer = client.call(lock, client.renewal(terms.owner, lease_ms)).await;
        meter::renewal(RenewalOutcome::of(&answer));
        match answer {
            Ok(ref answer @ TimedReply { reply: Reply::Renewed(ref grant), .. }) => {
                Ok((grant.clone(), answer.clone()))
            }
            Ok(TimedReply { reply: Reply::Revoked, .. }) => {
                Err(Error::Lost { lock: lock.clone(), cause: LossCause::Revoked })
            }
            Ok(_) => Err(Error::NotHeld { lock: lock.clone() }),
            Err(error) => Err(Error::from_engine(lock, error)),
        }
    }

    /// Reads one lock with its first 500 waiters; `None` if nobody has used it recently. Changes nothing. See also
    /// [`Locks::list`].
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// assert!(locks.inspect("orders/42").await?.is_none());
    /// let guard = locks.mutex("orders/42").acquire().why("ship it").await?;
    /// let view = locks.inspect("orders/42").await?.expect("it is held");
    /// assert_eq!((view.holders[0].label.why(), view.waiting), ("ship it", 0));
    /// # drop(guard);
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidName`], [`Error::Unreachable`], [`Error::NoQuorum`], [`Error::Unsupported`] or [`Error::Store`].
    ///
    /// # Cancel safety
    /// It only reads, so dropping the future has no effect.
    pub async fn inspect(&self, name: impl AsRef<str>) -> Result<Option<View>, Error> {
        self.look(&Name::new(name.as_ref())?, PAGE).await
    }

    /// Reads one lock with its first `waiters` waiters. A failed read changed nothing, so it is never
    /// [`Error::Indeterminate`].
    pub(crate) async fn look(&self, name: &Name, waiters: usize) -> Result<Option<View>, Error> {
        self.shared.client.engine.view(name, waiters).await.map_err(Error::from_store)
    }

    /// Reads all locks whose name matches a pattern (`*` for any characters, `?` for one), each with its first waiter,
    /// in the order of their names. Changes nothing.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let guard = locks.mutex("orders/42").acquire().await?;
    /// let names: Vec<String> =
    ///     locks.list("orders/*").await?.iter().map(|(name, _)| name.to_string()).collect();
    /// assert_eq!(names, ["orders/42"]);
    /// # drop(guard);
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::NoQuorum`], [`Error::Unsupported`] or [`Error::Store`].
    ///
    /// # Cancel safety
    /// It only reads, so dropping the future has no effect.
    pub async fn list(&self, pattern: &str) -> Result<Vec<(Name, View)>, Error> {
        self.list_with(pattern, 1).await
    }

    /// Reads the same as [`Locks::list`], but up to `waiters` waiters of each lock; at most 500.
    ///
    /// # Errors
    /// As [`Locks::list`].
    ///
    /// # Cancel safety
    /// As [`Locks::list`].
    pub async fn list_with(
        &self,
        pattern: &str,
        waiters: usize,
    ) -> Result<Vec<(Name, View)>, Error> {
        let waiters = waiters.min(PAGE);
        let pattern = Pattern::new(pattern);
        let mut all: Vec<(Name, View)> = Vec::new();
        loop {
            let after = all.last().map(|(name, _)| name);
            let page = self.shared.client.engine.list(&pattern, after, PAGE, waiters).await;
            let page = page.map_err(Error::from_store)?;
            let last = page.len() < PAGE;
            all.extend(page);
            if last {
                return Ok(all);
            }
        }
    }

    /// Takes a lock away from its holders: see [`BreakLock`].
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let guard = locks.mutex("stuck").acquire().why("nobody knows").await?;
    /// let view = locks.inspect("stuck").await?.expect("it is held");
    /// println!("taking it from {}", view.holders[0].label);
    /// locks.break_lock("stuck").await?;
    /// guard.lost().await;
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    pub fn break_lock(&self, name: impl AsRef<str>) -> BreakLock {
        BreakLock::new(self, name.as_ref())
    }

    /// Returns the id of this client, as it appears among the holders and waiters of a [`View`].
    pub fn client_id(&self) -> ClientId {
        self.shared.client.id
    }

    /// Returns the guarantees of the store's engine.
    pub fn guarantees(&self) -> Guarantees {
        self.shared.client.engine.guarantees()
    }

    /// Ends the connection once everything that was dropped or released before is released, or after 5 s. A process
    /// that ends without this, and without awaiting [`Guard::release`], may leave a lock held until its lease ends. The
    /// other clones, lock handles and guards of this client must be gone: if some are left, this returns at once, and
    /// the connection ends with the last of them.
    ///
    /// ```
    /// use taketurns::blocking::Wait;
    ///
    /// let locks = taketurns::connect("memory:").wait()?;
    /// drop(locks.mutex("orders/42").acquire().wait()?); // released in the background
    /// locks.close().wait(); // and released for sure when this returns
    /// # Ok::<(), taketurns::Error>(())
    /// ```
    ///
    /// # Cancel safety
    /// Once polled, the connection ends even if the future is dropped.
    pub async fn close(self) {
        if let Some(mut shared) = Arc::into_inner(self.shared)
            && let Some(finished) = shared.finish()
        {
            let _ = finished.await;
        }
    }

    /// Carries out one request that has no owner.
    pub(crate) async fn request(&self, lock: &Name, request: Request) -> Result<Reply, Error> {
        let (client, name) = (self.shared.client.clone(), lock.clone());
        let answer = client.call(&name, request).await;
        match answer.map_err(|error| Error::from_engine(lock, error))? {
            TimedReply { reply: Reply::Refused(refusal), anchor, .. } => {
                Err(Error::from_refusal(lock, refusal, anchor.engine_ms))
            }
            TimedReply { reply, .. } => Ok(reply),
        }
    }
}

impl std::fmt::Debug for Locks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Locks").field("client", &self.client_id()).finish_non_exhaustive()
    }
}
