//! [`Locks`]: the locks of one store.

use std::sync::Arc;
use std::time::Duration;

use taketurns_core::session::{Answer, LossCause, Terms};
use taketurns_core::{ClientId, Grant, Name, Pattern, Reply, Request, Token, View};

use crate::clock::local_us;
use crate::connect::checked_lease;
use crate::driver::ClientHandle;
use crate::engine::Guarantees;
use crate::meter::{self, RenewalOutcome};
use crate::operation::ReleaseOperation;
use crate::{All, Election, Error, Guard, Handle, Mutex, Pool, RwLock, Semaphore};

/// How many waiters [`Locks::inspect`] shows, and how many locks are read at a time.
const PAGE: usize = 500;

/// The locks of one store. Cheap to clone; the connection ends when the last clone and the last
/// guard are dropped, once what they released is released.
#[derive(Clone)]
pub struct Locks {
    pub(crate) shared: Arc<ClientHandle>,
}

impl Locks {
    /// The mutex of that name: one holder at a time.
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(self, name.as_ref())
    }

    /// The read-write lock of that name: many readers or one writer; a waiting writer stops later
    /// readers.
    ///
    /// ```
    /// # fn main() -> Result<(), taketurns::Error> {
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let (one, two) = (locks.rwlock("cfg").read().await?, locks.rwlock("cfg").read().await?);
    /// assert!(locks.rwlock("cfg").try_write().await?.is_none());
    /// # drop((one, two)); Ok(()) }) }
    /// ```
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self, name.as_ref())
    }

    /// The semaphore of that name, with this many permits.
    ///
    /// ```
    /// # fn main() -> Result<(), taketurns::Error> {
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let gpus = locks.semaphore("gpu", 4);
    /// let three = gpus.acquire().permits(3).await?;
    /// assert!(gpus.try_acquire().permits(2).await?.is_none());
    /// locks.semaphore("gpu", 8).resize().await?; // four more, for everybody
    /// # drop(three); Ok(()) }) }
    /// ```
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        Semaphore::new(self, name.as_ref(), permits)
    }

    /// The pool of that name: named members, each with one holder at a time.
    ///
    /// ```
    /// # fn main() -> Result<(), taketurns::Error> {
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let browsers = locks.pool("browsers");
    /// browsers.add("b-1").await?;
    /// let guard = browsers.any().await?;
    /// assert_eq!(guard.member().map(|member| member.as_str()), Some("b-1"));
    /// # Ok(()) }) }
    /// ```
    pub fn pool(&self, name: impl AsRef<str>) -> Pool {
        Pool::new(self, name.as_ref())
    }

    /// Several mutexes at once, taken in the order of their names: no two `all`s deadlock.
    ///
    /// ```
    /// # fn main() -> Result<(), taketurns::Error> {
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let both = locks.all(["to", "from"]).acquire().await?;
    /// assert_eq!(both.check()?.len(), 2);
    /// # Ok(()) }) }
    /// ```
    pub fn all<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> All {
        All::new(self, names)
    }

    /// The election of that name: one leader at a time, on top of the mutex of that name.
    ///
    /// ```
    /// # fn main() -> Result<(), taketurns::Error> {
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let election = locks.election("scheduler");
    /// let leadership = election.campaign().why("node-1").await?;
    /// let token = leadership.check()?; // still the leader? the resource refuses older ones
    /// let leader = election.leader().await?.expect("it leads"); // anybody may ask
    /// assert_eq!((leader.token, leader.why.as_str()), (Some(token), "node-1"));
    /// leadership.resign().await?;
    /// # Ok(()) }) }
    /// ```
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self, name.as_ref())
    }

    /// Goes on with a lock that another process made a [`Handle`] of. Renews it first.
    ///
    /// ```
    /// # fn main() -> Result<(), taketurns::Error> {
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// # use taketurns::Handle;
    /// let text = locks.mutex("x").acquire().await?.into_handle().await?.expose();
    /// let guard = locks.adopt(Handle::parse(&text)?).await?; // elsewhere, in time
    /// # drop(guard); Ok(()) }) }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotHeld`] if its lease is over; [`Error::Lost`] if it was broken.
    pub async fn adopt(&self, handle: Handle) -> Result<Guard, Error> {
        let terms = handle.terms();
        let (grant, Answer { origin, anchor, .. }) =
            self.renew_handle(&terms, terms.lease_ms).await?;
        let client = &self.shared.client;
        let hold = client.drive(|session, now_us| {
            session.adopt(now_us, terms.clone(), handle.token(), grant, (origin, anchor))
        });
        if let Some(hold) = hold {
            meter::hold_began();
            return Ok(Guard::new(hold, None, self.shared.clone()));
        }
        // The answer took longer than the lease: nobody may rely on it, nor wait for its end.
        self.release(&handle).await.and(Err(Error::NotHeld { lock: terms.lock }))
    }

    /// Renews the lock of a handle without adopting it: for one lease of its own length, or of the
    /// given one if that ends later. Answers for how long it can be relied on from now.
    ///
    /// # Errors
    /// [`Error::NotHeld`] if its lease is over; [`Error::Lost`] if it was broken.
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
    /// [`Error::NotHeld`] if it was released before or its lease is over.
    pub async fn release(&self, handle: &Handle) -> Result<(), Error> {
        let Terms { lock, owner, lease_ms, bury_until_ms, .. } = handle.terms();
        let client = &self.shared.client;
        let id = client.drive(|session, now_us| {
            session.begin_release(now_us, &lock, owner, bury_until_ms, None, lease_ms * 1_000)
        });
        ReleaseOperation::new(client, lock, id).await
    }

    async fn renew_handle(&self, terms: &Terms, lease_ms: u64) -> Result<(Grant, Answer), Error> {
        let lock = &terms.lock;
        let client = &self.shared.client;
        let answer = client.call(lock, client.renewal(terms.owner, lease_ms)).await;
        meter::renewal(RenewalOutcome::of(&answer));
        match answer {
            Ok(ref answer @ Answer { reply: Reply::Renewed(ref grant), .. }) => {
                Ok((grant.clone(), answer.clone()))
            }
            Ok(Answer { reply: Reply::Revoked, .. }) => {
                Err(Error::Lost { lock: lock.clone(), cause: LossCause::Revoked })
            }
            Ok(_) => Err(Error::NotHeld { lock: lock.clone() }),
            Err(error) => Err(Error::from_engine(lock, error)),
        }
    }

    /// Shows one lock with its first 500 waiters (see also [`Locks::list`]); `None` if nobody used it of late. Changes nothing.
    ///
    /// # Errors
    /// [`Error::InvalidName`], [`Error::Unreachable`], [`Error::NoQuorum`], [`Error::Unsupported`] or
    /// [`Error::Store`].
    pub async fn inspect(&self, name: impl AsRef<str>) -> Result<Option<View>, Error> {
        self.look(&Name::new(name.as_ref())?, PAGE).await
    }

    /// Reads one lock with its first `waiters` waiters. A read changes nothing, so a failure leaves no outcome
    /// in doubt.
    pub(crate) async fn look(&self, name: &Name, waiters: usize) -> Result<Option<View>, Error> {
        self.shared.client.engine.view(name, waiters).await.map_err(Error::from_store)
    }

    /// Shows all locks whose name matches a pattern (`*` for any characters, `?` for one), each with
    /// its first waiter, in the order of their names. Changes nothing.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::NoQuorum`], [`Error::Unsupported`] or [`Error::Store`].
    pub async fn list(&self, pattern: &str) -> Result<Vec<(Name, View)>, Error> {
        self.list_with(pattern, 1).await
    }

    /// The same, each with its first waiters, at most so many, and 500 at most.
    ///
    /// # Errors
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

    /// Takes a lock away from its holders: see [`Break`].
    ///
    /// ```
    /// # fn main() -> Result<(), taketurns::Error> {
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let guard = locks.mutex("stuck").acquire().why("nobody knows").await?;
    /// let view = locks.inspect("stuck").await?.expect("it is held");
    /// println!("taking it from {}", view.holders[0].label);
    /// locks.break_lock("stuck").await?;
    /// guard.lost().await;
    /// # Ok(()) }) }
    /// ```
    pub fn break_lock(&self, name: impl AsRef<str>) -> Break {
        Break { locks: self.clone(), name: name.as_ref().to_owned(), token: None, at_once: false }
    }

    /// Identifies this client among the holders and waiters of a [`View`].
    pub fn client_id(&self) -> ClientId {
        self.shared.client.id
    }

    /// What the store's engine promises.
    pub fn guarantees(&self) -> Guarantees {
        self.shared.client.engine.guarantees()
    }

    /// Ends the connection once everything dropped or released is released, or after 5 s. Without
    /// this, a process that ends may leave a lock to its lease. Other clones and guards of this
    /// client must be gone; if some are left, the connection ends with the last of them instead.
    pub async fn close(self) {
        if let Some(mut shared) = Arc::into_inner(self.shared)
            && let Some(finished) = shared.finish()
        {
            let _ = finished.await;
        }
    }

    /// Carries out one request of an owner-less kind.
    pub(crate) async fn request(&self, lock: &Name, request: Request) -> Result<Reply, Error> {
        let (client, name) = (self.shared.client.clone(), lock.clone());
        let answer = client.call(&name, request).await;
        match answer.map_err(|error| Error::from_engine(lock, error))? {
            Answer { reply: Reply::Refused(refusal), anchor, .. } => {
                Err(Error::from_refusal(lock, refusal, anchor.engine_ms)
                    .unwrap_or_else(|| Error::Store(refusal.to_string())))
            }
            Answer { reply, .. } => Ok(reply),
        }
    }
}

impl std::fmt::Debug for Locks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Locks").field("client", &self.client_id()).finish_non_exhaustive()
    }
}

/// Takes a lock away from its holders, once awaited. Answers how many there were.
///
/// By default it revokes: holders can't renew any more and are told that they lost the lock, and it
/// passes on when they let go or their leases end, so nobody overlaps.
#[must_use = "a break does nothing until it is awaited"]
pub struct Break {
    locks: Locks,
    name: String,
    token: Option<Token>,
    at_once: bool,
}

impl Break {
    /// Passes the lock on at once. The holder may not have noticed when the next one starts: only
    /// the token keeps their work apart then.
    pub fn at_once(mut self) -> Self {
        self.at_once = true;
        self
    }

    /// Only the holder with this token. Default: all holders.
    pub fn token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }
}

impl IntoFuture for Break {
    type Output = Result<u32, Error>;
    type IntoFuture = std::pin::Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let name = Name::new(&self.name)?;
            let request = Request::Break { token: self.token, at_once: self.at_once };
            match self.locks.request(&name, request).await? {
                Reply::Broken(holders) => Ok(holders),
                reply => Err(Error::Store(format!("a break was answered with {reply:?}"))),
            }
        })
    }
}
