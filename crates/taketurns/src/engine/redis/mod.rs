//! The engine in Redis or Valkey: one key per lock, and one script per kind of request; or the module,
//! where the server has it.
//!
//! ```text
//!   call ──► wire: which words ──► net: which server ──► ways: module or script ──► one run of it
//!   reply ◄── wire ◄─────────────────────┘                                             │
//!   Wakes ◄── watched: whose is it, is the seal right? ◄── PUBLISH ────────────────────┘ by a step
//! ```
//!
//! A server is greeted before it is asked anything: [`greeter`] compares its run with the marker
//! there, and binds the scripts to it. So a server that may have forgotten who holds what grants
//! nothing until that can't matter any more ([`marker`]).

mod called;
#[cfg(test)]
mod differential;
mod events;
#[cfg(test)]
mod fuzz;
mod greeter;
mod listing;
mod marker;
mod module;
mod net;
mod node;
mod protocol;
mod scripts;
mod view;
mod watched;
mod ways;

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use redis::cmd;
use taketurns_core::wire::{self, Answered, Verb};
use taketurns_core::{ClientId, Kind, Name, Owner, Pattern, Request, View};

pub(crate) use node::Seen;

use super::{
    Acquire, Answer, Engine, EngineError, EngineFuture, Guarantees, Open, Origin, Reply, Stamp,
    Survives, Wakes, Woken,
};
use called::Called;
use events::{Events, Inbox};
use greeter::{Greeter, Keys, time_ms};
use listing::Listing;
use net::errand::Errand;
use net::session::Session;
use net::topology::{Net, Told};
use net::url::{Config, Servers};
use protocol::{Protocol, Tokens};
use watched::Watched;
use ways::{Step, Ways};

/// A store URL that was understood.
pub(crate) struct OpenRedis {
    config: Config,
}

impl OpenRedis {
    pub(crate) fn new(url: &str) -> Result<Self, crate::Error> {
        let config = Config::parse(url).map_err(crate::Error::InvalidUrl)?;
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
            let engine = RedisEngine::open(self.config, client, wakes).await?;
            Ok(Box::new(engine) as Box<dyn Engine>)
        })
    }
}

/// Locks in Redis or Valkey, as one client sees them.
struct RedisEngine {
    net: Arc<Net>,
    watched: Arc<Watched>,
    ways: Arc<Ways>,
    prefix: String,
    max_lease: Duration,
    listing: Listing,
    protocol: Option<Protocol>,
    called: Called,
    /// Of the wire's keys, where they are of use.
    events: Option<Events>,
    is_cluster: bool,
}

impl RedisEngine {
    async fn open(config: Config, client: ClientId, wakes: Wakes) -> Result<Self, EngineError> {
        let channels = format!("{}wake:", config.prefix);
        let channel = format!("{channels}{client}");
        // Channels and keys have nothing to do with each other; and no lock has such a character.
        let own_list = format!("{channels}\x01{client}");
        let wire = config.protocol.as_ref().map(|protocol| protocol.wire);
        let ear = wire.and_then(|wire| wire.ear(&channel));
        let greeter = Arc::new(Greeter::new(&config, channels));
        let watched = Arc::new(Watched::new(client));
        let net_of: Arc<OnceLock<Weak<Net>>> = Arc::default();
        let (prefix, max_lease) = (config.prefix.clone(), config.max_lease);
        let protocol = config.protocol.clone();
        let is_cluster = matches!(config.servers, Servers::Cluster(_));
        let db = config.db;
        let inbox = protocol.as_ref().filter(|protocol| protocol.wire.has_events());
        let inbox = inbox.map(|_| Inbox::default());
        let hear = {
            let (watched, wakes, net_of) = (watched.clone(), wakes.clone(), net_of.clone());
            let (prefix, speaks) = (prefix.clone(), wire.is_some());
            let event = inbox.as_ref().map(Inbox::slot);
            Arc::new(move |message: &[u8]| {
                let net = net_of.get().and_then(Weak::upgrade);
                let origin = |run: &str| net.as_ref().and_then(|net| net.origin_of_run(run));
                if let Some(lock) = protocol::stirred(message, &prefix).filter(|_| speaks) {
                    wakes.push(Woken::Stirred { lock });
                } else if let (Some(event), Some(key)) = (&event, events::touched(message)) {
                    Name::new(key).into_iter().for_each(event);
                } else if let Some(woken) = watched.open(message, origin) {
                    wakes.push(if speaks { woken.without_tokens() } else { woken });
                } else if let Some(wire) = wire {
                    let locks = wire.heard(message).into_iter();
                    locks.for_each(|lock| wakes.push(Woken::Stirred { lock }));
                }
            })
        };
        let calls = protocol.as_ref().and_then(|protocol| protocol.wire.calls());
        let called = Called::new(calls, own_list, wakes.clone());
        let channels = [channel].into_iter().chain(ear).collect();
        let net = Net::open(Arc::new(config), channels, hear, wakes.clone(), greeter).await?;
        let _ = net_of.set(Arc::downgrade(&net));
        let events = inbox.map(|inbox| inbox.start(&net, db, wakes));
        let (ways, listing) = (Arc::default(), Listing::new(protocol.is_some() && is_cluster));
        Ok(Self {
            net,
            watched,
            ways,
            prefix,
            max_lease,
            listing,
            protocol,
            called,
            events,
            is_cluster,
        })
    }

