//! Where foreign clients wake waiters by a push to a list: which lists the waiters of this client block on,
//! and the connection that does so.
//!
//! ```text
//!   BLPOP lists of the waiters …, our own ──► a call: its lock is looked at
//!                 ▲                       ──► our own: somebody else waits now, so once more
//!                 └── pushed to by the step in which one of ours takes a place
//! ```
//!
//! It is open while somebody waits, and a little longer. What is lost with it costs our waiters time alone, since they
//! ask by themselves as well; and a push that was not read is still in its list. A signal that foreign clients wait for too
//! is never kept: a step that leaves the lock free pushes it again, and so does the listener if no step follows.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use taketurns_core::session::Backoff;
use taketurns_core::wire::{owner_text, sha1_hex};
use taketurns_core::{Name, Owner};

use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::popper::ListPopper;
use super::protocol::Calls;
use crate::engine::redis::router::Router;
use crate::engine::{EngineError, EngineEvent, Wakes};
use crate::random;
use crate::sync::lock;
use crate::telling::target;

/// For how long one command listens. Then it is found out whether anybody still waits, and whether that
/// is still the server to ask.
const TURN: Duration = Duration::from_secs(2);
/// How many lists are listened to at a time, those first whose waiters have waited for longest: only the
/// first in line is ever called.
const LISTS_MAX: usize = 256;

/// A signal that one of ours takes from the list of a lock may be meant for the foreign clients that block on
/// the same list: the step that follows pushes it again. Meanwhile ours let them have it, and do not block on
/// that list.
const REST: Duration = Duration::from_millis(20);

/// Listens to the lists of one client's waiters.
pub(super) struct ListListener {
    shared: Arc<Shared>,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

struct Shared {
    calls: Calls,
    /// Our own list.
    own: String,
    wakes: Wakes,
    waiting: Mutex<ListWaiters>,
}

#[derive(Default)]
struct ListWaiters {
    ids: HashMap<String, ListWaiter>,
    next: u64,
    is_listening: bool,
    /// Lists that are left to foreign clients until then.
    resting: HashMap<String, Instant>,
}

/// One who asked for a place. By now it may wait no more: the session knows.
struct ListWaiter {
    owner: Owner,
    /// In the order in which they asked.
    number: u64,
    lock: Name,
}

impl ListListener {
    pub(super) fn new(calls: Calls, own: String, wakes: Wakes) -> Self {
        let shared = Shared { calls, own, wakes, waiting: Mutex::default() };
        Self { shared: Arc::new(shared), task: Mutex::default() }
    }

    /// This owner is about to ask for a place.
    pub(super) fn expect(&self, name: &Name, owner: Owner) {
        let shared = &self.shared;
        let mut waiting = lock(&shared.waiting);
        let number = waiting.next;
        waiting.next += 1;
        let waiter = || ListWaiter { owner, number, lock: name.clone() };
        waiting.ids.entry(id(owner)).or_insert_with(waiter);
    }

    /// It waits no more.
    pub(super) fn forget(&self, owner: Owner) {
        lock(&self.shared.waiting).ids.remove(&id(owner));
    }

    /// Somebody has a place.
    pub(super) fn listen(&self, router: &Arc<Router>) {
        let shared = &self.shared;
        let mut waiting = lock(&shared.waiting);
        if !waiting.is_listening && !router.connector().is_finished() {
            waiting.is_listening = true;
            let listening = shared.clone().listen(Arc::downgrade(router));
            let task = router.connector().spawn(listening);
            *lock(&self.task) = Some(task);
        }
    }

    /// Stops listening.
    pub(super) fn close(&self) {
        *lock(&self.task) = None;
    }
}

/// What stands for an owner in the keys of a protocol.
fn id(owner: Owner) -> String {
    sha1_hex(owner_text(owner))
}

impl Shared {
    /// Listens until nobody waits.
    async fn listen(self: Arc<Self>, router: Weak<Router>) {
        let mut backoff = Backoff::default();
        while let Some(router) = router.upgrade() {
            match self.listen_on(router, &mut backoff).await {
                Ok(()) => return,
                Err(_) if self.is_idle() => return,
                Err(error) => {
                    tracing::debug!(target: target::REDIS, %error, "lists of foreign clients are not listened to for a moment");
                    let pause_us = backoff.pause_us(random::bits64());
                    tokio::time::sleep(Duration::from_micros(pause_us)).await;
                }
            }
        }
    }

