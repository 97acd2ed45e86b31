//! The engine in this process: a map of locks behind a mutex.
//!
//! A step takes microseconds and never waits, so one mutex over all locks is held for less time than
//! finding the right one of many would take; and it is a std mutex since nothing awaits under it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;
use std::time::Duration;

use taketurns_core::{ClientId, Lock, Name, Now, Pattern, Request, View, limits};

use super::{
    Answer, AnswerFuture, Clock, Durability, Engine, EngineError, EngineEvent, EngineFuture,
    Guarantees, Open, Origin, Stamp, Wake, Wakes,
};
use crate::clock::local_us;
use crate::doctor::{Report, Subject};
use crate::sync::{Arc, Mutex, MutexGuard, lock};

/// Forgotten locks are looked for by every step, a few at a time.
const FORGET_PER_STEP: usize = 4;

/// Locks in this process. Clones are the same store; each client opens its own [`MemoryEngine`].
#[derive(Clone, Debug)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    clock: Clock,
    /// How far the wall clock was ahead of the local one when the store began.
    wall_ahead_us: u64,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Clock::System)
    }
}

#[derive(Debug, Default)]
struct State {
    locks: BTreeMap<Name, Entry>,
    /// When to see whether a lock may be forgotten. Invariant: it has what the locks note in `look_at_ms`.
    looks: BTreeSet<(u64, Name)>,
    clients: HashMap<ClientId, Wakes>,
}

/// A lock, and when to see whether it may be forgotten.
#[derive(Debug, Default)]
struct Entry {
    lock: Lock,
    /// No later than the lock may be forgotten, so that most steps leave it as it is; `None` if it never may.
    look_at_ms: Option<u64>,
}

impl Entry {
    /// Notes when to look, before `looks` is told. Returns what goes from there and what comes.
    fn plan(&mut self) -> (Option<u64>, Option<u64>) {
        let at_ms = if self.lock.is_blank() { None } else { self.lock.forget_at_ms() };
        match (self.look_at_ms, at_ms) {
            (Some(before_ms), Some(at_ms)) if before_ms <= at_ms => (None, None),
            _ => (std::mem::replace(&mut self.look_at_ms, at_ms), at_ms),
        }
    }
}

impl MemoryStore {
    /// A new store that nobody else sees.
    pub fn new(clock: Clock) -> Self {
        let now = clock.now();
        let wall_ahead_us = now.wall_us.saturating_sub(now.ms * 1_000);
        Self { state: Arc::default(), clock, wall_ahead_us }
    }

    /// The wall clock was read once, and goes on with the local one. Half the readings, and a wall clock that is
    /// set back makes no token smaller.
    fn now(&self) -> Now {
        match &self.clock {
            Clock::System => {
                let now_us = local_us();
                Now { ms: now_us / 1_000, wall_us: now_us.saturating_add(self.wall_ahead_us) }
            }
            manual @ Clock::Manual(_) => manual.now(),
        }
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
        let entry = self.locks.entry(name.clone()).or_default();
        let step = entry.lock.apply(now, request);
        let (goes, comes) = entry.plan();
        // Asking about a lock that nobody has used leaves no trace of it.
        if entry.lock.is_blank() {
            self.locks.remove(name);
        }
        if let Some(at_ms) = goes {
            self.looks.remove(&(at_ms, name.clone()));
        }
        if let Some(at_ms) = comes {
            self.looks.insert((at_ms, name.clone()));
        }
        let to = |wake: Wake| Some((self.clients.get(&wake.client)?.clone(), wake));
        let wakes = step.wakes.into_iter().filter_map(to).collect();
        let stamp = step.timed.then(|| stamp(now));
        (Answer { reply: step.reply, stamp, more: step.more }, wakes)
    }

    fn forget(&mut self, now: Now) {
        for _ in 0..FORGET_PER_STEP {
            match self.looks.first() {
                Some((at_ms, _)) if *at_ms <= now.ms => {}
                _ => break,
            }
            let Some((_, name)) = self.looks.pop_first() else { break };
            let Some(entry) = self.locks.get_mut(&name) else { continue };
            entry.look_at_ms = entry.lock.forget_at_ms();
            match entry.look_at_ms {
                Some(at_ms) if at_ms <= now.ms => drop(self.locks.remove(&name)),
                Some(at_ms) => drop(self.looks.insert((at_ms, name))),
                None => {}
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
    fn call(&self, lock: &Name, request: Request) -> AnswerFuture {
        let mut state = self.store.state();
        // Read under the mutex, so that the time of a step is never before that of the last one.
        let now = self.store.now();
        let (answer, wakes) = state.step(now, lock, &request);
        drop(state);
        for (to, wake) in wakes {
            to.push(EngineEvent::Wake { lock: lock.clone(), wake, origin: Origin::default() });
        }
        AnswerFuture::now(Ok(answer))
    }

    fn ping(&self) -> EngineFuture<'_, Result<Stamp, EngineError>> {
        Box::pin(async move { Ok(stamp(self.store.now())) })
    }

    fn view<'a>(
        &'a self,
        lock: &'a Name,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Option<View>, EngineError>> {
        Box::pin(async move {
            let now = self.store.now();
            Ok(self.store.state().locks.get(lock).map(|entry| entry.lock.view(now, waiters_max)))
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
            let now = self.store.now();
            let state = self.store.state();
            let from = after.map_or(Unbounded, Excluded);
            let views = state
                .locks
                .range::<Name, _>((from, Unbounded))
                .filter(|(name, _)| pattern.matches(name.as_str()))
                .map(|(name, entry)| (name.clone(), entry.lock.view(now, waiters_max)))
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
        Guarantees::full(Durability::Nothing)
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
