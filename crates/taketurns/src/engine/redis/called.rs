//! Where a wire's strangers call who waits by a push to a list of its own: who of ours is to be called,
//! and the connection on which that is heard.
//!
//! ```text
//!   BLPOP calls of who waits …, our own list ──► a call: its lock is looked at
//!                 ▲                          ──► our own: somebody else waits now, so once more
//!                 └── pushed to by the step in which one of ours takes a place
//! ```
//!
//! It is open while somebody waits, and a little longer. What is lost with it costs time alone, since waiters ask by
//! themselves as well; and what was not heard is still in its list.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use taketurns_core::client::Backoff;
use taketurns_core::wire::{owner_text, sha1_hex};
use taketurns_core::{Name, Owner};

use super::net::line::{Task, lock};
use super::net::topology::Net;
use crate::engine::{EngineError, Wakes, Woken};
use crate::random;

/// For how long one command listens. Then it is found out whether anybody still waits, and whether that
/// is still the server to ask.
const TURN: Duration = Duration::from_secs(2);
/// How many are listened for at a time, those first that have waited for longest: only the first in
/// line is ever called.
const IDS_MAX: usize = 256;

/// What one client listens for. Nothing, where nobody is called.
pub(super) struct Called {
    shared: Option<Arc<Shared>>,
    task: Mutex<Option<Task>>,
}

struct Shared {
    /// What the lists of those who wait begin with.
    calls: &'static str,
    /// Our own list.
    own: String,
    wakes: Wakes,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// By id: its number and its lock.
    ids: HashMap<String, (u64, Name)>,
    next: u64,
    is_heard: bool,
}

impl Called {
    pub(super) fn new(calls: Option<&'static str>, own: String, wakes: Wakes) -> Self {
        let shared = |calls| Shared { calls, own, wakes, waiting: Mutex::default() };
        Self { shared: calls.map(|calls| Arc::new(shared(calls))), task: Mutex::default() }
    }

    /// To be said before it asks for a place: the step that gives it one makes us listen for it.
    pub(super) fn expect(&self, name: &Name, owner: Owner) {
        let Some(shared) = &self.shared else { return };
        let mut waiting = lock(&shared.waiting);
        let number = waiting.next;
        waiting.next += 1;
        waiting.ids.entry(id(owner)).or_insert_with(|| (number, name.clone()));
    }

    /// It waits no more.
    pub(super) fn forget(&self, owner: Owner) {
        if let Some(shared) = &self.shared {
            lock(&shared.waiting).ids.remove(&id(owner));
        }
    }

    /// Somebody has a place.
    pub(super) fn listen(&self, net: &Arc<Net>) {
        let Some(shared) = &self.shared else { return };
        let mut waiting = lock(&shared.waiting);
        if !waiting.is_heard {
            waiting.is_heard = true;
            let task = net.spawn(shared.clone().hear(Arc::downgrade(net)));
            *lock(&self.task) = Some(task);
        }
    }

    /// Nothing is heard any more.
    pub(super) fn close(&self) {
        *lock(&self.task) = None;
    }
}

/// What stands for an owner in the keys of a wire.
fn id(owner: Owner) -> String {
    sha1_hex(owner_text(owner))
}

impl Shared {
    /// Listens until nobody waits.
    async fn hear(self: Arc<Self>, net: Weak<Net>) {
        let mut backoff = Backoff::default();
        while let Some(net) = net.upgrade() {
            match self.hear_on(net, &mut backoff).await {
                Ok(()) => return,
                Err(_) if self.is_idle() => return,
                Err(error) => {
                    tracing::debug!(%error, "calls by strangers are not heard for a moment");
                    let pause_us = backoff.pause_us(random::bits64());
                    tokio::time::sleep(Duration::from_micros(pause_us)).await;
                }
            }
        }
    }

    /// On one connection.
    async fn hear_on(&self, net: Arc<Net>, backoff: &mut Backoff) -> Result<(), EngineError> {
        let mut pops = net.pops().await?;
        // It must not live on for our sake.
        drop(net);
        while pops.is_wanted() {
            match pops.pop(&self.lists(), TURN).await? {
                Some(list) => self.heard(&list),
                None if self.is_idle() => return Ok(()),
                None => {}
            }
            backoff.reset();
        }
        Err(EngineError::Unreachable("another server is asked by now".into()))
    }

    /// Does nobody wait? Then whoever comes next has to begin anew.
    fn is_idle(&self) -> bool {
        let mut waiting = lock(&self.waiting);
        waiting.is_heard = !waiting.ids.is_empty();
        !waiting.is_heard
    }

    /// What to listen to.
    fn lists(&self) -> Vec<String> {
        let numbered = |(id, (number, _)): (&String, &(u64, Name))| (*number, id.clone());
        let mut ids: Vec<_> = lock(&self.waiting).ids.iter().map(numbered).collect();
        ids.sort_unstable();
        let calls = ids.into_iter().take(IDS_MAX).map(|(_, id)| format!("{}{id}", self.calls));
        std::iter::once(self.own.clone()).chain(calls).collect()
    }

    fn heard(&self, list: &[u8]) {
        let id = std::str::from_utf8(list).ok().and_then(|list| list.strip_prefix(self.calls));
        let Some(id) = id else { return };
        let lock = lock(&self.waiting).ids.get(id).map(|(_, lock)| lock.clone());
        if let Some(lock) = lock {
            self.wakes.push(Woken::Stirred { lock });
        }
    }
}
