//! One client of one engine: what all its locks and guards share.
//!
//! ```text
//!   Locks, Guard ──► Shared ──► Client ──► Engine
//!                      │           ▲ ▲
//!          ends it     ▼           │ └── wake-ups: to waiters and guards
//!                    Driver ───────┘     refreshes: one per lock and client; renewals
//! ```

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use taketurns_core::client::{Anchor, Anchors, LossCause, Origin};
use taketurns_core::{ClientId, Name, Owner, Reply, Request, WakeEvent};
use tokio::sync::{mpsc, watch};

use crate::clock::local_us;
use crate::engine::{Answer, Engine, EngineError, Stamp, Woken};
use crate::guards::Guards;
use crate::held::Held;
use crate::meter::{self, Call};
use crate::runtime::{Runtime, sleep};
use crate::signals::Signal;
use crate::sync::{Arc, Mutex, Weak, lock};
use crate::turns::Turns;
use crate::waits::Waits;

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
    pub(crate) guards: Guards,
    pub(crate) turns: Turns,
    runtime: Runtime,
    anchors: Mutex<Anchors>,
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
            guards: Guards::default(),
            turns: Turns::default(),
            runtime,
            anchors: Mutex::default(),
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
        let (sent_us, call) = (local_us(), Call::of(&request));
        let answer = self.engine.call(lock, request).await;
        self.heard(lock, call, sent_us, answer)
    }

    /// Several requests, in one round trip where the engine can.
    pub(crate) async fn call_all(
        self: &Arc<Self>,
        calls: Vec<(Name, Request)>,
    ) -> Vec<Result<(Reply, (Origin, Anchor)), EngineError>> {
        let sent_us = local_us();
        let about = |(lock, request): &(Name, Request)| (lock.clone(), Call::of(request));
        let about: Vec<(Name, Call)> = calls.iter().map(about).collect();
        let answers = self.engine.call_all(calls).await.into_iter().zip(about);
        answers.map(|(answer, (lock, call))| self.heard(&lock, call, sent_us, answer)).collect()
    }

    fn heard(
        self: &Arc<Self>,
        lock: &Name,
        call: Call,
        sent_us: u64,
        answer: Result<Answer, EngineError>,
    ) -> Result<(Reply, (Origin, Anchor)), EngineError> {
        let received_us = local_us();
        call.took(answer.is_ok(), received_us.saturating_sub(sent_us));
        let answer = answer?;
        let anchor = self.observe(sent_us, answer.stamp, received_us);
        if answer.more {
            self.go_on(lock.clone());
        }
        Ok((answer.reply, (answer.stamp.origin, anchor)))
    }

    /// Takes an answer's time into account. It was asked for at `asked_us`, and is here.
    pub(crate) fn observe(&self, asked_us: u64, stamp: Stamp, received_us: u64) -> Anchor {
        let sent_us = stamp.sent_us.unwrap_or(asked_us);
        let anchor = Anchor { sent_us, engine_ms: stamp.now_ms };
        if !lock(&self.anchors).observe(stamp.origin, anchor, received_us) {
            self.clock_was_set(stamp.origin.source);
        }
        anchor
    }

    /// Leases there may have ended before their time.
    fn clock_was_set(&self, source: u64) {
        tracing::warn!("the clock of the store was set forward; what is held there counts as lost");
        let guards = self.guards.all().into_iter();
        for held in guards.filter(|held| self.engine.source(held.name()) == source) {
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
        let busy = self.busy();
        self.runtime.spawn(async move {
            task.await;
            drop(busy);
        });
    }

    /// As long as somebody has it, the client does not end. `None` if it is about to.
    pub(crate) fn busy(&self) -> Option<Arc<mpsc::Sender<()>>> {
        self.tasks.upgrade()
    }

    /// Sees to it that a future comes to its end, whoever polls it and whether or not anybody does
    /// so any more. It goes as far as it can right here: a request of its own is sent when this
    /// returns.
    pub(crate) fn start<T>(
        self: &Arc<Self>,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Started<T>
    where
        T: Send + 'static,
    {
        let runtime = self.runtime.clone();
        let mut future: Running<T> = Box::pin(async move { runtime.entered(future).await });
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => self.done(output),
            Poll::Pending => Started { client: self.clone(), future: Some(future), output: None },
        }
    }

    /// As if it had been started, and were done.
    pub(crate) fn done<T: Send + 'static>(self: &Arc<Self>, output: T) -> Started<T> {
        Started { client: self.clone(), future: None, output: Some(output) }
    }

    /// Runs a future with the client's timers at hand, whoever polls it.
    pub(crate) async fn entered<F: Future>(&self, future: F) -> F::Output {
        self.runtime.entered(future).await
    }

    pub(crate) fn register_guard(&self, held: &Arc<Held>, due_us: u64) {
        self.engine.watch(held.name(), held.owner());
        if !self.guards.add(held.owner(), held, due_us) {
            self.engine.unwatch(held.owner());
            held.lose(LossCause::Unattended);
        }
    }

    pub(crate) fn forget_guard(&self, owner: Owner) {
        if self.guards.remove(owner) {
            self.engine.unwatch(owner);
        }
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
                    meter::woken();
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
                        WakeEvent::Revoked { token } => {
                            // First to the acquire, which looks there once it has made a guard.
                            self.waits.signal(&name, wake.owner, Signal::Revoked { token });
                            let held = self.guards.find(wake.owner);
                            if let Some(held) = held.filter(|held| held.is_of(token)) {
                                held.lose(LossCause::Revoked);
                            }
                        }
                    }
                }
                Some(Woken::Gone { owner }) => {
                    if let Some(held) = self.guards.find(owner) {
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

type Running<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What was started, and goes on in the background if this is dropped.
pub(crate) struct Started<T: Send + 'static> {
    client: Arc<Client>,
    future: Option<Running<T>>,
    output: Option<T>,
}

impl<T: Send + Unpin + 'static> Future for Started<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if let Some(output) = self.output.take() {
            return Poll::Ready(output);
        }
        let Some(future) = &mut self.future else { return Poll::Pending };
        let output = ready!(future.as_mut().poll(context));
        self.future = None;
        Poll::Ready(output)
    }
}

impl<T: Send + 'static> Drop for Started<T> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            self.client.spawn(async move {
                let _ = future.await;
            });
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
