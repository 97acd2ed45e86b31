//! [`Acquire`]: a request for a lock with its options, and the future that it becomes.

use std::future::Future;
use std::marker::PhantomData;
use std::time::Duration;

use taketurns_core::session::{AcquireSpec, HoldTerms, WaitLimit};
use taketurns_core::{Ask, Label, Name, Owner, Token, limits};

use crate::client::Client;
use crate::clock::{micros, millis};
use crate::connect::checked_lease;
use crate::lock::LockRef;
use crate::operation::AcquireFuture;
use crate::telling::target;
use crate::{Error, Guard, Locks};

/// A request for a lock: set options, then `.await` it. Nothing is sent before that.
///
/// `Acquire` waits and gives a [`Guard`]. `Acquire<Option<Guard>>`, of `try_acquire` and its like, does not wait, and
/// gives `None` if others hold the lock or are before it in the queue.
///
/// ```
/// # use taketurns::blocking::Wait;
/// # async {
/// # let locks = taketurns::connect("memory:").await?;
/// use std::time::Duration;
///
/// let acquire = locks.mutex("orders/42").acquire().lease(Duration::from_secs(10)).why("ship it");
/// let guard = acquire.within(Duration::from_secs(5)).await?;
/// # drop(guard);
/// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
/// ```
///
/// # Errors
/// - What was asked for can't be: [`Error::InvalidName`], [`Error::InvalidLabel`], [`Error::InvalidLease`],
///   [`Error::InvalidMaxHold`], [`Error::InvalidPermits`], [`Error::InvalidKeep`],
///   [`Error::InvalidAtLeast`].
/// - The lock can't be had: [`Error::Timeout`], [`Error::KindMismatch`], [`Error::QueueFull`],
///   [`Error::Quarantined`], [`Error::Unfenced`].
/// - The store can't be used: [`Error::Unreachable`], [`Error::NoQuorum`], [`Error::Indeterminate`],
///   [`Error::Unsupported`], [`Error::Store`]. A request that waits goes on through an outage.
///
/// # Cancel safety
/// Dropping the future, at any point, gives up the place in the queue, or the lock if it was just granted.
#[must_use = "an acquire does nothing until it is awaited"]
#[derive(Debug)]
pub struct Acquire<T = Guard> {
    lock: LockRef,
    ask: Result<Ask, Error>,
    options: AcquireOptions,
    output: PhantomData<fn() -> T>,
}

/// The options of an acquire, whatever it is for.
#[derive(Clone, Debug)]
pub(crate) struct AcquireOptions {
    pub(crate) lease: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) why: String,
    pub(crate) within: Option<Duration>,
    pub(crate) keep: Keep,
    pub(crate) at_least: Option<Duration>,
}

impl Default for AcquireOptions {
    fn default() -> Self {
        let (lease, max_hold, why, within) = (None, None, String::new(), None);
        Self { lease, max_hold, why, within, keep: Keep::default(), at_least: None }
    }
}

impl AcquireOptions {
    pub(crate) fn patience(&self) -> WaitLimit {
        match self.within {
            None => WaitLimit::Endless,
            Some(Duration::ZERO) => WaitLimit::Try,
            // Counted from the first poll, when the acquire begins.
            Some(within) => WaitLimit::Until(micros(within)),
        }
    }

    /// Returns what the session is asked for, or why it can't be.
    fn spec(
        self,
        client: &Client,
        name: Result<Name, Error>,
        ask: Result<Ask, Error>,
        wait_limit: WaitLimit,
    ) -> Result<AcquireSpec, Error> {
        let ask = match (ask?, self.keep) {
            (ask, Keep::Turns(1)) => ask,
            (Ask::Mutex, Keep::Turns(tokens @ 1..=limits::LOCAL_TURNS_MAX)) => {
                Ask::Turns { tokens }
            }
            (Ask::Mutex, Keep::UntilWanted) if self.max_hold.is_none() => {
                Ask::Stay { tokens: limits::LOCAL_TURNS_MAX }
            }
            _ => return Err(Error::InvalidKeep),
        };
        if !ask.is_possible() {
            return Err(Error::InvalidPermits);
        }
        let max_lease = client.engine.max_lease();
        let at_least_ms = self.at_least.map_or(0, millis);
        if let Some(given) = self.at_least
            && !(ask.may_rest() && limits::is_lease(at_least_ms) && given <= max_lease)
        {
            return Err(Error::InvalidAtLeast { given, max: max_lease });
        }
        let max_hold_us = match self.max_hold {
            Some(max_hold) if millis(max_hold) < limits::LEASE_MS_MIN => {
                return Err(Error::InvalidMaxHold(max_hold));
            }
            max_hold => max_hold.map(micros),
        };
        let default = Duration::from_millis(limits::LEASE_MS_DEFAULT).min(max_lease);
        let terms = HoldTerms {
            lock: name?,
            // It has none before it begins.
            owner: Owner::from_bits(0),
            lease_ms: checked_lease(self.lease.unwrap_or(default), max_lease)?,
            max_hold_us,
            bury_until_ms: 0,
        };
        let label = match self.why.is_empty() {
            true => client.label.clone(),
            false => Label::new(&client.who, &self.why)?,
        };
        Ok(AcquireSpec { terms, ask, at_least_ms, label, wait_limit })
    }
}

