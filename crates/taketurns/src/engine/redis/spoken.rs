//! What the engine does otherwise if it speaks the wire of others: which keys a step is about, what is
//! refused, what of an answer is told, and how strangers are heard. Without a wire it changes nothing.

use std::sync::Arc;

use taketurns_core::{ClientId, Kind, Name, Owner, Reply, Request, View};

use super::called::Called;
use super::events::{self, Events, Inbox};
use super::greeter::Keys;
use super::net::session::Session;
use super::net::topology::Net;
use super::net::url::{Config, Servers};
use super::protocol::{self, Protocol, Tokens, Wire};
use crate::engine::{
    AcquireRequest, Answer, Durability, EngineError, EngineEvent, Guarantees, Wakes,
};

/// The wire that is spoken, if any.
pub(super) struct Spoken {
    protocol: Option<Protocol>,
    prefix: String,
    /// Our own key has to be in the slot of the wire's.
    keys_are_tagged: bool,
    called: Called,
    /// Of the wire's keys, where they are of use.
    events: Option<Events>,
}

/// Before there is a connection.
pub(super) struct Speech {
    pub(super) spoken: Spoken,
    /// Where strangers are heard, besides the client's own channel.
    pub(super) ear: Option<String>,
    inbox: Option<Inbox>,
    db: u32,
}

impl Speech {
    /// `channels` is what those of all clients begin with.
    pub(super) fn new(config: &Config, client: ClientId, channels: &str, wakes: &Wakes) -> Self {
        let protocol = config.protocol.clone();
        let wire = protocol.as_ref().map(|protocol| protocol.wire);
        let is_cluster = matches!(config.servers, Servers::Cluster(_));
        // Channels and keys have nothing to do with each other; and no lock has such a character.
        let own_list = format!("{channels}\x01{client}");
        let inbox = wire.filter(|wire| wire.has_events()).map(|_| Inbox::default());
        let spoken = Spoken {
            called: Called::new(wire.and_then(Wire::calls), own_list, wakes.clone()),
            prefix: config.prefix.clone(),
            keys_are_tagged: wire.is_some() && is_cluster,
            protocol,
            events: None,
        };
        let ear = wire.and_then(|wire| wire.ear(&format!("{channels}{client}")));
        Self { spoken, ear, inbox, db: config.db }
    }

    /// What hears messages that are not sealed.
    pub(super) fn ears(&self) -> Ears {
        let wire = self.spoken.protocol.as_ref().map(|protocol| protocol.wire);
        let event = self.inbox.as_ref().map(|inbox| Box::new(inbox.slot()) as _);
        Ears { wire, prefix: self.spoken.prefix.clone(), event }
    }

    /// There is a connection.
    pub(super) fn begin(self, net: &Arc<Net>, wakes: Wakes) -> Spoken {
        let events = self.inbox.map(|inbox| inbox.start(net, self.db, wakes));
        Spoken { events, ..self.spoken }
    }
}

/// What is heard of a lock's name.
type Slot = Box<dyn Fn(Name) + Send + Sync>;

/// Hears what is not sealed.
pub(super) struct Ears {
    wire: Option<Wire>,
    prefix: String,
    event: Option<Slot>,
}

impl Ears {
    /// Hears what our own scripts and the server say of a wire's keys. False if it is something else.
    pub(super) fn hear(&self, message: &[u8], wakes: &Wakes) -> bool {
        if self.wire.is_none() {
            return false;
        }
        if let Some(lock) = protocol::stirred(message, &self.prefix) {
            wakes.push(EngineEvent::LockChanged { lock });
        } else if let (Some(event), Some(key)) = (&self.event, events::touched(message)) {
            Name::new(key).into_iter().for_each(event);
        } else {
            return false;
        }
        true
    }

    /// Hears what strangers say.
    pub(super) fn hear_strangers(&self, message: &[u8], wakes: &Wakes) {
        let locks = self.wire.map_or(Vec::new(), |wire| wire.heard(message));
        locks.into_iter().for_each(|lock| wakes.push(EngineEvent::LockChanged { lock }));
    }

    /// What a wake-up says to one who speaks this wire.
    pub(super) fn told(&self, woken: EngineEvent) -> EngineEvent {
        if self.wire.is_some() { woken.without_tokens() } else { woken }
    }
}

impl Spoken {
    fn wire(&self) -> Option<Wire> {
        self.protocol.as_ref().map(|protocol| protocol.wire)
    }

    /// Do keys have names in a form that no pattern matches?
    pub(super) fn keys_are_tagged(&self) -> bool {
        self.keys_are_tagged
    }

    /// All keys that a step of this lock is about.
    pub(super) fn keys(&self, lock: &Name) -> Keys {
        let prefix = &self.prefix;
        let key = match self.keys_are_tagged {
            true => format!("{prefix}{}", protocol::beside(lock)),
            false => [prefix, lock.as_str()].concat(),
        };
        let gate = self.wire().map_or(Vec::new(), |wire| (wire.form().keys)(lock));
        Keys { lock: key.into_bytes(), gate }
    }

    /// Refuses what the wire has no form for.
    pub(super) fn refuse(&self, request: &Request) -> Result<(), EngineError> {
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

    pub(super) fn guarantees(&self) -> Guarantees {
        let native = Guarantees::full(Durability::AnyClient);
        self.wire().map_or(native, |wire| wire.form().guarantees)
    }

    pub(super) fn reply(&self, reply: Reply) -> Reply {
        if self.protocol.is_some() { reply.without_tokens() } else { reply }
    }

    pub(super) fn view(&self, view: Option<View>) -> Option<View> {
        if self.protocol.is_some() { view.map(Tokens::without_tokens) } else { view }
    }

    /// To be said before an acquire is sent.
    pub(super) fn expect(&self, lock: &Name, acquire: &AcquireRequest) {
        if acquire.waiter_lease_ms.is_some() {
            self.called.expect(lock, acquire.owner);
        }
    }

    /// An acquire was answered, or was not: unless it waits, nobody calls it.
    pub(super) fn answered(&self, owner: Owner, answer: Option<&Answer>) {
        if !matches!(answer, Some(Answer { reply: Reply::Queued(_), .. })) {
            self.called.forget(owner);
        }
    }

    /// This lock is waited for, and for so long at least: what strangers do to it is of interest.
    pub(super) fn listen(&self, net: &Arc<Net>, lock: &Name, session: &Session, lease_ms: u64) {
        self.called.listen(net);
        if let Some(events) = &self.events {
            events.want(lock, &session.link, lease_ms);
        }
    }

    pub(super) fn close(&self) {
        self.called.close();
        if let Some(events) = &self.events {
            events.close();
        }
    }
}
