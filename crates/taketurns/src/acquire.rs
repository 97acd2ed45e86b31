//! [`Acquire`]: what is asked for and how, and the future that it becomes.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use taketurns_core::session::{Patience, Terms, Wanted};
use taketurns_core::{Ask, Label, Name, Owner, Token, limits};

use crate::clock::{local_us, micros, millis};
use crate::connect::checked_lease;
use crate::driver::ClientHandle;
use crate::meter::WaitOutcome;
use crate::operation::{AcquireOperation, GrantedLock};
use crate::telling::AcquireSpan;
use crate::{Error, Guard, Locks};

/// Marks an [`Acquire`] that waits.
#[derive(Debug)]
pub enum Waiting {}

/// Marks an [`Acquire`] that does not.
#[derive(Debug)]
pub enum Trying {}

/// A lock to be had: set options, then `.await` it. Nothing is sent before that.
///
/// Dropping the future, at any point, gives up the place in the queue, or the lock if it was just
/// granted.
#[must_use = "an acquire does nothing until it is awaited"]
#[derive(Debug)]
pub struct Acquire<M = Waiting> {
    locks: Locks,
    name: Result<Name, Error>,
    ask: Result<Ask, Error>,
    lease: Option<Duration>,
    max_hold: Option<Duration>,
    why: String,
    limit: Option<Duration>,
    local_turns: u32,
    mode: PhantomData<M>,
}

impl<M> Acquire<M> {
    pub(crate) fn new(locks: Locks, name: Result<Name, Error>, ask: Result<Ask, Error>) -> Self {
        Self {
            locks,
            name,
            ask,
            lease: None,
            max_hold: None,
            why: String::new(),
            limit: None,
            local_turns: 1,
            mode: PhantomData,
        }
    }

    /// How long the lock outlives this client; it is renewed at a third of that. Default: 30 s, or what
    /// the store takes at most if that is less.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Ends renewal after this long, at least 10 ms: a holder that hangs can't keep the lock for ever.
    /// Default: no end.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// Why the lock is wanted, for people to see. Default: nothing.
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// How many permits of a semaphore to take. Default: 1. An error for any other kind.
    pub fn permits(mut self, permits: u32) -> Self {
        self.ask = match self.ask {
            Ok(Ask::Permits { of, .. }) => Ok(Ask::Permits { take: permits, of }),
            Ok(_) => Err(Error::InvalidPermits),
            Err(error) => Err(error),
        };
        self
    }

    pub(crate) fn locks(&self) -> &Locks {
        &self.locks
    }

    fn wanted(self, patience: Patience) -> Result<Wanted, Error> {
        let client = &self.locks.shared.client;
        let ask = match (self.ask?, self.local_turns) {
            (ask, 1) => ask,
            (Ask::Mutex, tokens @ 1..=limits::LOCAL_TURNS_MAX) => Ask::Turns { tokens },
            _ => return Err(Error::InvalidLocalTurns),
        };
        if !ask.is_possible() {
            return Err(Error::InvalidPermits);
        }
        let max_hold_us = match self.max_hold {
            Some(max_hold) if millis(max_hold) < limits::LEASE_MS_MIN => {
                return Err(Error::InvalidMaxHold(max_hold));
            }
            max_hold => max_hold.map(micros),
        };
        let max_lease = client.engine.max_lease();
        let default = Duration::from_millis(limits::LEASE_MS_DEFAULT).min(max_lease);
        let terms = Terms {
            lock: self.name?,
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
        Ok(Wanted { terms, ask, label, patience })
    }

    fn start(self, patience: Patience) -> Result<Running, Error> {
        let shared = self.locks.shared.clone();
        let wanted = self.wanted(patience)?;
        let telling = AcquireSpan::new(&wanted.terms.lock, &wanted.ask);
        let pursuit = AcquireOperation::new(shared.client.clone(), wanted);
        Ok(Running { pursuit, telling, shared })
    }
}

impl Acquire<Waiting> {
    /// Of those in this process that want this mutex at the same time, each with this option, up to so
    /// many may have it one after the other without asking the store: a turn that is handed on here
    /// takes a microsecond or so, and not a round trip. Their tokens increase as all tokens do. In
    /// return the others wait for longer: for up to so many turns where they would have waited for
    /// one, but no longer than for the length of the lease and the turn that was under way then.
    ///
    /// Those who share turns have to agree on this number, on the lease and on `max_hold`, which count
    /// from the first of the turns; others queue by themselves. To people all turns look like the
    /// first one. The store reserves a token for each turn, and may reserve fewer while many were used
    /// within a few milliseconds: then it is asked sooner. Of no effect on one that does not wait. At most
    /// 10 000. Default: 1, which is none.
    ///
    /// ```
    /// # fn main() -> Result<(), taketurns::Error> {
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let guard = locks.mutex("hot").acquire().local_turns(100).await?;
    /// # drop(guard); Ok(()) }) }
    /// ```
    pub fn local_turns(mut self, turns: u32) -> Self {
        self.local_turns = turns;
        self
    }