    fn key(&self, lock: &Name) -> Vec<u8> {
        let prefix = &self.prefix;
        match &self.protocol {
            Some(_) if self.is_cluster => format!("{prefix}{}", protocol::beside(lock)),
            _ => format!("{prefix}{lock}"),
        }
        .into_bytes()
    }

    fn step(&self, lock: &Name, verb: Verb, args: Vec<Vec<u8>>) -> (Vec<u8>, Box<dyn Errand>) {
        let key = self.key(lock);
        let gate = self.protocol.as_ref().map(|protocol| (protocol.wire.form().keys)(lock));
        let keys = Keys { lock: key.clone(), gate: gate.unwrap_or_default() };
        (key, Box::new(Step { ways: self.ways.clone(), keys, verb, args }))
    }

    fn request(&self, lock: &Name, request: &Request) -> (Vec<u8>, Box<dyn Errand>) {
        let (verb, args) = wire::encode_request(request);
        self.step(lock, verb, args)
    }

    fn show(&self, lock: &Name, waiters_max: usize) -> (Vec<u8>, Box<dyn Errand>) {
        self.step(lock, Verb::View, vec![waiters_max.to_string().into_bytes()])
    }
}

/// How often an acquire is carried out on a node that turns out to have lost its state: it is seen,
/// then given back, then asked for again; and more often only if the node loses its state anew.
const TRIES: usize = 5;

impl RedisEngine {
    /// Refuses what the wire that is spoken has no form for.
    fn refuse(&self, request: &Request) -> Result<(), EngineError> {
        let Some(protocol) = &self.protocol else { return Ok(()) };
        match request {
            Request::Acquire(acquire) => protocol.refuse(&acquire.ask),
            Request::Resize { permits } => {
                protocol.wire.refuse(Kind::Semaphore { permits: *permits })
            }
            Request::PoolAdd { .. } | Request::PoolRemove { .. } => {
                protocol.wire.refuse(Kind::Pool)
            }
            _ => Ok(()),
        }
    }

    fn seen(&self, told: Told) -> Result<Option<View>, EngineError> {
        let Told { value, session, .. } = told;
        let view = view::read(&value);
        let view = view.ok_or_else(|| strange(&session, "what a lock looks like"))?;
        Ok(if self.protocol.is_some() { view.map(Tokens::without_tokens) } else { view })
    }

    /// This lock is waited for, and for so long at least: what strangers do to it is of interest.
    fn hear_of(&self, lock: &Name, session: &Session, waiter_lease_ms: u64) {
        if let Some(events) = &self.events {
            events.want(lock, &session.link, waiter_lease_ms);
        }
    }

    async fn once(&self, lock: &Name, request: &Request) -> Result<Answer, EngineError> {
        let (key, step) = self.request(lock, request);
        self.answer(self.net.call(&key, &*step).await?)
    }

    fn answer(&self, told: Told) -> Result<Answer, EngineError> {
        let Told { value, session, sent_us } = told;
        let text: Option<String> = redis::from_redis_value(value).ok();
        let owner_of = |id: &str| self.watched.owner_of(id);
        let answered = text.as_deref().and_then(|text| wire::decode(text, owner_of));
        let Answered { now_ms, more, reply } =
            answered.ok_or_else(|| strange(&session, "a request"))?;
        let reply = if self.protocol.is_some() { reply.without_tokens() } else { reply };
        Ok(Answer { reply, stamp: stamp(now_ms, &session, sent_us), more })
    }

    async fn carry_out(&self, lock: &Name, request: &Request) -> Result<Answer, EngineError> {
        self.refuse(request)?;
        let Request::Acquire(acquire) = request else {
            return self.once(lock, request).await;
        };
        self.called.expect(lock, acquire.owner);
        let answer = self.acquire(lock, request, acquire).await?;
        if matches!(answer.reply, Reply::Queued(_)) {
            self.called.listen(&self.net);
        }
        Ok(answer)
    }

    /// The steps in a Cluster can't see the marker: what they grant may be something that the node
    /// has forgotten. So the marker is read right behind each acquire, and sees whatever was lost
    /// before it. Then the node is greeted again and asked again, which puts the lock in quarantine
    /// for all, also for those who have not noticed yet. Nobody is handed it before: we hold it.
    async fn acquire(
        &self,
        lock: &Name,
        request: &Request,
        &Acquire { owner, waiter_lease_ms, .. }: &Acquire,
    ) -> Result<Answer, EngineError> {
        // What was asked the first time is carried out, whatever becomes of the rest.
        let unknown = |error: EngineError| EngineError::Unknown(error.to_string());
        for attempt in 0..TRIES {
            let (key, step) = self.request(lock, request);
            let looked = self.net.call_and_look(&key, &*step).await;
            let (answered, as_greeted) =
                if attempt == 0 { looked? } else { looked.map_err(unknown)? };
            let session = answered.session.clone();
            let answer = self.answer(answered)?;
            if !as_greeted {
                self.net.greet_again(&session).await.map_err(unknown)?;
            } else if matches!(answer.reply, Reply::Granted(_))
                && session.bound.is_in_quarantine(answer.stamp.now_ms)
            {
                // It was granted before the quarantine, and its answer not heard. Perhaps not before
                // the loss.
                let release = Request::Release { owner, bury_until_ms: 0 };
                self.once(lock, &release).await.map_err(unknown)?;
            } else {
                if let (Reply::Queued(_), Some(lease_ms)) = (&answer.reply, waiter_lease_ms) {
                    self.hear_of(lock, &session, lease_ms);
                }
                return Ok(answer);
            }
        }
        Err(EngineError::Unknown("the server loses its state again and again".into()))
    }
}

