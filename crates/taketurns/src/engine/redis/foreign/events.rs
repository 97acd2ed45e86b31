//! What the server tells of changes to a protocol's keys, where its operator has that turned on
//! (`notify-keyspace-events`): so that a release by a foreign client is seen at once.
//!
//! ```text
//!   a place, or its refresh ─► this lock is waited for ─► SUBSCRIBE __keyspace@db__:name, on that connection
//!   an event ─► gathered for a moment ─► EngineEvent::LockChanged
//!   not refreshed for a waiter lease ─► UNSUBSCRIBE
//! ```
//!
//! Nothing depends on it: if events are off, or not allowed for this user, waiters still poll. Events of our own
//! acquires and renewals are recognised by their name and ignored. All others, including our releases, are passed on in
//! batches at a limited rate.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use taketurns_core::Name;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use crate::engine::redis::connection::ServerConnection;
use crate::engine::redis::connection::connector::Connector;
use crate::engine::{EngineEvent, Wakes};
use crate::sync::lock;

/// Between two notifications.
const REST: Duration = Duration::from_millis(20);

/// What channels of events begin with.
const CHANNELS: &str = "__keyspace@";

/// What our own steps do to the score of a member that is taken or kept (see `zmutex.lua`).
const OURS: &[u8] = b"zincr";

/// The key that another client changed, if a message on a channel of the server says so.
pub(crate) fn changed_key<'a>(channel: &'a [u8], event: &[u8]) -> Option<&'a str> {
    let channel = std::str::from_utf8(channel).ok()?;
    let (_, key) = channel.strip_prefix(CHANNELS)?.split_once("__:")?;
    (event != OURS).then_some(key)
}

enum EventNote {
    /// Something happened to this lock's key.
    Event(Name),
    /// Somebody waits for this lock, and for so long at least. It is behind this connection.
    Wanted { name: Name, connection: Weak<ServerConnection>, until: Instant },
}

/// Listens to events until it is closed.
pub(super) struct EventListener {
    notes: mpsc::UnboundedSender<EventNote>,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// What takes in events, and has yet to be started.
pub(super) struct EventInbox {
    notes: mpsc::UnboundedSender<EventNote>,
    noted: mpsc::UnboundedReceiver<EventNote>,
}

impl Default for EventInbox {
    fn default() -> Self {
        let (notes, noted) = mpsc::unbounded_channel();
        Self { notes, noted }
    }
}

impl EventInbox {
    /// Returns the function that takes in events.
    pub(super) fn sender(&self) -> impl Fn(Name) + Send + Sync + use<> {
        let notes = self.notes.clone();
        move |name| {
            let _ = notes.send(EventNote::Event(name));
        }
    }

    pub(super) fn start(self, connector: &Connector, db: u32, wakes: Wakes) -> EventListener {
        let task = connector.spawn(pass_on(self.noted, db, wakes));
        EventListener { notes: self.notes, task: Mutex::new(Some(task)) }
    }
}

impl EventListener {
    /// This lock, behind this connection, is waited for, and will be for so long.
    pub(super) fn want(
        &self,
        name: &Name,
        connection: &Arc<ServerConnection>,
        waiter_lease_ms: u64,
    ) {
        if connection.resp3 {
            let until = Instant::now() + Duration::from_millis(waiter_lease_ms);
            let connection = Arc::downgrade(connection);
            let _ = self.notes.send(EventNote::Wanted { name: name.clone(), connection, until });
        }
    }

    pub(super) fn close(&self) {
        *lock(&self.task) = None;
    }
}

/// A lock whose events are subscribed to, or can't be on this connection.
struct Subscription {
    connection: Weak<ServerConnection>,
    until: Instant,
}

async fn pass_on(mut noted: mpsc::UnboundedReceiver<EventNote>, db: u32, wakes: Wakes) {
    let channel = |name: &Name| format!("{CHANNELS}{db}__:{name}");
    let mut subscriptions: HashMap<Name, Subscription> = HashMap::new();
    loop {
        let due = subscriptions.values().map(|subscription| subscription.until).min();
        let first = tokio::select! {
            note = noted.recv() => match note {
                Some(note) => note,
                None => return,
            },
            () = until_some(due) => {
                let now = Instant::now();
                for (name, subscription) in subscriptions.extract_if(|_, subscription| subscription.until <= now) {
                    if let Some(connection) = subscription.connection.upgrade() {
                        connection.unsubscribe_from(&channel(&name)).await;
                    }
                }
                continue;
            }
        };
        let mut notes = vec![first];
        notes.extend(std::iter::from_fn(|| noted.try_recv().ok()));
        let mut stirred = BTreeSet::new();
        for note in notes {
            match note {
                EventNote::Event(name) => {
                    stirred.insert(name);
                }
                EventNote::Wanted { name, connection, until } => {
                    let known = subscriptions
                        .get_mut(&name)
                        .filter(|subscription| subscription.connection.ptr_eq(&connection));
                    if let Some(subscription) = known {
                        subscription.until = until;
                        continue;
                    }
                    let subscribed = match connection.upgrade() {
                        Some(connection) => connection.subscribe_to(&channel(&name)).await,
                        None => continue,
                    };
                    subscriptions.insert(name.clone(), Subscription { connection, until });
                    if subscribed {
                        // Changes before that were missed.
                        stirred.insert(name);
                    }
                }
            }
        }
        if !stirred.is_empty() {
            stirred.into_iter().for_each(|lock| wakes.push(EngineEvent::LockChanged { lock }));
            sleep(REST).await;
        }
    }
}

async fn until_some(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_names_its_key_whatever_the_database() {
        assert_eq!(changed_key(b"__keyspace@0__:orders", b"zadd"), Some("orders"));
        assert_eq!(changed_key(b"__keyspace@15__:a b__:c", b"zrem"), Some("a b__:c"));
    }

    #[test]
    fn events_of_our_own_steps_and_all_else_are_ignored() {
        assert_eq!(changed_key(b"__keyspace@0__:orders", b"zincr"), None);
        for other in [&b"__keyevent@0__:zadd"[..], b"tt:wake:1", b"", b"\xff"] {
            assert_eq!(changed_key(other, b"orders"), None);
        }
    }
}
