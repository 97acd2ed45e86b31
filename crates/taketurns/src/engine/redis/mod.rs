//! The engine in Redis or Valkey: one key per lock, and one script per kind of request; or the module,
//! where the server has it.
//!
//! ```text
//!   call ──► backend: what is said ──► router: which server ──► connection: bytes ──► one run of a server
//!   answer ◄─ decoded ◄────────────────────┘                                             │
//!   Wakes ◄── router: whose is it, is the seal right? ◄── PUBLISH ─────────────────────┘ by a step
//! ```
//!
//! | layer | question | may use |
//! |---|---|---|
//! | [`connection`] | how do bytes get there and back? | [`url`] |
//! | [`backend`] | what is said: scripts or module? | connection, [`scripts`] |
//! | [`handshake`] | who is this server, and did it forget anything? | backend, connection |
//! | [`router`] | which server: single, Sentinel, Cluster? | handshake, backend, connection |
//! | this file | the engine | all of these |
//! | [`foreign`] | how do foreign clients and ours exclude each other? | put in when the URL asks for it |

mod backend;
mod connection;
#[cfg(test)]
mod differential;
mod exam;
mod foreign;
#[cfg(test)]
mod fuzz;
mod handshake;
mod listing;
mod node;
mod router;
mod scripts;
mod url;
mod view;

use std::sync::Arc;
use std::time::Duration;

use redis::cmd;
use taketurns_core::wire::{self, WireReply};
use taketurns_core::{ClientId, Name, Owner, Pattern, Request, View};

pub(crate) use exam::{ClockReference, ExaminedNode, examine};
pub(crate) use handshake::marker::MarkerSighting;

use super::{
    Answer, AnswerFuture, Durability, Engine, EngineError, EngineFuture, Guarantees, Open, Reply,
    Stamp, Wakes,
};
use backend::{Backend, DialectMemory, LockStep, RoutedCommand, StepKeys, StepQuery};
use connection::OnMessage;
use foreign::ForeignEngine;
use handshake::ServerSession;
use handshake::query::now_ms;
use handshake::verifier::Verifier;
use listing::Listing;
use router::{RoutedReply, Router, WakeUpReader};
use url::RedisConfig;

/// A store URL that was understood.
pub(crate) struct OpenRedis {
    config: RedisConfig,
}

impl OpenRedis {
    pub(crate) fn new(url: &str) -> Result<Self, crate::Error> {
        let config = RedisConfig::parse(url).map_err(crate::Error::InvalidUrl)?;
        Ok(Self { config })
    }
}

impl Open for OpenRedis {
    fn open(
        self: Box<Self>,
        client: ClientId,
        wakes: Wakes,
    ) -> EngineFuture<'static, Result<Box<dyn Engine>, EngineError>> {
        Box::pin(async move {
            let mut config = self.config;
            Ok(match config.protocol.take() {
                None => Box::new(RedisEngine::open(config, client, wakes).await?) as _,
                Some(protocol) => {
                    Box::new(ForeignEngine::open(config, protocol, client, wakes).await?) as _
                }
            })
        })
    }

    fn again(&self) -> Option<Box<dyn Open>> {
        Some(Box::new(Self { config: self.config.clone() }))
    }
}

/// Locks in Redis or Valkey, as one client sees them.
struct RedisEngine {
    executor: Arc<Executor>,
    prefix: String,
    max_lease: Duration,
    listing: Listing,
}

impl RedisEngine {
    async fn open(
        config: RedisConfig,
        client: ClientId,
        wakes: Wakes,
    ) -> Result<Self, EngineError> {
        let (prefix, max_lease) = (config.prefix.clone(), config.max_lease);
        let channel = format!("{}{client}", config.channels());
        let verifier = Verifier::new(&config, None);
        let wake_ups = Arc::new(WakeUpReader::new(client, wakes));
        let on_message = wake_ups.on_message();
        let executor =
            Executor::open(config, vec![channel], verifier, wake_ups, on_message).await?;
        let executor = Arc::new(executor);
        Ok(Self { executor, prefix, max_lease, listing: Listing::new(false) })
    }

    fn keys(&self, lock: &Name) -> StepKeys {
        StepKeys { lock: [&self.prefix, lock.as_str()].concat().into_bytes(), foreign: Vec::new() }
    }
}

impl Engine for RedisEngine {
    fn call(&self, lock: &Name, request: Request) -> AnswerFuture {
        let (executor, keys) = (self.executor.clone(), self.keys(lock));
        AnswerFuture::later(async move { Ok(executor.carry_out(keys, &request).await?.0) })
    }

