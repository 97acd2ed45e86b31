//! [`Election`]: one leader at a time among those who campaign.
//!
//! ```text
//!   campaign ── waits its turn ──► leads ── resigns, or is lost ──► the next one leads
//!   observe  ── looks at the lock every so often ──► tells whenever somebody else leads
//! ```
//!
//! It is the mutex of that name with other words: who holds it leads, who waits for it campaigns. So all
//! that is promised of a mutex is promised of a leader, tokens included, and `taketurns show` shows an
//! election as it shows any lock.

mod observer;

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use taketurns_core::{Name, Token};

use crate::acquire::{Acquire, Acquiring, Waiting};
use crate::guard::Releasing;
use crate::{Error, Guard, Locks};

pub use observer::{Leader, Observer};

/// How many waiters a look shows. None is looked at, but stores take no less.
const WAITERS: usize = 1;

/// One leader at a time among those who campaign. See [`Locks::election`].
#[derive(Clone, Debug)]
pub struct Election {
    locks: Locks,
    name: Result<Name, Error>,
}

impl Election {
    pub(crate) fn new(locks: &Locks, name: &str) -> Self {
        Self { locks: locks.clone(), name: Name::new(name).map_err(Error::from) }
    }

    /// Stands for leader: waits until it is the first in line and nobody leads.
    pub fn campaign(&self) -> Campaign {
        Campaign { election: self.clone(), lease: None, within: None, why: String::new() }
    }

    /// Campaigns, and does the work while it leads. See [`Campaign::lead`].
    ///
    /// # Errors
    /// As for a campaign.
    pub async fn lead<F, Fut>(&self, work: F) -> Result<Fut::Output, Error>
    where
        F: FnMut(Option<Token>) -> Fut,
        Fut: Future,
    {
        self.campaign().lead(work).await
    }

    /// Who leads now. Nobody does while a leader that was broken has yet to stop.
    ///
    /// # Errors
    /// [`Error::InvalidName`]; [`Error::KindMismatch`] if the lock of that name is no mutex;
    /// [`Error::Unreachable`], [`Error::NoQuorum`], [`Error::Unsupported`] or [`Error::Store`].
    pub async fn leader(&self) -> Result<Option<Leader>, Error> {
        let name = self.name.clone()?;
        match self.locks.look(&name, WAITERS).await? {
            Some(view) => Leader::of(&name, &view),
            None => Ok(None),
        }
    }

    /// Watches who leads, without a part in it. See [`Observer`].
    pub fn observe(&self) -> Observer {
        Observer::new(self.clone())
    }

    pub(crate) fn locks(&self) -> &Locks {
        &self.locks
    }
}

/// A candidate: set options, then `.await` it, or let it [`lead`](Campaign::lead). Nothing is sent before
/// that. Dropping the future withdraws.
#[must_use = "a campaign does nothing until it is awaited"]
#[derive(Clone, Debug)]
pub struct Campaign {
    election: Election,
    lease: Option<Duration>,
    within: Option<Duration>,
    why: String,
}

impl Campaign {
    /// How long the leadership outlives this client; it is renewed at a third of that. The next one leads
    /// that much later if the leader dies. Default: 30 s, or what the store takes at most if that is
    /// less.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Gives up after this long, as [`Acquire::within`] does. Default: waits for ever, also through
    /// times when the store is down.
    pub fn within(mut self, within: Duration) -> Self {
        self.within = Some(within);
        self
    }

    /// Why it wants to lead, for people to see. Default: nothing.
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// Campaigns and does the work while it leads. If the leadership is lost, the work is dropped where it
    /// stands and it campaigns again, for as long as it takes: so the work may be begun several times, each
    /// time with a larger token. When the work is done, it resigns.
    ///
    /// ```
    /// # fn main() -> Result<(), taketurns::Error> {
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let locks = taketurns::connect("memory:").await?;
    /// let election = locks.election("scheduler");
    /// let jobs = election.campaign().why("node-1").lead(|_token| async { 3 }).await?;
    /// assert_eq!(jobs, 3);
    /// assert_eq!(election.leader().await?, None);
    /// # Ok(()) }) }
    /// ```
    ///
    /// # Errors
    /// As for an acquire; never [`Error::Lost`].
    pub async fn lead<F, Fut>(self, mut work: F) -> Result<Fut::Output, Error>
    where
        F: FnMut(Option<Token>) -> Fut,
        Fut: Future,
    {
        loop {
            match self.acquire().run(&mut work).await {
                Err(Error::Lost { .. }) => {}
                done => return done,
            }
        }
    }

    pub(crate) fn locks(&self) -> &Locks {
        &self.election.locks
    }

    fn acquire(&self) -> Acquire<Waiting> {
        let Election { locks, name } = &self.election;
        let ask = Ok(taketurns_core::Ask::Mutex);
        let mut acquire = Acquire::new(locks.clone(), name.clone(), ask).why(&self.why);
        if let Some(lease) = self.lease {
            acquire = acquire.lease(lease);
        }
        match self.within {
            Some(within) => acquire.within(within),
            None => acquire,
        }
    }
}

impl IntoFuture for Campaign {
    type Output = Result<Leadership, Error>;
    type IntoFuture = Campaigning;

    fn into_future(self) -> Self::IntoFuture {
        Campaigning(self.acquire().into_future())
    }
}

/// A campaign under way. Dropping it withdraws.
#[must_use = "dropping it withdraws"]
pub struct Campaigning(Acquiring<Waiting>);

impl Future for Campaigning {
    type Output = Result<Leadership, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let guard = ready!(Pin::new(&mut self.0).poll(cx))?;
        Poll::Ready(Ok(Leadership { guard }))
    }
}

/// A leader's seat, for as long as it is kept. It is a [`Guard`], to which it dereferences: `check()` right
/// before each use of what only the leader may touch, `lost()` to be told. Dropping it resigns in the
/// background.
#[must_use = "dropping a leadership resigns"]
#[derive(Debug)]
pub struct Leadership {
    guard: Guard,
}

impl Leadership {
    /// Does it still lead? Once it does not, it never does again.
    pub fn is_leader(&self) -> bool {
        self.guard.is_held()
    }

    /// Lets the next one lead, at once.
    ///
    /// # Errors
    /// As [`Guard::release`].
    pub fn resign(self) -> Releasing {
        self.guard.release()
    }

    /// The guard that it is.
    pub fn into_guard(self) -> Guard {
        self.guard
    }
}

impl Deref for Leadership {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}
