//! A real store behind a way that loses things: what a network between client and store would do.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use taketurns::engine::{
    Answer, Engine, EngineError, EngineEvent, MemoryStore, Origin, Owner, Request, Wake, WakeEvent,
    Wakes,
};
use taketurns::{ClientId, Name, NoQuorum, NodeTrouble};
use taketurns_conformance::hooks::{HookedEngine, Hooks};
use taketurns_servers::fuzz::Dice;

/// A request on its way to the engine.
type DelayedRequest = (Arc<dyn Engine>, Name, Request);

/// What goes wrong, to be changed while it runs.
#[derive(Default)]
pub(crate) struct Faults {
    dice: Mutex<Dice>,
    percent: AtomicU32,
    lose_replies: AtomicU32,
    down: AtomicBool,
    too_few: AtomicBool,
    unable: AtomicBool,
    refused: AtomicU32,
    hold_up: AtomicBool,
    break_acquires: AtomicU32,
    keep_replies: AtomicBool,
    delay_replies_ms: AtomicU64,
    hold_up_wakes: AtomicBool,
    drop_wakes: AtomicBool,
    strange_wakes: AtomicBool,
    break_renewals: AtomicU32,
    break_releases: AtomicBool,
    /// How many more get through; `None` for all.
    refreshes_left: Mutex<Option<u32>>,
    held_up: Mutex<Vec<DelayedRequest>>,
    held_up_wakes: Mutex<Vec<(Wakes, EngineEvent)>>,
    /// Who asked to acquire, in order and as often as it did.
    acquired_by: Mutex<Vec<Owner>>,
    /// The way to the client that opened last.
    client: Mutex<Option<(ClientId, Wakes)>>,
}

impl Faults {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { dice: Mutex::new(Dice::new(seed)), ..Self::default() }
    }

    /// Lets this percentage of calls fail in some way, and loses the same percentage of wake-ups.
    pub(crate) fn set_percent(&self, percent: u32) {
        self.percent.store(percent, Ordering::SeqCst);
    }

    /// The next calls are carried out, and their replies are lost.
    pub(crate) fn lose_replies(&self, count: u32) {
        self.lose_replies.store(count, Ordering::SeqCst);
    }

    /// Nothing gets through.
    pub(crate) fn down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    /// Too few nodes are there for anything to be carried out.
    pub(crate) fn too_few(&self, too_few: bool) {
        self.too_few.store(too_few, Ordering::SeqCst);
    }

    /// Nothing that is asked for is something that the store can do.
    pub(crate) fn unable(&self, unable: bool) {
        self.unable.store(unable, Ordering::SeqCst);
    }

    /// How often it was asked for what it can't do.
    pub(crate) fn refused(&self) -> u32 {
        self.refused.load(Ordering::SeqCst)
    }

    /// Acquires stay on the way until they are delivered.
    pub(crate) fn hold_up(&self, hold_up: bool) {
        self.hold_up.store(hold_up, Ordering::SeqCst);
    }

    /// The next acquires stay on the way until they are delivered, and their sender is told that the
    /// connection broke.
    pub(crate) fn break_acquires(&self, count: u32) {
        self.break_acquires.store(count, Ordering::SeqCst);
    }

    /// Acquires are carried out, and their replies never come.
    pub(crate) fn keep_replies(&self, keep: bool) {
        self.keep_replies.store(keep, Ordering::SeqCst);
    }

    /// Replies are under way for that long.
    pub(crate) fn delay_replies(&self, delay: Duration) {
        self.delay_replies_ms.store(delay.as_millis() as u64, Ordering::SeqCst);
    }

    /// Wake-ups stay on the way until they are delivered.
    pub(crate) fn hold_up_wakes(&self, hold_up: bool) {
        self.hold_up_wakes.store(hold_up, Ordering::SeqCst);
    }

    pub(crate) fn deliver_wakes(&self) {
        for (wakes, woken) in self.held_up_wakes.lock().expect("no panic").drain(..) {
            wakes.push(woken);
        }
    }

    /// The owners of all acquires, in the order in which they were sent.
    pub(crate) fn acquired_by(&self) -> Vec<Owner> {
        self.acquired_by.lock().expect("no panic").clone()
    }

    /// A wake-up that the store did not send just now: old bytes.
    pub(crate) fn wake(&self, lock: &str, owner: Owner, event: WakeEvent) {
        let client = self.client.lock().expect("no panic");
        let (client, wakes) = client.as_ref().expect("a client");
        let lock = Name::new(lock).expect("a name");
        let wake = Wake { client: *client, owner, event };
        wakes.push(EngineEvent::Wake { lock, wake, origin: Origin::default() });
    }

    pub(crate) fn drop_wakes(&self, drop_wakes: bool) {
        self.drop_wakes.store(drop_wakes, Ordering::SeqCst);
    }

    /// Wake-ups are of a connection that no answer has come from.
    pub(crate) fn strange_wakes(&self, strange: bool) {
        self.strange_wakes.store(strange, Ordering::SeqCst);
    }

    /// The next renewals fail for good.
    pub(crate) fn break_renewals(&self, count: u32) {
        self.break_renewals.store(count, Ordering::SeqCst);
    }

    pub(crate) fn break_releases(&self, broken: bool) {
        self.break_releases.store(broken, Ordering::SeqCst);
    }

    /// No more refreshes than that get through.
    pub(crate) fn lose_refreshes_after(&self, count: u32) {
        *self.refreshes_left.lock().expect("no panic") = Some(count);
    }

    fn loses_refresh(&self) -> bool {
        let mut left = self.refreshes_left.lock().expect("no panic");
        let Some(count) = left.as_mut() else { return false };
        let lost = *count == 0;
        *count = count.saturating_sub(1);
        lost
    }

    pub(crate) fn holds_something_up(&self) -> bool {
        !self.held_up.lock().expect("no panic").is_empty()
    }

    pub(crate) async fn deliver_held_up(&self) {
        let held_up = std::mem::take(&mut *self.held_up.lock().expect("no panic"));
        assert!(!held_up.is_empty(), "nothing was held up");
        for (engine, lock, request) in held_up {
            engine.call(&lock, request).await.expect("memory answers");
        }
    }

    /// A number below `end`: the same seed, the same faults.
    fn roll(&self, end: u64) -> u64 {
        self.dice.lock().expect("no panic").roll(end)
    }

    fn strikes(&self) -> bool {
        self.roll(100) < u64::from(self.percent.load(Ordering::SeqCst))
    }
}

