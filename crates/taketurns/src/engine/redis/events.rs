//! What the server tells of changes to a wire's keys, where its operator has that turned on
//! (`notify-keyspace-events`): so that strangers who give something back are heard at once.
//!
//! ```text
//!   a place, or its refresh ─► this lock is waited for ─► SUBSCRIBE __keyspace@db__:name, on that link
//!   an event ─► gathered for a moment ─► EngineEvent::LockChanged
//!   not refreshed for a waiter lease ─► UNSUBSCRIBE
//! ```
//!
//! Nothing depends on it: where events are off, or not for this user, those who wait look again all the
//! same. Events of our own acquires and renewals are told by their name, and ignored; all others, our releases
//! among them, are passed on at a pace, and never one by one.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use taketurns_core::Name;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::net::line::Task;
use super::net::link::Link;
use super::net::topology::Net;
use crate::engine::{EngineEvent, Wakes};
use crate::sync::lock;

/// Between two times that somebody is told.
const REST: Duration = Duration::from_millis(20);

/// What channels of events begin with.
const CHANNELS: &str = "__keyspace@";

/// What our own steps do to the score of a member that is taken or kept (see `zmutex.lua`).
const OURS: &str = "zincr";

/// To which key somebody else did something, if that is what a message on another channel than ours says.
pub(super) fn touched(heard: &[u8]) -> Option<&str> {
    let (channel, event) = std::str::from_utf8(heard).ok()?.rsplit_once(' ')?;
    let (_, key) = channel.strip_prefix(CHANNELS)?.split_once("__:")?;
    (event != OURS).then_some(key)
}

enum Note {
    /// Something happened to this lock's key.
    Event(Name),
    /// Somebody waits for this lock, and for so long at least. It is behind this link.
    Wanted { name: Name, link: Weak<Link>, until: Instant },
}

/// Hears of events, for as long as it is not closed.
pub(super) struct Events {
    notes: mpsc::UnboundedSender<Note>,
    task: Mutex<Option<Task>>,
}

/// What takes in events, and has yet to be started.
pub(super) struct Inbox {
    notes: mpsc::UnboundedSender<Note>,
    noted: mpsc::UnboundedReceiver<Note>,
}

impl Default for Inbox {
    fn default() -> Self {
        let (notes, noted) = mpsc::unbounded_channel();
        Self { notes, noted }
    }
}

impl Inbox {
    /// Where events are to be put.
    pub(super) fn slot(&self) -> impl Fn(Name) + Send + Sync + use<> {
        let notes = self.notes.clone();
        move |name| {
            let _ = notes.send(Note::Event(name));
        }
    }

    pub(super) fn start(self, net: &Net, db: u32, wakes: Wakes) -> Events {
        let task = net.spawn(pass_on(self.noted, db, wakes));
        Events { notes: self.notes, task: Mutex::new(Some(task)) }
    }
}

impl Events {
    /// This lock, behind this link, is waited for, and will be for so long.
    pub(super) fn want(&self, name: &Name, link: &Arc<Link>, waiter_lease_ms: u64) {
        if link.resp3 {
            let until = Instant::now() + Duration::from_millis(waiter_lease_ms);
            let link = Arc::downgrade(link);
            let _ = self.notes.send(Note::Wanted { name: name.clone(), link, until });
        }
    }

    pub(super) fn close(&self) {
        *lock(&self.task) = None;
    }
}

/// A lock whose events are subscribed to, or can't be on this link.
struct Ear {
    link: Weak<Link>,
    until: Instant,
}

async fn pass_on(mut noted: mpsc::UnboundedReceiver<Note>, db: u32, wakes: Wakes) {
    let channel = |name: &Name| format!("{CHANNELS}{db}__:{name}");
    let mut ears: HashMap<Name, Ear> = HashMap::new();
    loop {
        let due = ears.values().map(|ear| ear.until).min();
        let first = tokio::select! {
            note = noted.recv() => match note {
                Some(note) => note,
                None => return,
            },
            () = until_some(due) => {
                let now = Instant::now();
                for (name, ear) in ears.extract_if(|_, ear| ear.until <= now) {
                    if let Some(link) = ear.link.upgrade() {
                        link.ignore(&channel(&name)).await;
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
                Note::Event(name) => {
                    stirred.insert(name);
                }
                Note::Wanted { name, link, until } => {
                    let known = ears.get_mut(&name).filter(|ear| ear.link.ptr_eq(&link));
                    if let Some(ear) = known {
                        ear.until = until;
                        continue;
                    }
                    let subscribed = match link.upgrade() {
                        Some(link) => link.hear_also(&channel(&name)).await,
                        None => continue,
                    };
                    ears.insert(name.clone(), Ear { link, until });
                    if subscribed {
                        // What happened before that was not heard.
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
        assert_eq!(touched(b"__keyspace@0__:orders zadd"), Some("orders"));
        assert_eq!(touched(b"__keyspace@15__:a b__:c zrem"), Some("a b__:c"));
    }

    #[test]
    fn events_of_our_own_steps_and_all_else_are_ignored() {
        let ours = b"__keyspace@0__:orders zincr";
        for other in [&ours[..], b"__keyevent@0__:zadd orders", b"tt:wake:1 x", b"", b"\xff"] {
            assert_eq!(touched(other), None);
        }
    }
}
