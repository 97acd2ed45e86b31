//! Foreign protocols: clients of other lock libraries and ours exclude each other on the same names.
//!
//! ```text
//!   ForeignEngine ─► Executor ─► …        the same steps as natively, by scripts with the protocol's adapter in them
//!      ├─ protocol/  what each protocol is: its keys, its kind of lock, its Lua
//!      ├─ lists      foreign clients wake waiters by a push to a list
//!      └─ events     the server tells of changes to the protocol's keys
//! ```
//!
//! A store URL asks for one with `?protocol=`. Without that nothing here is in use.

pub(crate) mod events;
mod lists;
mod popper;
pub(crate) mod protocol;

use std::sync::Arc;
use std::time::Duration;

use taketurns_core::{ClientId, Kind, Name, Pattern, Request, View};

use super::backend::StepKeys;
use super::handshake::ServerSession;
use super::handshake::verifier::Verifier;
use super::listing::Listing;
use super::router::WakeUpReader;
use super::url::{RedisConfig, Servers};
use super::{Executor, SessionAnswer, ShownLocks};
use crate::engine::{
    Answer, AnswerFuture, Engine, EngineError, EngineEvent, EngineFuture, Guarantees, Reply, Stamp,
    Wakes,
};
use events::{EventInbox, EventListener};
use lists::ListListener;
use protocol::{ForeignProtocol, ProtocolChoice, Tokens};

/// Locks that foreign clients use too, as one client sees them.
pub(super) struct ForeignEngine {
    adapter: Arc<Adapter>,
    max_lease: Duration,
    listing: Listing,
}

/// What is done otherwise than natively: which keys a step is about, what is refused, what of an answer is
/// told, and how foreign clients are listened to.
struct Adapter {
    executor: Executor,
    protocol: ProtocolChoice,
    prefix: String,
    /// Our own key must be in the same slot as the protocol's key.
    keys_are_tagged: bool,
    lists: Option<ListListener>,
    /// Of the protocol's keys, where they are of use.
    events: Option<EventListener>,
}

impl ForeignEngine {
    pub(super) async fn open(
        config: RedisConfig,
        protocol: ProtocolChoice,
        client: ClientId,
        wakes: Wakes,
    ) -> Result<Self, EngineError> {
        let wire = protocol.wire;
        let channel = format!("{}{client}", config.channels());
        // Channels and keys have nothing to do with each other; and no lock has such a character.
        let own_list = format!("{}\x01{client}", config.channels());
        let (prefix, max_lease, db) = (config.prefix.clone(), config.max_lease, config.db);
        let keys_are_tagged = matches!(config.servers, Servers::Cluster(_));
        let channels = [Some(channel.clone()), wire.channel(&channel)];
        let verifier = Verifier::new(&config, Some(wire));
        let inbox = wire.has_events().then(EventInbox::default);
        let messages = MessageFilter {
            wire,
            prefix: prefix.clone(),
            on_event: inbox.as_ref().map(|inbox| Box::new(inbox.sender()) as _),
        };
        let channels = channels.into_iter().flatten().collect();
        let wake_ups = Arc::new(WakeUpReader::new(client, wakes.clone()));
        let reader = wake_ups.clone();
        let on_message = Arc::new(move |channel: &[u8], message: &[u8]| {
            messages.handle(&reader, channel, message);
        });
        let executor = Executor::open(config, channels, verifier, wake_ups, on_message).await?;
        let lists = wire.calls();
        let lists = lists.map(|calls| ListListener::new(calls, own_list, wakes.clone()));
        let events = inbox.map(|inbox| inbox.start(executor.router.connector(), db, wakes));
        let adapter = Adapter { executor, protocol, prefix, keys_are_tagged, lists, events };
        let listing = Listing::new(keys_are_tagged);
        Ok(Self { adapter: Arc::new(adapter), max_lease, listing })
    }
}

/// Called with the name of a lock whose key has changed.
type OnEvent = Box<dyn Fn(Name) + Send + Sync>;

/// Messages of our own scripts, of the server, and of foreign clients.
struct MessageFilter {
    wire: ForeignProtocol,
    prefix: String,
    on_event: Option<OnEvent>,
}

impl MessageFilter {
    fn handle(&self, reader: &WakeUpReader, channel: &[u8], message: &[u8]) {
        let recheck = |lock| reader.wakes.push(EngineEvent::LockChanged { lock });
        if let Some(lock) = protocol::changed_lock(message, &self.prefix) {
            recheck(lock);
        } else if let Some(on_event) = &self.on_event
            && let Some(key) = events::changed_key(channel, message)
        {
            Name::new(key).into_iter().for_each(on_event);
        } else if let Some(woken) = reader.read(message) {
            reader.wakes.push(woken.without_tokens());
        } else {
            self.wire.locks_in(message).into_iter().for_each(recheck);
        }
    }
}

impl Adapter {
    /// All keys that a step of this lock is about.
    fn keys(&self, lock: &Name) -> StepKeys {
        let prefix = &self.prefix;
        let key = match self.keys_are_tagged {
            true => format!("{prefix}{}", protocol::tagged_name(lock)),
            false => [prefix, lock.as_str()].concat(),
        };
        StepKeys { lock: key.into_bytes(), foreign: (self.protocol.wire.form().keys)(lock) }
    }