/// A store behind those faults.
pub(crate) struct FaultyHooks {
    pub(crate) store: MemoryStore,
    pub(crate) faults: Arc<Faults>,
}

impl Hooks for FaultyHooks {
    async fn open(&self, client: ClientId, wakes: Wakes) -> Result<Box<dyn Engine>, EngineError> {
        let (through, mut arriving) = Wakes::channel();
        let faults = self.faults.clone();
        *faults.client.lock().expect("no panic") = Some((client, wakes.clone()));
        tokio::spawn(async move {
            while let Some(woken) = arriving.recv().await {
                let lost = faults.drop_wakes.load(Ordering::SeqCst)
                    || faults.down.load(Ordering::SeqCst)
                    || faults.strikes();
                match woken {
                    EngineEvent::Wake { .. } if faults.hold_up_wakes.load(Ordering::SeqCst) => {
                        let mut held_up = faults.held_up_wakes.lock().expect("no panic");
                        held_up.push((wakes.clone(), woken));
                    }
                    EngineEvent::Wake { .. } if lost => {}
                    EngineEvent::Wake { lock, wake, .. }
                        if faults.strange_wakes.load(Ordering::SeqCst) =>
                    {
                        let origin = Origin { source: 0, epoch: 99 };
                        wakes.push(EngineEvent::Wake { lock, wake, origin });
                    }
                    other => wakes.push(other),
                }
            }
        });
        Ok(Box::new(self.store.engine(client, through)))
    }

    async fn call(
        on: Arc<HookedEngine<Self>>,
        lock: Name,
        request: Request,
    ) -> Result<Answer, EngineError> {
        let (engine, faults) = (&on.engine, &on.hooks.faults);
        if let Request::Acquire(acquire) = &request {
            faults.acquired_by.lock().expect("no panic").push(acquire.owner);
        }
        if faults.down.load(Ordering::SeqCst) {
            return Err(EngineError::Unreachable("down".into()));
        }
        if matches!(request, Request::Refresh { .. }) && faults.loses_refresh() {
            return Err(EngineError::Unreachable("a refresh that was lost".into()));
        }
        if faults.too_few.load(Ordering::SeqCst) {
            let down = NodeTrouble::new("redis://a", "does not answer");
            return Err(EngineError::NoQuorum(NoQuorum::new(2, 3, vec![down])));
        }
        if faults.unable.load(Ordering::SeqCst) {
            faults.refused.fetch_add(1, Ordering::SeqCst);
            return Err(EngineError::Unsupported("it has no such locks".into()));
        }
        if faults.hold_up.load(Ordering::SeqCst) && matches!(request, Request::Acquire(_)) {
            let held_up = (engine.clone(), lock, request);
            faults.held_up.lock().expect("no panic").push(held_up);
            std::future::pending::<()>().await;
            unreachable!("it is never answered");
        }
        if matches!(request, Request::Acquire(_)) && takes_one(&faults.break_acquires) {
            let held_up = (engine.clone(), lock, request);
            faults.held_up.lock().expect("no panic").push(held_up);
            return Err(EngineError::Unknown("the connection broke".into()));
        }
        if faults.keep_replies.load(Ordering::SeqCst) && matches!(request, Request::Acquire(_)) {
            engine.call(&lock, request).await?;
            return std::future::pending().await;
        }
        let broken = match request {
            Request::Renew { .. } => takes_one(&faults.break_renewals),
            Request::Release { .. } => faults.break_releases.load(Ordering::SeqCst),
            _ => false,
        };
        if broken {
            return Err(EngineError::Broken("broken".into()));
        }
        if !faults.strikes() {
            let answer = engine.call(&lock, request).await;
            let delay_ms = faults.delay_replies_ms.load(Ordering::SeqCst);
            if delay_ms > 0 {
                tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            }
            if takes_one(&faults.lose_replies) {
                return Err(EngineError::Unknown("the reply was lost".into()));
            }
            return answer;
        }
        match faults.roll(5) {
            0 => Err(EngineError::Unreachable("never sent".into())),
            1 => Err(EngineError::Unknown("the request was lost".into())),
            2 => {
                let _ = engine.call(&lock, request).await;
                Err(EngineError::Unknown("the reply was lost".into()))
            }
            3 => {
                let answer = engine.call(&lock, request).await;
                tokio::time::sleep(Duration::from_millis(faults.roll(60))).await;
                answer
            }
            _ => {
                // Old bytes: they arrive long after their sender was told that it failed.
                let engine = engine.clone();
                let late = Duration::from_millis(faults.roll(200));
                tokio::spawn(async move {
                    tokio::time::sleep(late).await;
                    let _ = engine.call(&lock, request).await;
                });
                Err(EngineError::Unknown("the connection broke".into()))
            }
        }
    }
}

fn takes_one(counter: &AtomicU32) -> bool {
    let take = |left: u32| left.checked_sub(1);
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
}
