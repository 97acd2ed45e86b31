//! [`Once`]: work that is done once.
//!
//! ```text
//!   begin ── waits its turn ──► an Attempt ── done ──► everybody who asks or waits is told
//!     │                              └────── fail, or lost, or dropped ──► the next in line attempts it
//!     └──── it was done before ──► the Completion: by whom, and when
//! ```
//!
//! An attempt is a held lock: fenced, leased, renewed, and lost like any other. What a once adds is in the store
//! (`taketurns_core::Lock`); here are only its options and its words.

use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use taketurns_core::session::WaitLimit;
use taketurns_core::{Ask, AttemptEnd, Completion, Note, OnceTerms, Request, Token, limits};

use crate::acquire::AcquireOptions;
use crate::clock::millis;
use crate::lock::LockRef;
use crate::operation::AcquireFuture;
use crate::{Acquire, Error, Guard, Locks, ReleaseFuture};

/// Work that is done once, by the first process that asks, on any machine. See [`Locks::once`].
///
/// It is a mutex that remembers that the work is done. From then on everybody who asks, and everybody who waits, is told
/// who did it and when, until that is forgotten. If an attempt fails, or its process dies, the next in line tries.
///
/// Work is repeated only if its process died, or was cut off from the store, after the work and before *done* was
/// recorded, or if the store has lost the record: [the manual](crate::manual::once) says when each store may. So let
/// the work bear being repeated, or let what it writes to compare the token. A transaction in the PostgreSQL database
/// that keeps the locks can record its own work (`Attempt::done_in`, with the features `tokio-postgres` and `sqlx`).
///
/// ```
/// # use taketurns::blocking::Wait;
/// # async {
/// # let locks = taketurns::connect("memory:").await?;
/// use std::convert::Infallible;
/// use taketurns::OnceOutcome;
///
/// let nightly = locks.once("nightly/2026-11-16");
/// let report = nightly.run(async |_token| Ok::<_, Infallible>("written")).await?;
/// assert!(matches!(report, OnceOutcome::DidIt("written")));
/// let again = nightly.run(async |_token| Ok::<_, Infallible>("written")).await?;
/// assert!(matches!(again, OnceOutcome::DoneBefore(_)));
/// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
/// ```
///
/// # Errors
/// What begins an attempt gives the errors of [`Acquire`]; [`Error::Exhausted`] if as many attempts
/// failed as [`Once::attempts`] allows; [`Error::InvalidOnce`] for options that can't be; [`Error::KindMismatch`] if
/// the lock of that name is in use as another kind. A quorum and foreign protocols have no once:
/// [`Error::Unsupported`].
#[derive(Clone, Debug)]
pub struct Once {
    lock: LockRef,
    options: AcquireOptions,
    terms: OnceTerms,
    /// Which option can't be, if one can't.
    invalid: Option<&'static str>,
}

impl Once {
    pub(crate) fn new(locks: &Locks, name: &str) -> Self {
        let keep_ms = limits::REMEMBER_MS_DEFAULT;
        let terms = OnceTerms { keep_ms, offset_ms: None, attempts: 0, pause_ms: 0 };
        let (lock, options) = (LockRef::new(locks, name), AcquireOptions::default());
        Self { lock, options, terms, invalid: None }
    }

    /// Sets how long it is remembered that the work is done, or how often it failed, by the store's wall clock. From 1 s
    /// to 31 days. Default: 24 hours.
    pub fn remember_for(mut self, time: Duration) -> Self {
        (self.terms.keep_ms, self.terms.offset_ms) = (millis(time), None);
        self.check_remembered()
    }

    /// Lets the work be done once per period instead: what became of it is forgotten when the period ends in which the
    /// attempt began. Periods of this length, from 1 s to 31 days, begin `offset` after 1970-01-01 00:00 UTC and its
    /// multiples, by the store's wall clock. So `every(24 h, 12 h)` begins a period each day at noon UTC.
    ///
    /// Let a period begin when nobody begins the work: of two machines that begin it at about that time, by clocks that
    /// differ, one asks in the period before.
    pub fn every(mut self, length: Duration, offset: Duration) -> Self {
        (self.terms.keep_ms, self.terms.offset_ms) = (millis(length), Some(millis(offset)));
        if offset >= length {
            self.invalid = Some("a period begins within its length");
        }
        self.check_remembered()
    }

