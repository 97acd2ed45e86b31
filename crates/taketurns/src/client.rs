//! One client of one engine: what all its locks and guards share.
//!
//! ```text
//!   Locks, Guard ──► Shared ──► Client ──► Engine
//!                      │           ▲ ▲
//!          ends it     ▼           │ └── wake-ups: to waiters and guards
//!                    Driver ───────┘     refreshes: one per lock and client
//! ```

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use taketurns_core::client::{Anchor, Anchors, LossCause, Origin};
use taketurns_core::{ClientId, Name, Owner, Reply, Request, WakeEvent};
use tokio::sync::{mpsc, watch};

use crate::clock::local_us;
use crate::engine::{Engine, EngineError, Stamp, Woken};
use crate::held::Held;
use crate::runtime::{Runtime, sleep};
use crate::sync::{Arc, Mutex, Weak, lock};
use crate::waits::{Signal, Waits};

/// No timer sleeps for longer without looking at the clock: timers stop while the machine sleeps,
/// and leases do not.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// What all handles of one client share.
pub(crate) struct Client {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) id: ClientId,
    pub(crate) who: String,
    pub(crate) waiter_lease_ms: u64,
    pub(crate) waits: Waits,
    runtime: Runtime,
    anchors: Mutex<Anchors>,
    guards: Mutex<BTreeMap<Owner, Weak<Held>>>,
    /// Each task that must end before the client does has a clone of it.
    busy: Mutex<Option<Arc<mpsc::Sender<()>>>>,
    /// For the tasks that such a task starts when the client has none any more: what an acquire
    /// leaves to be given back has to be waited for too.
    tasks: Weak<mpsc::Sender<()>>,
}

impl Client {
    pub(crate) fn new(
        engine: Box<dyn Engine>,
        id: ClientId,
        who: String,
        waiter_lease_ms: u64,
        runtime: Runtime,
    ) -> (Self, mpsc::Receiver<()>) {
        let (busy, idle) = mpsc::channel(1);
        let busy = Arc::new(busy);
        let client = Self {
            engine,
            id,
            who,
            waiter_lease_ms,
            waits: Waits::new(waiter_lease_ms),
            runtime,
            anchors: Mutex::default(),
            guards: Mutex::default(),
            tasks: Arc::downgrade(&busy),
            busy: Mutex::new(Some(busy)),
        };
        (client, idle)
    }

    /// One request, with the anchor that its answer gives.
    pub(crate) async fn call(
        self: &Arc<Self>,
        lock: &Name,
        request: Request,
    ) -> Result<(Reply, Anchor), EngineError> {
        self.call_at(lock, request).await.map(|(reply, (_, anchor))| (reply, anchor))
    }

    /// The same, and whose clock it is.
    pub(crate) async fn call_at(
        self: &Arc<Self>,
        lock: &Name,
        request: Request,
    ) -> Result<(Reply, (Origin, Anchor)), EngineError> {
        let sent_us = local_us();
        let answer = self.engine.call(lock, request).await?;
        let anchor = self.observe(sent_us, answer.stamp);
        if answer.more {
            self.go_on(lock.clone());
        }
        Ok((answer.reply, (answer.stamp.origin, anchor)))
    }

    /// Takes an answer's time into account. It was asked for at `asked_us`.
    pub(crate) fn observe(&self, asked_us: u64, stamp: Stamp) -> Anchor {
        let sent_us = stamp.sent_us.unwrap_or(asked_us);
        let anchor = Anchor { sent_us, engine_ms: stamp.now_ms };
        if !lock(&self.anchors).observe(stamp.origin, anchor, local_us()) {
            self.clock_was_set(stamp.origin.source);
        }
        anchor
    }

    /// Leases there may have ended before their time.
    fn clock_was_set(&self, source: u64) {
        tracing::warn!("the clock of the store was set forward; what is held there counts as lost");
        let guards: Vec<_> = lock(&self.guards).values().filter_map(Weak::upgrade).collect();
        for held in guards.iter().filter(|held| self.engine.source(held.name()) == source) {
            held.lose(LossCause::ClockSet);
        }
    }

