//! One client of one engine: what all its locks and guards share.
//!
//! ```text
//!   Locks, Guard ──► ClientHandle ──► Client ──► Engine
//!                         │             │  ▲
//!             ends it     ▼             ▼  └── answers, to the operation that asked
//!                    ClientDriver     Shell ◄─ wake-ups, on the thread that read them
//! ```
//!
//! The [`Shell`] is the mutex around the session. Under it nothing is called but the session: no engine, no waker,
//! no log, no metric. So a wake-up is handled on the thread that read it, whatever that thread holds, and a task
//! that is woken may call the client at once. The clock is read under the mutex, so steps are in the order of their
//! times. After a step that panics the session can't be trusted: everything held counts as lost from then on.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use taketurns_core::session::{
    self, Anchor, CallFailure, Hold, LossCause, Session, SessionEvent, Transmit,
};
use taketurns_core::{ClientId, Label, Name, Owner, Request};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::clock::local_us;
use crate::engine::{Answer, AnswerFuture, Engine, EngineError, EngineEvent, Stamp};
use crate::meter::{self, HoldOutcome};
use crate::random;
use crate::runtime::{Runtime, sleep};
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use crate::telling::target;

/// No timer sleeps for longer without looking at the clock: timers stop while the machine sleeps,
/// and leases do not.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// What all handles of one client share.
pub(crate) struct Client {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) id: ClientId,
    pub(crate) who: String,
    /// Of an acquire that does not say why.
    pub(crate) label: Label,
    pub(crate) waiter_lease_ms: u64,
    pub(crate) shell: Arc<Shell>,
    runtime: Runtime,
    /// The tasks that must end before the client does.
    tasks: TaskTracker,
}

impl Client {
    pub(crate) fn new(
        engine: Box<dyn Engine>,
        id: ClientId,
        label: Label,
        waiter_lease_ms: u64,
        shell: Arc<Shell>,
        runtime: Runtime,
    ) -> Self {
        shell.drive(|session, _| session.set_waiter_lease_ms(waiter_lease_ms));
        let (who, tasks) = (label.who().to_owned(), TaskTracker::new());
        Self { engine, id, who, label, waiter_lease_ms, shell, runtime, tasks }
    }

    /// Takes one step of the session, and sends what that wants sent.
    pub(crate) fn drive<T>(self: &Arc<Self>, step: impl FnOnce(&mut Session, u64) -> T) -> T {
        let (output, transmits) = self.shell.drive_and_send(step);
        transmits.into_iter().for_each(|transmit| self.transmit(transmit));
        output
    }

    /// Begins a request.
    pub(crate) fn begin_call(&self, lock: &Name, request: Request, sent_us: u64) -> Call {
        let what = meter::RequestKind::of(&request);
        Call { answer: self.engine.call(lock, request), sent: CallStart { at_us: sent_us, what } }
    }

    /// Reads an answer, for the session. Notes why there is none.
    pub(crate) fn read(
        self: &Arc<Self>,
        sent: CallStart,
        lock: &Name,
        answer: Result<Answer, EngineError>,
        trouble: &mut Option<EngineError>,
    ) -> Result<session::TimedReply, CallFailure> {
        match answer {
            Ok(answer) => {
                *trouble = None;
                if answer.more {
                    self.go_on(lock.clone());
                }
                Ok(read(answer, sent.at_us))
            }
            Err(error) => {
                tracing::debug!(target: target::CLIENT, %lock, %error, "the store did not answer");
                let failure = failure(&error);
                *trouble = Some(error);
                Err(failure)
            }
        }
    }

    /// One request besides those of operations.
    pub(crate) async fn call(
        self: &Arc<Self>,
        lock: &Name,
        request: Request,
    ) -> Result<session::TimedReply, EngineError> {
        let (sent_us, what) = (local_us(), meter::RequestKind::of(&request));
        let answer = self.engine.call(lock, request).await;
        let answer = self.answered(lock, what, sent_us, answer)?;
        self.drive(|session, now_us| session.observe(now_us, answer.origin, answer.anchor));
        Ok(answer)
    }