    fn check_remembered(mut self) -> Self {
        if !(limits::REMEMBER_MS_MIN..=limits::REMEMBER_MS_MAX).contains(&self.terms.keep_ms) {
            self.invalid = Some("it remembers for 1 s to 31 days");
        }
        self
    }

    /// Sets how many attempts may fail, at least 1: then nobody may try until that is forgotten, or undone by
    /// [`Once::undo`]. Default: no limit.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.terms.attempts = attempts;
        if attempts == 0 {
            self.invalid = Some("it takes at least 1 attempt");
        }
        self
    }

    /// Sets how long after the end of a failed attempt the next one begins; at most 24 hours. Default: at once.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.terms.pause_ms = millis(pause);
        if self.terms.pause_ms > limits::LEASE_MS_MAX {
            self.invalid = Some("a pause lasts at most 24 h");
        }
        self
    }

    /// Sets how long an attempt outlives its client: see [`Acquire::lease`](crate::Acquire::lease).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = Some(lease);
        self
    }

    /// Ends an attempt after this long: see [`Acquire::max_hold`](crate::Acquire::max_hold).
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// Sets why the work is done, for people to see. Default: nothing.
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.options.why = why.into();
        self
    }

    /// Gives up waiting after this long: see [`Acquire::within`](crate::Acquire::within). Default: waits for ever.
    pub fn within(mut self, within: Duration) -> Self {
        self.options.within = Some(within);
        self
    }

    /// Does the work, unless it is done: waits for its turn, runs `work` with the token, and records what became of it.
    /// Work that gives `Err` has failed, and the next in line tries.
    ///
    /// # Errors
    /// As [`Once`]; [`Error::Lost`] if the attempt was lost before the work was done: then the work was dropped at the
    /// `.await` where it was. After [`Error::Indeterminate`], [`Error::Unreachable`] or [`Error::NotHeld`] the work was
    /// done, but it may not be recorded.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work, and the attempt has failed.
    pub async fn run<F, Fut, T, E>(&self, work: F) -> Result<OnceOutcome<T, E>, Error>
    where
        F: FnOnce(Token) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let attempt = match self.begin().await? {
            Begun::Attempt(attempt) => attempt,
            Begun::DoneBefore(done) => return Ok(OnceOutcome::DoneBefore(done)),
        };
        let lost = attempt.lost();
        let work = work(attempt.token());
        let output = tokio::select! {
            biased;
            cause = lost => return Err(Error::Lost { lock: attempt.name().clone(), cause }),
            output = work => output,
        };
        match output {
            Ok(output) => attempt.done().await.map(|()| OnceOutcome::DidIt(output)),
            Err(error) => {
                // If this fails, the attempt ends with its lease, and counts all the same.
                let _ = attempt.fail().await;
                Ok(OnceOutcome::Failed(error))
            }
        }
    }

    /// Waits until the work is done, or until it is this client's turn to attempt it.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// # async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// use taketurns::Begun;
    ///
    /// match locks.once("migrate/42").begin().await? {
    ///     Begun::Attempt(attempt) => {
    ///         let _token = attempt.check()?; // still ours? a database can compare it
    ///         attempt.done_with("3 tables").await?;
    ///     }
    ///     Begun::DoneBefore(done) => println!("{} did it: {}", done.by, done.result),
    /// }
    /// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place, or the attempt if it was just granted.
    pub fn begin(&self) -> AcquireFuture<Begun> {
        self.acquire().start(self.options.patience())
    }

    /// Attempts the work if nobody else does or waits to. `None` if somebody does, or if it failed so recently that the
    /// pause is not over.
    pub fn try_begin(&self) -> AcquireFuture<Option<Begun>> {
        self.acquire().start(WaitLimit::Try)
    }

    fn acquire<T>(&self) -> Acquire<T> {
        let ask = match self.invalid {
            Some(why) => Err(Error::InvalidOnce(why)),
            None => Ok(Ask::Once(self.terms)),
        };
        Acquire::with(self.lock.clone(), ask, self.options.clone())
    }

    /// Returns by whom and when the work was done, if it is done. It only looks.
    ///
    /// # Errors
    /// [`Error::InvalidName`]; [`Error::Unreachable`], [`Error::Unsupported`] or [`Error::Store`].
    pub async fn completion(&self) -> Result<Option<Completion>, Error> {
        /// None is used, but stores accept no less.
        const WAITERS: usize = 1;
        let view = self.lock.locks.look(&self.lock.name.clone()?, WAITERS).await?;
        Ok(view.and_then(|view| view.work).and_then(|work| work.done))
    }

    /// Forgets that the work was done, and how often it failed: it must be done again. Returns whether there was
    /// anything to forget. An attempt that is under way goes on.
    ///
    /// # Errors
    /// [`Error::InvalidName`]; [`Error::KindMismatch`] if the lock of that name is in use as another kind;
    /// [`Error::Unreachable`], [`Error::Indeterminate`], [`Error::Unsupported`] or [`Error::Store`].
    pub async fn undo(&self) -> Result<bool, Error> {
        self.lock.change(Request::Undo).await
    }
}