    /// Refuses what the protocol has no form for.
    fn refuse(&self, request: &Request) -> Result<(), EngineError> {
        let wire = self.protocol.wire;
        match request {
            Request::Acquire(acquire) if acquire.at_least_ms > 0 => Err(wire.refuse_to_rest()),
            Request::Acquire(acquire) => self.protocol.refuse(&acquire.ask),
            Request::Finish { .. } | Request::Undo => wire.refuse(Kind::Once),
            Request::Resize { permits } => wire.refuse(Kind::Semaphore { permits: *permits }),
            Request::PoolAdd { .. } | Request::PoolRemove { .. } => wire.refuse(Kind::Pool),
            _ => Ok(()),
        }
    }

    async fn carry_out(&self, lock: &Name, request: &Request) -> Result<Answer, EngineError> {
        self.refuse(request)?;
        let (owner, waiter_lease_ms) = match request {
            Request::Acquire(acquire) => (Some(acquire.owner), acquire.waiter_lease_ms),
            Request::Release { owner, .. } => (Some(*owner), None),
            _ => (None, None),
        };
        if let (Some(lists), Some(owner)) = (&self.lists, owner) {
            match waiter_lease_ms {
                // Before it asks for a place: the step that gives it one makes the listener begin anew.
                Some(_) => lists.expect(lock, owner),
                None => lists.forget(owner),
            }
        }
        let answer = self.executor.carry_out(self.keys(lock), request).await;
        let is_queued = matches!(&answer, Ok((Answer { reply: Reply::Queued(_), .. }, _)));
        let has_left = waiter_lease_ms.is_some() && !is_queued;
        if let (Some(lists), Some(owner), true) = (&self.lists, owner, has_left) {
            lists.forget(owner);
        }
        let (answer, session) = answer?;
        if let (true, Some(lease_ms)) = (is_queued, waiter_lease_ms) {
            self.listen(lock, &session, lease_ms);
        }
        Ok(without_tokens(answer))
    }

    async fn carry_out_all(&self, calls: Vec<(Name, Request)>) -> Vec<Result<Answer, EngineError>> {
        if calls.iter().any(|(_, request)| matches!(request, Request::Acquire(_))) {
            let mut answers = Vec::with_capacity(calls.len());
            for (lock, request) in &calls {
                answers.push(self.carry_out(lock, request).await);
            }
            return answers;
        }
        let steps = calls.iter().map(|(lock, request)| (self.keys(lock), request)).collect();
        let answers = self.executor.carry_out_all(steps).await.into_iter().zip(&calls);
        let read = |(answer, (lock, request)): (Result<SessionAnswer, _>, &(Name, Request))| {
            let (answer, session) = answer?;
            if let Request::Refresh { waiter_lease_ms, .. } = request {
                self.listen(lock, &session, *waiter_lease_ms);
            }
            Ok(without_tokens(answer))
        };
        answers.map(read).collect()
    }

    /// This lock is waited for, and for so long at least: what foreign clients do to it matters.
    fn listen(&self, lock: &Name, session: &ServerSession, lease_ms: u64) {
        if let Some(lists) = &self.lists {
            lists.listen(&self.executor.router);
        }
        if let Some(events) = &self.events {
            events.want(lock, session.connection(), lease_ms);
        }
    }
}

fn without_tokens(answer: Answer) -> Answer {
    Answer { reply: answer.reply.without_tokens(), ..answer }
}

impl Engine for ForeignEngine {
    fn call(&self, lock: &Name, request: Request) -> AnswerFuture {
        let (adapter, lock) = (self.adapter.clone(), lock.clone());
        AnswerFuture::later(async move { adapter.carry_out(&lock, &request).await })
    }

    fn call_all<'a>(
        &'a self,
        calls: Vec<(Name, Request)>,
    ) -> EngineFuture<'a, Vec<Result<Answer, EngineError>>> {
        Box::pin(self.adapter.carry_out_all(calls))
    }

    fn source(&self, lock: &Name) -> u64 {
        self.adapter.executor.router.source(&self.adapter.keys(lock).lock)
    }

    fn ping(&self) -> EngineFuture<'_, Result<Stamp, EngineError>> {
        Box::pin(self.adapter.executor.ping())
    }

    fn view<'a>(
        &'a self,
        lock: &'a Name,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Option<View>, EngineError>> {
        Box::pin(async move {
            let keys = self.adapter.keys(lock);
            let view = self.adapter.executor.view(keys, waiters_max).await?;
            Ok(view.map(Tokens::without_tokens))
        })
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
            prefix: &self.adapter.prefix,
            keys: |name: &Name| self.adapter.keys(name),
            show: Tokens::without_tokens,
        };
        Box::pin(self.adapter.executor.list(shown, pattern, after, max, waiters_max))
    }

    fn max_lease(&self) -> Duration {
        self.max_lease
    }

    fn guarantees(&self) -> Guarantees {
        self.adapter.protocol.wire.form().guarantees
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        let Adapter { lists, events, executor, .. } = &*self.adapter;
        lists.iter().for_each(ListListener::close);
        events.iter().for_each(EventListener::close);
        Box::pin(executor.router.close())
    }
}
