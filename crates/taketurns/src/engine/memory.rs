//! The engine in this process: a map of locks behind a mutex.
//!
//! A step takes microseconds and never waits, so one mutex over all locks is held for less time than
//! finding the right one of many would take; and it is a std mutex since nothing awaits under it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;
use std::time::Duration;

use taketurns_core::{ClientId, Lock, Name, Now, Pattern, Request, View, limits};

use super::{
    Answer, Answering, Clock, Engine, EngineError, EngineFuture, Guarantees, Open, Origin, Stamp,
    Survives, Wake, Wakes, Woken,
};
use crate::doctor::{Report, Subject};
use crate::sync::{Arc, Mutex, MutexGuard, lock};

/// Forgotten locks are looked for by every step, a few at a time.
const FORGET_PER_STEP: usize = 4;

/// Locks in this process. Clones are the same store; each client opens its own [`MemoryEngine`].
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    clock: Clock,
}

#[derive(Debug, Default)]
struct State {
    locks: BTreeMap<Name, Lock>,
    /// When each lock may be forgotten: exactly one entry per lock that may.
    forget: BTreeSet<(u64, Name)>,
    clients: HashMap<ClientId, Wakes>,
}

impl MemoryStore {
    /// A new store that nobody else sees.
    pub fn new(clock: Clock) -> Self {
        Self { state: Arc::default(), clock }
    }

    /// The store of that name in this process, which lives as long as the process does; a new one
    /// that nobody else sees for the empty name.
    pub(crate) fn named(name: &str) -> Self {
        static NAMED: LazyLock<Mutex<HashMap<String, MemoryStore>>> = LazyLock::new(Mutex::default);
        if name.is_empty() {
            return Self::default();
        }
        let mut named = lock(&NAMED);
        named.entry(name.to_owned()).or_default().clone()
    }

    /// The engine for one client.
    pub fn engine(&self, client: ClientId, wakes: Wakes) -> MemoryEngine {
        self.state().clients.insert(client, wakes);
        MemoryEngine { store: self.clone(), client }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic under this lock can only come from a bug in a step, which leaves the lock it was
        // about in some state but all others whole.
        lock(&self.state)
    }
}

impl Open for MemoryStore {
    fn open(
        self: Box<Self>,
        client: ClientId,
        wakes: Wakes,
    ) -> EngineFuture<'static, Result<Box<dyn Engine>, EngineError>> {
        Box::pin(async move { Ok(Box::new(self.engine(client, wakes)) as Box<dyn Engine>) })
    }
}

impl State {
    /// Takes one step. Wake-ups are returned, to be delivered once the mutex is released: whom they wake
    /// may come back at once.
    fn step(&mut self, now: Now, name: &Name, request: &Request) -> (Answer, Vec<(Wakes, Wake)>) {
        self.forget(now);
        let lock = self.locks.entry(name.clone()).or_default();
        if let Some(at_ms) = lock.forget_at_ms() {
            self.forget.remove(&(at_ms, name.clone()));
        }
        let step = lock.apply(now, request);
        if lock.is_blank() {
            // Asking about a lock that nobody has used leaves no trace of it.
            self.locks.remove(name);
        } else if let Some(at_ms) = lock.forget_at_ms() {
            self.forget.insert((at_ms, name.clone()));
        }
        let to = |wake: Wake| Some((self.clients.get(&wake.client)?.clone(), wake));
        let wakes = step.wakes.into_iter().filter_map(to).collect();
        (Answer { reply: step.reply, stamp: stamp(now), more: step.more }, wakes)
    }

    fn forget(&mut self, now: Now) {
        for _ in 0..FORGET_PER_STEP {
            match self.forget.first() {
                Some((at_ms, _)) if *at_ms <= now.ms => {
                    if let Some((_, name)) = self.forget.pop_first() {
                        self.locks.remove(&name);
                    }
                }
                _ => break,
            }
        }
    }
}

/// Nothing can come between this engine and its clients, so there is one epoch.
fn stamp(now: Now) -> Stamp {
    Stamp { now_ms: now.ms, origin: Origin::default(), sent_us: None }
}

/// A [`MemoryStore`] as one client sees it.
#[derive(Debug)]
pub struct MemoryEngine {
    store: MemoryStore,
    client: ClientId,
}

impl Engine for MemoryEngine {
    fn call(&self, lock: &Name, request: Request) -> Answering {
        let now = self.store.clock.now();
        let (answer, wakes) = self.store.state().step(now, lock, &request);
        for (to, wake) in wakes {
            to.push(Woken::Wake { lock: lock.clone(), wake, origin: Origin::default() });
        }
        Answering::now(Ok(answer))
    }

    fn ping(&self) -> EngineFuture<'_, Result<Stamp, EngineError>> {
        Box::pin(async move { Ok(stamp(self.store.clock.now())) })
    }

    fn view<'a>(
        &'a self,
        lock: &'a Name,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Option<View>, EngineError>> {
        Box::pin(async move {
            let now = self.store.clock.now();
            Ok(self.store.state().locks.get(lock).map(|lock| lock.view(now, waiters_max)))
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
            use std::ops::Bound::{Excluded, Unbounded};
            let now = self.store.clock.now();
            let state = self.store.state();
            let from = after.map_or(Unbounded, Excluded);
            let views = state
                .locks
                .range::<Name, _>((from, Unbounded))
                .filter(|(name, _)| pattern.matches(name.as_str()))
                .map(|(name, lock)| (name.clone(), lock.view(now, waiters_max)))
                // All that is known of it may be who was cancelled.
                .filter(|(_, view)| !view.is_blank())
                .take(max)
                .collect();
            Ok(views)
        })
    }

    fn max_lease(&self) -> Duration {
        Duration::from_millis(limits::LEASE_MS_MAX)
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees::full(Survives::Nothing)
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            self.store.state().clients.remove(&self.client);
        })
    }
}

impl Drop for MemoryEngine {
    fn drop(&mut self) {
        self.store.state().clients.remove(&self.client);
    }
}
/// There is nothing that could be wrong with it.
pub(super) fn examine() -> Report {
    let found = "in this process, and gone with it";
    let checks = vec![Subject::Reachable.ok("memory", found)];
    Report::new("memory:".to_owned(), true, checks)
}