    fn call_all<'a>(
        &'a self,
        calls: Vec<(Name, Request)>,
    ) -> EngineFuture<'a, Vec<Result<Answer, EngineError>>> {
        Box::pin(async move {
            let steps = calls.iter().map(|(lock, request)| (self.keys(lock), request)).collect();
            let answers = self.executor.carry_out_all(steps).await;
            answers.into_iter().map(|answer| answer.map(|(answer, _)| answer)).collect()
        })
    }

    fn source(&self, lock: &Name) -> u64 {
        match self.executor.router.has_one_server() {
            true => 0,
            false => self.executor.router.source(&self.keys(lock).lock),
        }
    }

    fn ping(&self) -> EngineFuture<'_, Result<Stamp, EngineError>> {
        Box::pin(self.executor.ping())
    }

    fn view<'a>(
        &'a self,
        lock: &'a Name,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Option<View>, EngineError>> {
        Box::pin(self.executor.view(self.keys(lock), waiters_max))
    }

    fn list<'a>(
        &'a self,
        pattern: &'a Pattern,
        after: Option<&'a Name>,
        max: usize,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Vec<(Name, View)>, EngineError>> {
        let shown = ShownLocks {
            listing: &self.listing,
            prefix: &self.prefix,
            keys: |name: &Name| self.keys(name),
            show: |view| view,
        };
        Box::pin(self.executor.list(shown, pattern, after, max, waiters_max))
    }

    fn max_lease(&self) -> Duration {
        self.max_lease
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees::full(Durability::AnyClient)
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        Box::pin(self.executor.router.close())
    }
}

/// How often an acquire is carried out on a node that turns out to have lost its state: it is seen,
/// then given back, then asked for again; and more often only if the node loses its state anew.
const TRIES: usize = 5;

/// Carries out steps, and reads the answers. A call under way outlives the engine that began it.
struct Executor {
    router: Arc<Router>,
    wakes: Wakes,
    dialects: DialectMemory,
}

/// An answer, and the session that it came by.
type SessionAnswer = (Answer, Arc<ServerSession>);

impl Executor {
    /// Connects, and listens to these channels.
    async fn open(
        config: RedisConfig,
        channels: Vec<String>,
        verifier: Verifier,
        wake_ups: Arc<WakeUpReader>,
        on_message: OnMessage,
    ) -> Result<Self, EngineError> {
        let wakes = wake_ups.wakes.clone();
        let (config, verifier) = (Arc::new(config), Arc::new(verifier));
        let router = Router::open(config, channels, on_message, wakes.clone(), verifier).await?;
        wake_ups.set_router(&router);
        Ok(Self { router, wakes, dialects: DialectMemory::default() })
    }

    fn step<'a>(&'a self, keys: StepKeys, query: StepQuery<'a>) -> LockStep<'a> {
        LockStep { dialects: &self.dialects, keys, query }
    }

    async fn carry_out(
        &self,
        keys: StepKeys,
        request: &Request,
    ) -> Result<SessionAnswer, EngineError> {
        let step = self.step(keys, StepQuery::Step(request));
        match request {
            Request::Acquire(acquire) if !self.router.has_one_server() => {
                self.acquire_in_cluster(&step, acquire.owner).await
            }
            _ => self.once(&step).await,
        }
    }

    async fn once(&self, step: &LockStep<'_>) -> Result<SessionAnswer, EngineError> {
        self.decode(self.router.call(&step.keys.lock, step).await?)
    }

    /// The steps in a Cluster can't see the marker: what they grant may be something that the node
    /// has forgotten. So the marker is read right behind each acquire, and shows whatever was lost
    /// before it. Then the node is verified again and asked again, which puts the lock in quarantine
    /// for all, also for clients that have not noticed yet. Nobody is handed it before: we hold it.
    async fn acquire_in_cluster(
        &self,
        step: &LockStep<'_>,
        owner: Owner,
    ) -> Result<SessionAnswer, EngineError> {
        // The first try is carried out, whatever becomes of the rest.
        let unknown = |error: EngineError| EngineError::Unknown(error.to_string());
        for attempt in 0..TRIES {
            let checked = self.router.call_and_check(&step.keys.lock, step).await;
            let (reply, is_as_verified) =
                if attempt == 0 { checked? } else { checked.map_err(unknown)? };
            let (answer, session) = self.decode(reply)?;
            if !is_as_verified {
                self.router.verify_again(&session).await.map_err(unknown)?;
            } else if matches!(answer.reply, Reply::Granted(_))
                && answer.stamp.is_some_and(|stamp| session.backend.is_in_quarantine(stamp.now_ms))
            {
                // It was granted before the quarantine, and its answer lost. Perhaps not before
                // the loss.
                let release = Request::Release { owner, bury_until_ms: 0, last_used: None };
                let release = self.step(step.keys.clone(), StepQuery::Step(&release));
                self.once(&release).await.map_err(unknown)?;
            } else {
                return Ok((answer, session));
            }
        }
        Err(EngineError::Unknown("the server loses its state again and again".into()))
    }