    /// Several requests, in one round trip where the engine can. The session is not told of the
    /// answers.
    pub(crate) async fn call_all(
        self: &Arc<Self>,
        calls: Vec<(Name, Request)>,
    ) -> Vec<Result<session::TimedReply, EngineError>> {
        let sent_us = local_us();
        let about =
            |(lock, request): &(Name, Request)| (lock.clone(), meter::RequestKind::of(request));
        let about: Vec<(Name, meter::RequestKind)> = calls.iter().map(about).collect();
        let answers = self.engine.call_all(calls).await.into_iter().zip(about);
        answers.map(|(answer, (lock, what))| self.answered(&lock, what, sent_us, answer)).collect()
    }

    fn answered(
        self: &Arc<Self>,
        lock: &Name,
        what: meter::RequestKind,
        sent_us: u64,
        answer: Result<Answer, EngineError>,
    ) -> Result<session::TimedReply, EngineError> {
        what.took(answer.is_ok(), local_us().saturating_sub(sent_us));
        let answer = answer?;
        if answer.more {
            self.go_on(lock.clone());
        }
        Ok(read(answer, sent_us))
    }

    /// Takes the answer to a ping into account, which was asked for at `asked_us`.
    pub(crate) fn observe(&self, asked_us: u64, stamp: Stamp) {
        let anchor = anchor(stamp, asked_us);
        self.shell.drive(|session, now_us| session.observe(now_us, stamp.origin, anchor));
    }

    /// The request for a renewal.
    pub(crate) fn renewal(&self, owner: Owner, lease_ms: u64) -> Request {
        Request::Renew { owner, client: self.id, lease_ms, write_back: None }
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

    /// Runs a task to its end, even if the client is dropped meanwhile.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(self.tasks.track_future(task));
    }

    /// Runs a future with the client's timers at hand, whoever polls it.
    pub(crate) async fn entered<F: Future>(&self, future: F) -> F::Output {
        self.runtime.entered(future).await
    }

    /// Waits until no task is left, nor any that such a task has started meanwhile: what a dropped acquire leaves to
    /// be released is one.
    pub(crate) async fn drain(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// A session that many threads use.
pub(crate) struct Shell {
    session: Mutex<Session>,
    /// The keeper has to look at the timers.
    pub(crate) is_due: Notify,
}

impl Shell {
    pub(crate) fn new(client: ClientId) -> Self {
        random::prepare();
        let session = Mutex::new(Session::new(client, random::bits64()));
        Self { session, is_due: Notify::new() }
    }

    /// Takes one step. What has to be sent is left to the keeper.
    pub(crate) fn drive<T>(&self, step: impl FnOnce(&mut Session, u64) -> T) -> T {
        let (output, has_transmits) = self.run(step, |session| session.has_transmits());
        if has_transmits {
            self.is_due.notify_one();
        }
        output
    }

    /// Takes one step, and returns what has to be sent.
    pub(crate) fn drive_and_send<T>(
        &self,
        step: impl FnOnce(&mut Session, u64) -> T,
    ) -> (T, Vec<Transmit>) {
        self.run(step, Session::take_transmits)
    }

    fn run<T, S>(
        &self,
        step: impl FnOnce(&mut Session, u64) -> T,
        sends: impl FnOnce(&mut Session) -> S,
    ) -> (T, S) {
        let mut locked = StepGuard { session: lock(&self.session), is_done: false };
        let output = step(&mut locked.session, local_us());
        let (effects, sends) = (locked.session.take_effects(), sends(&mut locked.session));
        locked.is_done = true;
        drop(locked);
        if let Some(effects) = effects {
            effects.wakers.into_iter().for_each(std::task::Waker::wake);
            effects.events.into_iter().for_each(tell);
            if effects.look {
                self.is_due.notify_one();
            }
        }
        (output, sends)
    }

    /// Looks something up, which changes nothing that anybody has to be told of.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&mut Session) -> T) -> T {
        at(&mut lock(&self.session))
    }

    /// The engine pushed something, on whichever thread that read it.
    pub(crate) fn handle_event(&self, woken: EngineEvent) {
        if let EngineEvent::Wake { .. } = woken {
            meter::woken();
        }
        self.drive(|session, now_us| match woken {
            EngineEvent::Wake { wake, origin, .. } => {
                session.handle_wake(now_us, wake.owner, wake.event, origin);
            }
            EngineEvent::Lost { owner } => session.handle_gone(now_us, owner),
            EngineEvent::Recheck => session.handle_doubt(now_us, None),
            EngineEvent::LockChanged { lock } => session.handle_doubt(now_us, Some(&lock)),
        });
    }
}

/// A session in the middle of a step. Whether the thread panics says nothing: a guard that is dropped by
/// a panic of its user takes a step like any other.
struct StepGuard<'a> {
    session: MutexGuard<'a, Session>,
    is_done: bool,
}