    /// On one connection.
    async fn listen_on(
        &self,
        router: Arc<Router>,
        backoff: &mut Backoff,
    ) -> Result<(), EngineError> {
        let mut popper = ListPopper::open(&router).await?;
        // It must not live on for our sake.
        drop(router);
        while popper.is_wanted() {
            let (lists, within) = self.lists(Instant::now());
            match popper.pop(&lists, within).await? {
                Some(list) => self.handle_pop(&list, &mut popper).await?,
                None if self.is_idle() => return Ok(()),
                None => {}
            }
            backoff.reset();
        }
        Err(EngineError::Unreachable("another server is asked by now".into()))
    }

    /// Returns the waiters that still wait: a wake-up or the reply to a refresh may have brought a grant.
    fn waiting(&self) -> MutexGuard<'_, ListWaiters> {
        let mut waiting = lock(&self.waiting);
        waiting.ids.retain(|_, waiter| self.wakes.is_acquiring(waiter.owner));
        waiting
    }

    /// Does nobody wait? Then the next waiter starts the listener again.
    fn is_idle(&self) -> bool {
        let mut waiting = self.waiting();
        waiting.is_listening = !waiting.ids.is_empty();
        !waiting.is_listening
    }

    /// What to listen to, and for how long: our own list, and those of the waiters that have waited for longest.
    fn lists(&self, now: Instant) -> (Vec<String>, Duration) {
        let mut waiting = self.waiting();
        waiting.resting.retain(|_, until| *until > now);
        let mut lists: Vec<(u64, String)> = waiting
            .ids
            .iter()
            .map(|(id, waiter)| (waiter.number, self.calls.list(id, &waiter.lock)))
            .collect();
        lists.sort_unstable();
        let mut known = HashSet::new();
        let is_new =
            |list: &String| !waiting.resting.contains_key(list) && known.insert(list.clone());
        let lists = lists.into_iter().map(|(_, list)| list).filter(is_new).take(LISTS_MAX);
        let lists = std::iter::once(self.own.clone()).chain(lists).collect();
        (lists, if waiting.resting.is_empty() { TURN } else { REST })
    }

    async fn handle_pop(&self, list: &[u8], popper: &mut ListPopper) -> Result<(), EngineError> {
        let Ok(list) = std::str::from_utf8(list) else { return Ok(()) };
        match self.calls {
            Calls::PerWaiter(prefix) => {
                let id = list.strip_prefix(prefix).unwrap_or_default();
                let lock = self.waiting().ids.get(id).map(|waiter| waiter.lock.clone());
                if let Some(lock) = lock {
                    self.wakes.push(EngineEvent::LockChanged { lock });
                }
            }
            Calls::PerLock(prefix) => {
                let lock = list.strip_prefix(prefix).and_then(|name| Name::new(name).ok());
                let Some(lock) = lock else { return Ok(()) };
                if self.is_waited_for(&lock, list) {
                    self.wakes.push(EngineEvent::LockChanged { lock });
                } else {
                    // Nobody of ours will ask, so that no step pushes it again.
                    popper.push_back(list).await?;
                }
            }
        }
        Ok(())
    }

    /// Does somebody of ours wait for this lock? Then its list rests for a moment.
    fn is_waited_for(&self, name: &Name, list: &str) -> bool {
        let mut waiting = self.waiting();
        let is_waited_for = waiting.ids.values().any(|waiter| waiter.lock == *name);
        if is_waited_for {
            waiting.resting.insert(list.to_owned(), Instant::now() + REST);
        }
        is_waited_for
    }
}