    /// Gives up after this long with [`Error::Timeout`], or with [`Error::Unreachable`] or
    /// [`Error::NoQuorum`] if the store never answered; zero tries once. Default: waits for ever, also
    /// through times when the store is down.
    pub fn within(mut self, within: Duration) -> Self {
        self.limit = Some(within);
        self
    }

    /// Waits for the lock, does the work under it, and releases it. The work is given the token, and
    /// is dropped where it stands if the lock is lost. If the release fails the work is done all the
    /// same: that is logged, and the lock ends with its lease.
    ///
    /// # Errors
    /// As for an acquire; [`Error::Lost`] if the lock was lost before the work was done.
    ///
    /// ```
    /// # fn main() -> Result<(), taketurns::Error> {
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let sum = locks.mutex("sum").run(|_token| async { 1 + 1 }).await?;
    /// assert_eq!(sum, 2);
    /// # Ok(()) }) }
    /// ```
    pub async fn run<F, Fut>(self, work: F) -> Result<Fut::Output, Error>
    where
        F: FnOnce(Option<Token>) -> Fut,
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
            tracing::warn!(%lock, %error, "the work was done, but the lock was not released");
        }
        Ok(output)
    }
}

impl IntoFuture for Acquire<Waiting> {
    type Output = Result<Guard, Error>;
    type IntoFuture = Acquiring<Waiting>;

    fn into_future(self) -> Self::IntoFuture {
        let patience = match self.limit {
            None => Patience::Endless,
            Some(Duration::ZERO) => Patience::Try,
            Some(within) => Patience::Until(local_us().saturating_add(micros(within))),
        };
        let (name, within) = (self.name.clone(), self.limit.unwrap_or_default());
        Acquiring { running: self.start(patience), name, within, mode: PhantomData }
    }
}

impl IntoFuture for Acquire<Trying> {
    type Output = Result<Option<Guard>, Error>;
    type IntoFuture = Acquiring<Trying>;

    fn into_future(self) -> Self::IntoFuture {
        let name = self.name.clone();
        let within = Duration::ZERO;
        Acquiring { running: self.start(Patience::Try), name, within, mode: PhantomData }
    }
}

/// An acquire under way. Dropping it gives up.
#[must_use = "dropping it gives up"]
pub struct Acquiring<M> {
    /// An error if it can't even be tried.
    running: Result<Running, Error>,
    name: Result<Name, Error>,
    within: Duration,
    mode: PhantomData<fn() -> M>,
}

struct Running {
    /// Cleans up after itself if it is dropped.
    pursuit: AcquireOperation,
    telling: AcquireSpan,
    /// The client lives as long as this does, and as the guard does that comes of it.
    shared: Arc<ClientHandle>,
}

/// Dropped while it waits, it was cancelled.
impl Drop for Running {
    fn drop(&mut self) {
        self.telling.over(WaitOutcome::Cancelled, self.pursuit.began_us());
    }
}

impl<M> Acquiring<M> {
    fn poll_guard(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Guard>, Error>> {
        let Running { pursuit, telling, shared } = match &mut self.running {
            Ok(running) => running,
            Err(error) => return Poll::Ready(Err(error.clone())),
        };
        let taken = ready!(telling.during(|| pursuit.poll(cx)));
        match &taken {
            Ok(Some(GrantedLock { hold, turn, since_us })) => {
                let token = turn.as_ref().map_or(hold.token(), |turn| turn.token);
                telling.granted(token, since_us.saturating_sub(pursuit.began_us()));
            }
            Ok(None) => telling.over(WaitOutcome::Busy, pursuit.began_us()),
            Err(error) => telling.over(WaitOutcome::of_error(error), pursuit.began_us()),
        }
        let guard =
            taken?.map(|GrantedLock { hold, turn, .. }| Guard::new(hold, turn, shared.clone()));
        Poll::Ready(Ok(guard))
    }
}

impl Future for Acquiring<Waiting> {
    type Output = Result<Guard, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let within = self.within;
        Poll::Ready(match (ready!(self.poll_guard(cx)), &self.name) {
            (Ok(Some(guard)), _) => Ok(guard),
            (Ok(None), Ok(lock)) => Err(Error::Timeout { lock: lock.clone(), within }),
            (Ok(None), Err(error)) => Err(error.clone()),
            (Err(Error::Timeout { lock, .. }), _) => Err(Error::Timeout { lock, within }),
            (Err(error), _) => Err(error),
        })
    }
}

impl Future for Acquiring<Trying> {
    type Output = Result<Option<Guard>, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_guard(cx)
    }
}