    fn decode(&self, reply: RoutedReply) -> Result<SessionAnswer, EngineError> {
        let RoutedReply { value, session, sent_us } = reply;
        let text: Option<String> = redis::from_redis_value(value).ok();
        let owner_of = |id: &str| self.wakes.find_owner(id).map(|(owner, _)| owner);
        let decoded = text.as_deref().and_then(|text| wire::decode(text, owner_of));
        let WireReply { now_ms, more, reply } =
            decoded.ok_or_else(|| malformed(&session, "a request"))?;
        let stamp = now_ms.map(|now_ms| stamp(now_ms, &session, sent_us));
        Ok((Answer { reply, stamp, more }, session))
    }

    async fn carry_out_all(
        &self,
        steps: Vec<(StepKeys, &Request)>,
    ) -> Vec<Result<SessionAnswer, EngineError>> {
        if steps.iter().any(|(_, request)| matches!(request, Request::Acquire(_))) {
            let mut answers = Vec::with_capacity(steps.len());
            for (keys, request) in steps {
                answers.push(self.carry_out(keys, request).await);
            }
            return answers;
        }
        let calls = steps.into_iter().map(|(keys, request)| {
            let key = keys.lock.clone();
            (key, Box::new(self.step(keys, StepQuery::Step(request))) as Box<dyn RoutedCommand>)
        });
        let replies = self.router.call_all(&calls.collect::<Vec<_>>()).await;
        replies.into_iter().map(|reply| self.decode(reply?)).collect()
    }

    async fn ping(&self) -> Result<Stamp, EngineError> {
        let reply = self.router.call(b"", &|_: &Backend| cmd("TIME")).await?;
        let RoutedReply { value, session, sent_us } = reply;
        let now_ms = now_ms(&value).ok_or_else(|| malformed(&session, "TIME"))?;
        Ok(stamp(now_ms, &session, sent_us))
    }

    async fn view(&self, keys: StepKeys, waiters_max: usize) -> Result<Option<View>, EngineError> {
        let step = self.step(keys, StepQuery::View(waiters_max));
        read_view(self.router.call(&step.keys.lock, &step).await?)
    }

    /// The first `max` locks after a name that there is something to see of.
    async fn list(
        &self,
        shown: ShownLocks<'_, impl Fn(&Name) -> StepKeys, impl Fn(View) -> View>,
        pattern: &Pattern,
        after: Option<&Name>,
        max: usize,
        waiters_max: usize,
    ) -> Result<Vec<(Name, View)>, EngineError> {
        let ShownLocks { listing, prefix, keys, show } = shown;
        let names = listing.names(&self.router, prefix, pattern, after).await?;
        let mut views = Vec::new();
        for page in names.chunks(listing::LOOK) {
            let calls = page.iter().map(|name| {
                let step = self.step(keys(name), StepQuery::View(waiters_max));
                (step.keys.lock.clone(), Box::new(step) as Box<dyn RoutedCommand>)
            });
            let replies = self.router.call_all(&calls.collect::<Vec<_>>()).await;
            for (name, reply) in page.iter().zip(replies) {
                // A lock that was forgotten meanwhile is not there.
                let view = read_view(reply?)?.map(&show).filter(|view| !view.is_blank());
                views.extend(view.map(|view| (name.clone(), view)));
            }
            if views.len() >= max {
                views.truncate(max);
                return Ok(views);
            }
        }
        listing.forget();
        Ok(views)
    }
}

/// Which locks are listed, and what is shown of each.
struct ShownLocks<'a, K, S> {
    listing: &'a Listing,
    prefix: &'a str,
    keys: K,
    show: S,
}

fn read_view(reply: RoutedReply) -> Result<Option<View>, EngineError> {
    view::read(&reply.value).ok_or_else(|| malformed(&reply.session, "a look at a lock"))
}

/// What only a server that does not run our scripts would say.
fn malformed(session: &ServerSession, what: &str) -> EngineError {
    let server = &session.connection().address;
    EngineError::Broken(format!("{server} sent a malformed reply to {what}"))
}

fn stamp(now_ms: u64, session: &ServerSession, sent_us: Option<u64>) -> Stamp {
    Stamp { now_ms, origin: session.connection().origin, sent_us }
}