/// What only a server that is not ours would say.
fn strange(session: &Session, what: &str) -> EngineError {
    let server = &session.link.address;
    EngineError::Broken(format!("{server} answered {what} in words that are not ours"))
}

fn stamp(now_ms: u64, session: &Session, sent_us: u64) -> Stamp {
    Stamp { now_ms, origin: session.link.origin(), sent_us: Some(sent_us) }
}

impl Engine for RedisEngine {
    fn call<'a>(
        &'a self,
        lock: &'a Name,
        request: Request,
    ) -> EngineFuture<'a, Result<Answer, EngineError>> {
        Box::pin(async move { self.carry_out(lock, &request).await })
    }

    fn call_all<'a>(
        &'a self,
        calls: Vec<(Name, Request)>,
    ) -> EngineFuture<'a, Vec<Result<Answer, EngineError>>> {
        Box::pin(async move {
            let looks = |(_, request): &(Name, Request)| matches!(request, Request::Acquire(_));
            if calls.iter().any(looks) {
                let mut answers = Vec::with_capacity(calls.len());
                for (lock, request) in &calls {
                    answers.push(self.carry_out(lock, request).await);
                }
                return answers;
            }
            let sent: Vec<_> =
                calls.iter().map(|(lock, request)| self.request(lock, request)).collect();
            let answers = self.net.call_all(&sent).await;
            let answers = answers.into_iter().zip(&calls).map(|(told, (lock, request))| {
                let told = told?;
                if let Request::Refresh { waiter_lease_ms, .. } = request {
                    self.hear_of(lock, &told.session, *waiter_lease_ms);
                }
                self.answer(told)
            });
            answers.collect()
        })
    }

    fn watch(&self, lock: &Name, owner: Owner) {
        self.watched.add(lock, owner);
    }

    fn unwatch(&self, owner: Owner) {
        self.watched.remove(owner);
        self.called.forget(owner);
    }

    fn source(&self, lock: &Name) -> u64 {
        self.net.source(&self.key(lock))
    }

    fn ping(&self) -> EngineFuture<'_, Result<Stamp, EngineError>> {
        Box::pin(async move {
            let told = self.net.call(b"", &|_: &Session| cmd("TIME")).await?;
            let Told { value, session, sent_us } = told;
            let now_ms = time_ms(&value).ok_or_else(|| strange(&session, "TIME"))?;
            Ok(stamp(now_ms, &session, sent_us))
        })
    }

    fn view<'a>(
        &'a self,
        lock: &'a Name,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Option<View>, EngineError>> {
        Box::pin(async move {
            let (key, step) = self.show(lock, waiters_max);
            self.seen(self.net.call(&key, &*step).await?)
        })
    }

    fn list<'a>(
        &'a self,
        pattern: &'a Pattern,
        after: Option<&'a Name>,
        max: usize,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Vec<(Name, View)>, EngineError>> {
        Box::pin(async move {
            let names = self.listing.names(&self.net, &self.prefix, pattern, after).await?;
            let mut views = Vec::new();
            for page in names.chunks(listing::LOOK) {
                let calls: Vec<_> = page.iter().map(|lock| self.show(lock, waiters_max)).collect();
                let answers = self.net.call_all(&calls).await;
                for (lock, answered) in page.iter().zip(answers) {
                    // One that was forgotten meanwhile is not there.
                    let view = answered.and_then(|told| self.seen(told))?;
                    if let Some(view) = view.filter(|view| !view.is_blank()) {
                        views.push((lock.clone(), view));
                    }
                }
                if views.len() >= max {
                    views.truncate(max);
                    return Ok(views);
                }
            }
            self.listing.forget();
            Ok(views)
        })
    }

    fn max_lease(&self) -> Duration {
        self.max_lease
    }

    fn guarantees(&self) -> Guarantees {
        match &self.protocol {
            Some(protocol) => protocol.wire.form().guarantees,
            None => Guarantees::full(Survives::AnyClient),
        }
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        self.called.close();
        if let Some(events) = &self.events {
            events.close();
        }
        Box::pin(self.net.close())
    }
}

/// A time that no answer ever had: what came with it can't be relied on without asking.
const UNKNOWN: Origin = Origin { source: 0, epoch: u64::MAX };
