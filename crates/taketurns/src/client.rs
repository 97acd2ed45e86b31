//! One client of one engine: what all its locks and guards share.
//!
//! ```text
//!   Locks, Guard ──► ClientHandle ──► Client ──► Engine
//!                         │             │  ▲
//!             ends it     ▼             ▼  └── answers, to the operation that asked
//!                    ClientDriver     Shell ◄─ wake-ups, on the thread that read them
//! ```

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use taketurns_core::session::{self, Anchor, CallFailure, Session};
use taketurns_core::{ClientId, Label, Name, Owner, Request};
use tokio_util::task::TaskTracker;

use crate::clock::local_us;
use crate::engine::{Answer, AnswerFuture, Engine, EngineError, Stamp};
use crate::meter;
use crate::runtime::{Runtime, sleep};
use crate::shell::Shell;
use crate::sync::Arc;
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