impl Drop for StepGuard<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.session.handle_unattended(0);
        }
    }
}

fn tell(event: SessionEvent) {
    match event {
        SessionEvent::Lost { hold, cause } => announce(&hold, cause),
        SessionEvent::ClockSet => tracing::warn!(
            target: target::CLIENT,
            "the clock of the store was set forward; what is held there counts as lost"
        ),
        SessionEvent::Quarantined { lock, left_ms } => {
            tracing::warn!(
                target: target::WAITS,
                %lock,
                left_ms,
                "in quarantine: its store was restarted or failed over"
            );
        }
        SessionEvent::Queued { ahead } => meter::queued(ahead),
        SessionEvent::Rejoined { lock } => tracing::warn!(
            name: "taketurns.rejoined",
            target: target::WAITS,
            %lock,
            "the place lapsed; waiting again at the tail"
        ),
        _ => {}
    }
}

/// Tells everybody that a lock is lost, for the first and only time.
pub(crate) fn announce(hold: &Hold, cause: LossCause) {
    tracing::warn!(
        name: "taketurns.lost",
        target: target::HELD,
        lock = %hold.name(),
        %cause,
        "the lock was lost"
    );
    meter::lost(cause);
    if let Some(since_us) = hold.end_turn() {
        meter::hold_ended(local_us().saturating_sub(since_us), HoldOutcome::Lost);
    }
    hold.take_watchers().into_iter().for_each(std::task::Waker::wake);
}

/// A request under way.
pub(crate) struct Call {
    answer: AnswerFuture,
    sent: CallStart,
}

/// What was sent, and when.
#[derive(Clone, Copy)]
pub(crate) struct CallStart {
    at_us: u64,
    what: meter::RequestKind,
}

impl Call {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Answer, EngineError>> {
        Pin::new(&mut self.answer).poll(cx)
    }

    pub(crate) fn sent(&self) -> CallStart {
        self.sent
    }
}

impl CallStart {
    /// It was answered, or failed.
    pub(crate) fn took(self, is_answered: bool, now_us: u64) {
        self.what.took(is_answered, now_us.saturating_sub(self.at_us));
    }
}

fn read(answer: Answer, asked_us: u64) -> session::TimedReply {
    let Answer { reply, stamp, .. } = answer;
    session::TimedReply { reply, origin: stamp.origin, anchor: anchor(stamp, asked_us) }
}

fn anchor(stamp: Stamp, asked_us: u64) -> Anchor {
    Anchor { sent_us: stamp.sent_us.unwrap_or(asked_us), engine_ms: stamp.now_ms }
}

/// What a failure means to the session.
pub(crate) fn failure(error: &EngineError) -> CallFailure {
    match error {
        EngineError::Unreachable(_) | EngineError::Loading(_) => CallFailure::NotDone,
        // A minority may have carried it out.
        EngineError::Unknown(_) | EngineError::NoQuorum(_) => CallFailure::Unknown,
        EngineError::Broken(_) => CallFailure::Broken,
        EngineError::Unsupported(_) | EngineError::Unfenced => CallFailure::Unsupported,
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

#[cfg(all(test, not(shuttle)))]
mod tests;
