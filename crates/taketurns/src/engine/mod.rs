//! Engines: where locks are kept. One trait, and an engine per file or folder.
//!
//! ```text
//!   client ── call(name, request) ──► engine     one atomic step of the lock
//!   client ◄─ reply, stamped with the engine's time
//!   client ◄─ Wakes (EngineEvent) ───  engine     another client's step concerned us
//! ```
//!
//! An engine carries out [`Request`]s as [`taketurns_core::Lock::apply`] does, whatever it is made
//! of, and delivers wake-ups. Everything else (waiting, renewing, giving up) is the client's.
//! `taketurns-conformance` tries an engine against all of it.

#[cfg(feature = "file")]
mod file;
mod memory;
#[cfg(feature = "redis")]
mod nodes;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod quorum;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod redlock;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod server_url;
#[cfg(any(feature = "file", feature = "postgres"))]
mod stored;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::join_all;
use taketurns_core::{ClientId, Name, View, limits};

pub use crate::client::Wakes;
pub use crate::clock::{Clock, ManualClock};
use crate::doctor::Report;
#[cfg(feature = "file")]
pub use file::FileEngine;
pub use memory::{MemoryEngine, MemoryStore};
pub use taketurns_core::session::Origin;
pub use taketurns_core::{
    AcquireRequest, AttemptEnd, Grant, Now, Owner, Pattern, Place, Refusal, Reply, Request, Wake,
    WakeEvent,
};
/// What only the nodes of a quorum are asked, and answer.
#[doc(hidden)]
pub use taketurns_core::{Ballot, Vote, WriteBack};

/// A future that an engine answers with. It must not need a runtime to be polled: the caller's may
/// be any, or none.
pub type EngineFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The answer to a request: ready, or to be awaited. Polled like an [`EngineFuture`].
#[must_use = "an answer may be on its way until it is polled"]
pub enum AnswerFuture {
    /// The engine has answered at once. `None` once that was taken.
    Now(Option<Result<Answer, EngineError>>),
    /// A future for the answer. The caller may drop it; the request may still be carried out.
    Later(EngineFuture<'static, Result<Answer, EngineError>>),
}

impl AnswerFuture {
    /// An answer that is ready.
    pub fn now(answer: Result<Answer, EngineError>) -> Self {
        Self::Now(Some(answer))
    }

    /// An answer to be awaited.
    pub fn later(
        answer: impl Future<Output = Result<Answer, EngineError>> + Send + 'static,
    ) -> Self {
        Self::Later(Box::pin(answer))
    }
}

impl Future for AnswerFuture {
    type Output = Result<Answer, EngineError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Now(answer) => answer.take().map_or(Poll::Pending, Poll::Ready),
            Self::Later(answer) => answer.as_mut().poll(context),
        }
    }
}

/// The engine could not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The request was not carried out, and can be sent again: the store is down or busy.
    #[error("{0}")]
    Unreachable(String),
    /// The same, and the store will answer by itself: its server is reading its data, as after a reboot.
    /// [`crate::Connect`] waits for that.
    #[error("{0}")]
    Loading(String),
    /// The same: too few nodes of a quorum are there.
    #[error("{0}")]
    NoQuorum(crate::NoQuorum),
    /// The request may or may not have been carried out, and can be sent again.
    #[error("{0}")]
    Unknown(String),
    /// The request was not carried out, and sending it again would not help: damaged, full, of
    /// another format, not permitted.
    #[error("{0}")]
    Broken(String),
    /// The request was not carried out, and never will be: the engine has no such thing.
    #[error("{0}")]
    Unsupported(String),
    /// The request was not carried out: the foreign protocol of this engine has no fencing tokens, and its URL does
    /// not accept that.
    #[error("the foreign protocol has no fencing tokens")]
    Unfenced,
}

impl EngineError {
    /// Will the store answer by itself, once servers have read their data?
    pub(crate) fn is_loading(&self) -> bool {
        match self {
            Self::Loading(_) => true,
            Self::NoQuorum(missing) => missing.is_loading(),
            _ => false,
        }
    }
}

/// The engine's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Its lease clock.
    pub now_ms: u64,
    /// Whose clock it is.
    pub origin: Origin,
    /// When the request was sent, in µs on the client's clock, if the engine has looked: connecting may take
    /// long, and is no time that the request was under way. Else it was sent no sooner than the engine was called.
    pub sent_us: Option<u64>,
}

/// A reply with the engine's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What the lock said.
    pub reply: Reply,
    /// The engine's time at that step. `None` only for a release that did not look at it.
    pub stamp: Option<Stamp>,
    /// One step was not enough, and the engine does not go on by itself: a [`Request::Tick`] is
    /// wanted.
    pub more: bool,
}