/// What came of [`Once::run`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnceOutcome<T, E> {
    /// This call did the work, and it is recorded.
    DidIt(T),
    /// It was done before, or while this call waited.
    DoneBefore(Completion),
    /// This call tried, and failed.
    Failed(E),
}

/// What came of [`Once::begin`].
#[derive(Debug)]
pub enum Begun {
    /// The work is this client's to do.
    Attempt(Attempt),
    /// It was done before, or while this client waited.
    DoneBefore(Completion),
}

/// The right to do the work of a [`Once`]: a [`Guard`] that ends by saying what became of the work. Dropping it means
/// that it failed.
#[must_use = "dropping an attempt means that it failed"]
#[derive(Debug)]
pub struct Attempt(Guard);

impl Attempt {
    pub(crate) fn new(guard: Guard) -> Self {
        Self(guard.of_attempt())
    }

    /// Records that the work is done. The request is sent at once, not when the future is first polled.
    ///
    /// # Errors
    /// [`Error::Lost`] if the attempt was lost before, and then the work is not recorded as done; [`Error::NotHeld`] if
    /// its lease ended meanwhile; [`Error::Indeterminate`] or [`Error::Unreachable`] if the store did not answer: then
    /// it may be recorded or not.
    ///
    /// # Cancel safety
    /// It is recorded even if the future is dropped.
    pub fn done(self) -> ReleaseFuture {
        self.0.finish(AttemptEnd::Done(Note::default()))
    }

    /// Records that the work is done, with a result of at most 256 bytes and no control characters, for all who ask.
    ///
    /// # Errors
    /// As [`Attempt::done`]; [`Error::InvalidNote`], and then the attempt has failed.
    pub fn done_with(self, result: &str) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        // It is recorded here, not at the first poll.
        let finish = match Note::new(result) {
            Ok(result) => Ok(self.0.finish(AttemptEnd::Done(result))),
            Err(invalid) => Err((self.fail(), Error::from(invalid))),
        };
        async {
            match finish {
                Ok(done) => done.await,
                Err((failed, invalid)) => failed.await.and(Err(invalid)),
            }
        }
    }

    /// Records that the attempt failed: the next in line tries, after the pause.
    ///
    /// # Errors
    /// As [`Attempt::done`]. The attempt has failed in any case.
    ///
    /// # Cancel safety
    /// As [`Attempt::done`].
    pub fn fail(self) -> ReleaseFuture {
        self.0.finish(AttemptEnd::Failed)
    }
}

impl Deref for Attempt {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}