    /// One step was not enough: the next goes on, and so forth.
    pub(crate) fn go_on(self: &Arc<Self>, name: Name) {
        let client = self.clone();
        self.spawn(async move {
            while let Ok(answer) = client.engine.call(&name, Request::Tick).await {
                if !answer.more {
                    break;
                }
            }
        });
    }

    /// What is known of the clock of a lock's server now.
    pub(crate) fn newest_anchor(&self, name: &Name) -> Option<(Origin, Anchor)> {
        lock(&self.anchors).newest(self.engine.source(name))
    }

    /// What the clock of a lock's server will show after a while from now, as far as it is known.
    pub(crate) fn engine_ms_in(&self, name: &Name, after: Duration) -> u64 {
        let latest = lock(&self.anchors).latest(self.engine.source(name));
        let now_ms = latest.map_or(0, |anchor| anchor.engine_ms_at(local_us()));
        now_ms.saturating_add(crate::clock::millis(after))
    }

    /// Runs a task to its end, even if the client is dropped meanwhile.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let busy = self.tasks.upgrade();
        self.runtime.spawn(async move {
            task.await;
            drop(busy);
        });
    }

    pub(crate) fn register_guard(&self, owner: Owner, held: &Arc<Held>) {
        self.engine.watch(held.name(), owner);
        lock(&self.guards).insert(owner, Arc::downgrade(held));
    }

    pub(crate) fn forget_guard(&self, owner: Owner) {
        let known = lock(&self.guards).remove(&owner);
        if known.is_some() {
            self.engine.unwatch(owner);
        }
    }

    pub(crate) fn guard(&self, owner: Owner) -> Option<Arc<Held>> {
        lock(&self.guards).get(&owner).and_then(Weak::upgrade)
    }

    /// From now on nothing new keeps the client alive, but for what tasks under way still start.
    pub(crate) fn finish(&self) {
        *lock(&self.busy) = None;
    }

    /// Passes on what the engine pushes, until told to stop.
    pub(crate) async fn route(
        self: Arc<Self>,
        mut woken: mpsc::UnboundedReceiver<Woken>,
        mut stop: watch::Receiver<bool>,
    ) {
        loop {
            let woken = tokio::select! {
                biased;
                woken = woken.recv() => woken,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            match woken {
                Some(Woken::Wake { lock: name, wake, origin }) => {
                    match wake.event {
                        WakeEvent::Granted(grant) => {
                            let newest = self.newest_anchor(&name);
                            self.waits.granted(&name, wake.owner, grant, origin, newest);
                        }
                        WakeEvent::Refused(refusal) => {
                            self.waits.signal(&name, wake.owner, Signal::Refused(refusal));
                        }
                        // To an engine that is made of others, and goes no further than it.
                        WakeEvent::Inquired { .. } => {}
                        WakeEvent::Revoked => {
                            // First to the acquire, which looks there once it has made a guard.
                            self.waits.signal(&name, wake.owner, Signal::Revoked);
                            if let Some(held) = self.guard(wake.owner) {
                                held.lose(LossCause::Revoked);
                            }
                        }
                    }
                }
                Some(Woken::Gone { owner }) => {
                    if let Some(held) = self.guard(owner) {
                        held.lose(LossCause::Gone);
                    }
                }
                Some(Woken::Recheck) => self.waits.doubt(),
                Some(Woken::Stirred { lock }) => self.waits.doubt_one(&lock),
                None => return,
            }
        }
    }
}

/// Sleeps until a local time.
pub(crate) async fn sleep_until_us(until_us: u64) {
    loop {
        let left = Duration::from_micros(until_us.saturating_sub(local_us()));
        if left.is_zero() {
            return;
        }
        sleep(left.min(SLEEP_MAX)).await;
    }
}

/// Sleeps until a local time, or for ever.
pub(crate) async fn sleep_until_some(until_us: Option<u64>) {
    match until_us {
        Some(until_us) => sleep_until_us(until_us).await,
        None => std::future::pending().await,
    }
}