/// What an engine promises, for people and for programs that must not rely on more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Guarantees {
    /// First come, first served.
    pub fair: bool,
    /// Every grant has a token larger than the one before.
    pub fenced: bool,
    /// A release wakes the next waiter, so waiters do not poll.
    pub event_driven: bool,
    /// What the state outlives.
    pub survives: Durability,
}

/// What the state of an engine outlives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing: it ends with the process.
    Nothing,
    /// The end of any process on the machine.
    ProcessExit,
    /// The end of any client and its machine. What outlives the server itself is up to the server's
    /// persistence; what it may have forgotten is not granted again before it is over.
    AnyClient,
    /// The loss of any minority of its servers, with all that they knew.
    MinorityOfServers,
}

impl Guarantees {
    /// All that there is, with this much endurance.
    pub const fn full(survives: Durability) -> Self {
        Self { fair: true, fenced: true, event_driven: true, survives }
    }
}

/// Where locks are kept, as seen by one client.
///
/// Every method may be called from any thread, and its future polled by any executor. It answers or
/// fails in bounded time. A future that is dropped need not stop its request, but must not hurt it.
pub trait Engine: Send + Sync + 'static {
    /// Carries out one request in one atomic step. An engine that never waits for anybody has done so when
    /// this returns.
    fn call(&self, lock: &Name, request: Request) -> AnswerFuture;

    /// Carries out a request that no task waits for: the release of a dropped guard, for instance. An engine whose
    /// [`Engine::call`] keeps the calling thread for long, as by a disk, does this one elsewhere.
    fn call_aside(&self, lock: &Name, request: Request) -> AnswerFuture {
        self.call(lock, request)
    }

    /// Carries out several, each a step of its own, in one round trip where the engine can.
    /// By default all at once, each by itself.
    fn call_all<'a>(
        &'a self,
        calls: Vec<(Name, Request)>,
    ) -> EngineFuture<'a, Vec<Result<Answer, EngineError>>> {
        let call = |(lock, request): (Name, Request)| -> EngineFuture<'a, _> {
            Box::pin(self.call(&lock, request))
        };
        Box::pin(join_all(calls.into_iter().map(call)))
    }

    /// Which of the engine's servers, as in [`Origin::source`], this lock is kept on. 0 if there is
    /// just one.
    fn source(&self, _lock: &Name) -> u64 {
        0
    }

    /// What time it is there. Changes nothing.
    fn ping(&self) -> EngineFuture<'_, Result<Stamp, EngineError>>;

    /// Shows one lock with its first `waiters_max` waiters; `None` if it is not known.
    fn view<'a>(
        &'a self,
        lock: &'a Name,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Option<View>, EngineError>>;

    /// Shows the locks whose name matches, in the order of their names, starting after `after`, at
    /// most `max` of them. Fewer than `max` means that there are no more.
    fn list<'a>(
        &'a self,
        pattern: &'a Pattern,
        after: Option<&'a Name>,
        max: usize,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Vec<(Name, View)>, EngineError>>;

    /// The longest lease that it takes.
    fn max_lease(&self) -> Duration;

    /// The longest waiter lease that it takes. Default: the longest that there is.
    fn max_waiter_lease(&self) -> Duration {
        Duration::from_millis(limits::WAITER_LEASE_MS_MAX)
    }

    /// What it promises.
    fn guarantees(&self) -> Guarantees;

    /// Ends this client's connection. Calls after it may fail.
    fn close(&self) -> EngineFuture<'_, ()>;
}

/// Opens an engine for one client. What [`crate::Connect`] needs to use an engine of one's own.
pub trait Open: Send + 'static {
    /// Opens it. Wake-ups for `client` are to be pushed into `wakes`.
    fn open(
        self: Box<Self>,
        client: ClientId,
        wakes: Wakes,
    ) -> EngineFuture<'static, Result<Box<dyn Engine>, EngineError>>;

    /// Another opener of the same store, for a retry after [`EngineError::Loading`]. Default: `None`, so
    /// that such an error is final.
    fn again(&self) -> Option<Box<dyn Open>> {
        None
    }
}

/// An event that an engine pushes to its client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineEvent {
    /// A wake-up for one owner of this client, with the origin of the answers it belongs to.
    Wake {
        /// The lock.
        lock: Name,
        /// What happened to whom.
        wake: Wake,
        /// Whose clock its deadline is on.
        origin: Origin,
    },
    /// The engine has found out, before the lease was over, that this owner no longer holds its lock.
    Lost {
        /// Which.
        owner: Owner,
    },
    /// Wake-ups may have been lost: every waiter has to ask again.
    Recheck,
    /// Another client has changed this lock: waiters for it have to ask again.
    LockChanged {
        /// Which.
        lock: Name,
    },
}