/// How long a process may keep a mutex for its own use, without asking the store in between: see [`Acquire::keep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// For up to this many turns in a row, as long as tasks of this process wait for it, even if other processes wait
    /// too. At least 1, at most 10 000.
    Turns(u32),
    /// Until another process wants the lock, also while no task of this process uses it.
    UntilWanted,
}

/// One turn: the lock goes back to the store after every use.
impl Default for Keep {
    fn default() -> Self {
        Self::Turns(1)
    }
}

impl<T> Acquire<T> {
    pub(crate) fn new(lock: LockRef, ask: Result<Ask, Error>) -> Self {
        Self::with(lock, ask, AcquireOptions::default())
    }

    pub(crate) fn with(lock: LockRef, ask: Result<Ask, Error>, options: AcquireOptions) -> Self {
        Self { lock, ask, options, output: PhantomData }
    }

    /// Sets how long the lock outlives this client, which renews it after a third of that. At least 10 ms. Default:
    /// 30 s, or the longest lease of the store if that is less.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = Some(lease);
        self
    }

    /// Ends renewal after this long, at least 10 ms, so that a holder that hangs can't keep the lock for ever.
    /// Default: never.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// Sets why the lock is wanted, for people to see. Default: nothing.
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.options.why = why.into();
        self
    }

    /// Lets nobody else have what this takes for so long, counted from the grant on, even if it is released, dropped or
    /// lost before. So a job that is quick is not repeated by the next machine at once, and a permit of a semaphore is
    /// given out so often and no more. From 10 ms to the longest lease of the store. Default: it ends with the hold.
    ///
    /// Not with [`Acquire::keep`], and not on a quorum or a foreign protocol. [`Locks::break_lock`] ends it.
    ///
    /// [`Locks::break_lock`]: crate::Locks::break_lock
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// use std::time::Duration;
    ///
    /// let job = locks.mutex("job");
    /// let guard = job.try_acquire().at_least(Duration::from_secs(60)).await?.expect("it is free");
    /// guard.release().await?;
    /// assert!(job.try_acquire().await?.is_none(), "not within a minute");
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    pub fn at_least(mut self, at_least: Duration) -> Self {
        self.options.at_least = Some(at_least);
        self
    }

    pub(crate) fn start(self, patience: WaitLimit) -> AcquireFuture<T> {
        let Self { lock: LockRef { locks: Locks { shared }, name }, ask, options, .. } = self;
        let within = options.within.unwrap_or_default();
        let wanted = options.spec(&shared.client, name, ask, patience);
        AcquireFuture::new(shared, wanted, within)
    }
}

impl Acquire {
    /// Gives up after this long with [`Error::Timeout`], or with [`Error::Unreachable`] or [`Error::NoQuorum`] if the
    /// store never answered; zero tries once. The time counts from the first poll of the future. Default: waits for ever,
    /// also while the store is down.
    pub fn within(mut self, within: Duration) -> Self {
        self.options.within = Some(within);
        self
    }