/// Opens the engine of a store URL without a client, for tests of engines. Call it on the runtime that is to drive the
/// connections. Wake-ups for `client` are pushed into `wakes`.
///
/// # Errors
/// [`crate::Error::InvalidUrl`], [`crate::Error::Unreachable`], [`crate::Error::NoQuorum`] or
/// [`crate::Error::Store`].
#[doc(hidden)]
pub async fn open(
    url: &str,
    client: ClientId,
    wakes: Wakes,
) -> Result<Box<dyn Engine>, crate::Error> {
    by_url(url)?.open(client, wakes).await.map_err(crate::Error::from_store)
}

/// Looks at a store, as [`crate::doctor::examine`] says it. To be polled on the runtime that is to drive
/// its connections.
pub(crate) async fn examine(url: &str) -> Result<Report, crate::Error> {
    // An invalid URL gives the same error as connecting.
    drop(by_url(url)?);
    match url.split_once(':') {
        #[cfg(feature = "redis")]
        Some(("quorum", list)) => nodes::examine(list).await,
        #[cfg(feature = "file")]
        Some(("file", path)) => Ok(file::examine(path)?),
        #[cfg(feature = "postgres")]
        Some(("postgres" | "postgresql", _)) => postgres::examine(url).await,
        #[cfg(feature = "redis")]
        Some((scheme, _)) if scheme.starts_with("redis") => redis::examine(url).await,
        _ => Ok(memory::examine()),
    }
}

/// The statements that make the tables of the PostgreSQL engine from those of this version, for a user who may: from
/// version 0 in a database without them. The engine makes them itself at its first use if its user may.
#[cfg(feature = "postgres")]
pub fn postgres_schema(from: u32) -> String {
    postgres::schema_sql(from)
}

/// What a URL may start with.
const SCHEMES: &str = "file:, postgres://, redis://, rediss://, redis+sentinel://, redis+cluster://, quorum: or memory:";

#[cfg(feature = "redis")]
fn redis_by_url(url: &str) -> Result<Box<dyn Open>, crate::Error> {
    redis::OpenRedis::new(url).map(|open| Box::new(open) as Box<dyn Open>)
}

#[cfg(feature = "redis")]
fn quorum_by_url(list: &str) -> Result<Box<dyn Open>, crate::Error> {
    let members = nodes::NodeList::parse(list).map_err(crate::Error::InvalidUrl)?;
    Ok(match members.plain {
        None => Box::new(quorum::OpenQuorum::new(members)),
        Some(unfenced) => Box::new(redlock::OpenRedlock::new(members, unfenced)),
    })
}

#[cfg(not(feature = "redis"))]
fn redis_by_url(_: &str) -> Result<Box<dyn Open>, crate::Error> {
    Err(crate::Error::InvalidUrl("Redis needs this crate's feature `redis`".into()))
}

/// The store of that name on the simulated machine that this runs on.
#[cfg(feature = "simulation")]
fn simulated(name: &str) -> Result<Box<dyn Open>, String> {
    let store = crate::simulation::ask(|machine| machine.store(name)).flatten();
    store.ok_or_else(|| format!("no simulation has a store {name:?}"))
}

fn is_scheme(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// The opener for a store URL.
pub(crate) fn by_url(url: &str) -> Result<Box<dyn Open>, crate::Error> {
    let invalid = |why: &str| crate::Error::InvalidUrl(why.to_owned());
    let unknown = || {
        format!("it must start with {SCHEMES}, as in file:/var/lib/app/locks.db or redis://host")
    };
    let (scheme, rest) = url.split_once(':').ok_or_else(|| invalid(&unknown()))?;
    match scheme {
        #[cfg(feature = "redis")]
        "quorum" => quorum_by_url(rest),
        #[cfg(not(feature = "redis"))]
        "quorum" => Err(invalid("quorum: needs this crate's feature `redis`")),
        "memory" => Ok(Box::new(MemoryStore::named(rest))),
        #[cfg(feature = "simulation")]
        "simulated" => simulated(rest).map_err(crate::Error::InvalidUrl),
        #[cfg(feature = "file")]
        "file" => file::OpenFile::new(rest).map(|open| Box::new(open) as Box<dyn Open>),
        #[cfg(not(feature = "file"))]
        "file" => Err(invalid("file: needs this crate's feature `file`")),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => {
            postgres::OpenPostgres::new(url).map(|open| Box::new(open) as Box<dyn Open>)
        }
        #[cfg(not(feature = "postgres"))]
        "postgres" | "postgresql" => {
            Err(invalid("PostgreSQL needs this crate's feature `postgres`"))
        }
        "redis" | "rediss" | "redis+sentinel" | "rediss+sentinel" | "redis+cluster"
        | "rediss+cluster" => redis_by_url(url),
        // The scheme alone, if it is one: all else may be a password.
        other if is_scheme(other) && rest.starts_with("//") => {
            Err(invalid(&format!("there is no engine {other:?}: use {SCHEMES}")))
        }
        _ => Err(invalid(&unknown())),
    }
}