    /// Lets this process keep the mutex for its own use, so that its next turn needs no round trip to the store.
    /// Default: [`Keep::Turns(1)`](Keep::Turns), so every acquire asks the store.
    ///
    /// A turn that costs no round trip takes a few microseconds. Tokens increase from turn to turn, as they always do.
    ///
    /// - [`Keep::Turns(n)`](Keep::Turns) is for a lock that many tasks of several processes want. Up to `n` tasks of
    ///   this process share one grant, one after the other. In return other processes wait for up to `n` turns instead
    ///   of one, but no longer than the lease and the turn that is under way when it ends.
    /// - [`Keep::UntilWanted`] is for a lock that one process uses again and again, and others rarely. The process
    ///   keeps it while nobody else wants it, and the next acquire takes it at once. When another process wants it, the
    ///   store tells this one, which gives the lock up at once, or at the end of the turn that is under way. So the
    ///   other one waits for that turn and one message more; if the message is lost, for up to a third of its waiter
    ///   lease more. Somebody else's [`try_acquire`](crate::Mutex::try_acquire) waits for two round trips and 20 ms
    ///   before it gives `None`. A keep that nobody uses ends within a third of its lease.
    ///
    /// Tasks share a grant only if they use the same `keep` and lease, and the same `max_hold`, which count from the
    /// first turn; `UntilWanted` can't have a `max_hold`. A task of this process that asks on other terms wants the
    /// lock like another process does. Views show the label of the first turn. The store reserves a token for each
    /// turn; when they are used up, the process asks again.
    ///
    /// The lock stays held after [`Guard::release`], so a process that ends without [`Locks::close`](crate::Locks::close)
    /// leaves it held until its lease ends.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// use taketurns::Keep;
    ///
    /// # let locks = taketurns::connect("memory:").await?;
    /// let counter = locks.mutex("counter");
    /// for _ in 0..1_000 {
    ///     let guard = counter.acquire().keep(Keep::UntilWanted).await?;
    ///     drop(guard); // kept: the next turn costs no round trip
    /// }
    /// let elsewhere = locks.mutex("counter").acquire().await?; // wants it, so the keep ends
    /// # drop(elsewhere);
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    pub fn keep(mut self, keep: Keep) -> Self {
        self.options.keep = keep;
        self
    }

    /// Waits for the lock, does the work under it, and releases it. The work gets the fencing token. If the release
    /// fails, the work is done all the same: the failure is logged, and the lock ends with its lease.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let acquire = locks.mutex("report").acquire().why("nightly");
    /// let report = acquire.run(async |token| format!("written with token {token}")).await?;
    /// # drop(report);
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`Acquire`]; [`Error::Lost`] if the lock was lost before the work was done. Then the work was dropped at the
    /// `.await` where it was.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work and releases the lock.
    pub async fn run<F, Fut>(self, work: F) -> Result<Fut::Output, Error>
    where
        F: FnOnce(Token) -> Fut,
        Fut: Future,
    {
        let guard = self.await?;
        let lost = guard.lost();
        let work = work(guard.token());
        let output = tokio::select! {
            biased;
            cause = lost => return Err(Error::Lost { lock: guard.name().clone(), cause }),
            output = work => output,
        };
        // Work that was done just as the lock was lost was not done under it.
        guard.still_held()?;
        let lock = guard.name().clone();
        if let Err(error) = guard.release().await {
            tracing::warn!(
                target: target::ACQUIRE,
                %lock,
                %error,
                "the work was done, but the lock was not released"
            );
        }
        Ok(output)
    }

    /// Does the work as [`Acquire::run`] does, but starts over if the lock is lost: it drops the work, waits for the
    /// lock again, and begins the work anew with a larger token. This is how a leader leads: see
    /// [`Locks::election`](crate::Locks::election).
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let election = locks.election("scheduler");
    /// let jobs = election.campaign().why("node-1").lead(async |_token| 3).await?;
    /// assert_eq!(jobs, 3);
    /// assert_eq!(election.leader().await?, None);
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`Acquire`]; never [`Error::Lost`].
    ///
    /// # Cancel safety
    /// Dropping the future drops the work and releases the lock.
    pub async fn lead<F, Fut>(self, mut work: F) -> Result<Fut::Output, Error>
    where
        F: FnMut(Token) -> Fut,
        Fut: Future,
    {
        loop {
            let Self { lock, ask, options, .. } = &self;
            let again = Acquire::<Guard>::with(lock.clone(), ask.clone(), options.clone());
            match again.run(&mut work).await {
                Err(Error::Lost { .. }) => {}
                done => return done,
            }
        }
    }
}

impl IntoFuture for Acquire {
    type Output = Result<Guard, Error>;
    type IntoFuture = AcquireFuture;

    fn into_future(self) -> Self::IntoFuture {
        let patience = self.options.patience();
        self.start(patience)
    }
}

impl IntoFuture for Acquire<Option<Guard>> {
    type Output = Result<Option<Guard>, Error>;
    type IntoFuture = AcquireFuture<Option<Guard>>;

    fn into_future(self) -> Self::IntoFuture {
        self.start(WaitLimit::Try)
    }
}
