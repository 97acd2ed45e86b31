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

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use taketurns_core::session::{self, Anchor, CallFailure, Origin, Session, Transmit};
use taketurns_core::wire::public_id;
use taketurns_core::{ClientId, Label, Name, Owner, Reply, Request};
use tokio::sync::{Notify, mpsc};
use tokio_util::task::TaskTracker;

use crate::clock::local_us;
use crate::engine::{Answer, AnswerFuture, Engine, EngineError, EngineEvent, Stamp};
use crate::meter::{self, RequestKind};
use crate::runtime::Runtime;
use crate::sync::{self, Arc, Mutex, MutexGuard, lock};
use crate::{random, telling};

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
        let sent = CallStart { at_us: sent_us, what: RequestKind::of(&request) };
        Call { answer: self.engine.call(lock, request), sent }
    }

    /// Begins a request that no task waits for.
    pub(crate) fn begin_call_aside(&self, lock: &Name, request: Request, sent_us: u64) -> Call {
        let sent = CallStart { at_us: sent_us, what: RequestKind::of(&request) };
        Call { answer: self.engine.call_aside(lock, request), sent }
    }

    /// Reads an answer, for the session.
    pub(crate) fn read(
        self: &Arc<Self>,
        sent: CallStart,
        lock: &Name,
        answer: Result<Answer, EngineError>,
    ) -> Result<CallAnswer, EngineError> {
        let Answer { reply, stamp, more } = answer?;
        if more {
            self.go_on(lock.clone());
        }
        let clock = stamp.map(|stamp| (stamp.origin, anchor(stamp, sent.at_us)));
        Ok(CallAnswer { reply, clock })
    }

    /// One request besides those of operations.
    pub(crate) async fn call(
        self: &Arc<Self>,
        lock: &Name,
        request: Request,
    ) -> Result<session::TimedReply, EngineError> {
        let sent = CallStart { at_us: local_us(), what: RequestKind::of(&request) };
        let answer = self.engine.call(lock, request).await;
        sent.took(answer.is_ok(), local_us());
        let answer = self.read(sent, lock, answer)?.timed()?;
        self.drive(|session, now_us| session.observe(now_us, answer.origin, answer.anchor));
        Ok(answer)
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
            while let Ok(answer) = client.engine.call_aside(&name, Request::Tick).await {
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

    /// Runs a future with the client's timers, on whichever thread polls it.
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

    /// Takes one step. The keeper sends the resulting requests.
    pub(crate) fn drive<T>(&self, step: impl FnOnce(&mut Session, u64) -> T) -> T {
        let (output, has_transmits) = self.run(step, |session| session.has_transmits());
        if has_transmits {
            self.is_due.notify_one();
        }
        output
    }

    /// Takes one step, and returns the requests to send.
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
            effects.events.into_iter().for_each(telling::tell);
            if effects.look {
                self.is_due.notify_one();
            }
        }
        (output, sends)
    }

    /// Looks something up. It must change nothing that a task, the log or the engine must learn of.
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

/// Where an engine pushes [`EngineEvent`]s for its client, and looks up the owner that a message is for. An event
/// is handled on the pushing thread, so an engine must not hold a mutex meanwhile that a call would need.
#[derive(Clone)]
pub struct Wakes {
    sink: Sink,
    owners: Owners,
}

#[derive(Clone)]
enum Sink {
    Channel(mpsc::UnboundedSender<EngineEvent>),
    Shell(Arc<Shell>),
}

/// The owners that acquire or hold.
#[derive(Clone)]
enum Owners {
    /// Those of the client's session.
    Shell(Arc<Shell>),
    /// Those that were registered, by their public id.
    Named(Arc<Mutex<HashMap<String, (Owner, Name)>>>),
}

impl Wakes {
    /// Creates a sender and its receiver. For tests of engines; a client makes its own.
    pub fn channel() -> (Self, mpsc::UnboundedReceiver<EngineEvent>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { sink: Sink::Channel(sender), owners: Owners::Named(Arc::default()) }, receiver)
    }

    /// Creates a sender for the same owners whose events go to the returned receiver instead of the client.
    pub fn intercept(&self) -> (Self, mpsc::UnboundedReceiver<EngineEvent>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { sink: Sink::Channel(sender), owners: self.owners.clone() }, receiver)
    }

    /// Pushes into a client's session.
    pub(crate) fn new(shell: Arc<Shell>) -> Self {
        Self { sink: Sink::Shell(shell.clone()), owners: Owners::Shell(shell) }
    }

    /// Pushes an event. It is dropped if the client is gone.
    pub fn push(&self, event: EngineEvent) {
        match &self.sink {
            Sink::Channel(sender) => drop(sender.send(event)),
            Sink::Shell(shell) => shell.handle_event(event),
        }
    }

    /// Registers an owner, for tests without a client. No effect if a client has made this.
    pub fn register_owner(&self, lock: &Name, owner: Owner) {
        if let Owners::Named(named) = &self.owners {
            sync::lock(named).insert(public_id(owner), (owner, lock.clone()));
        }
    }

    /// The engine's messages name owners by their public ids.
    #[cfg(feature = "redis")]
    pub(crate) fn name_owners(&self) {
        if let Owners::Shell(shell) = &self.owners {
            shell.look(Session::name_owners);
        }
    }

    /// Finds the owner with this public id, and the lock that it wants or holds.
    pub fn find_owner(&self, id: &str) -> Option<(Owner, Name)> {
        match &self.owners {
            Owners::Shell(shell) => shell.look(|session| session.find_owner(id)),
            Owners::Named(named) => lock(named).get(id).cloned(),
        }
    }

    /// Does this owner acquire or hold a lock, or is its release under way?
    pub fn has_owner(&self, owner: Owner) -> bool {
        match &self.owners {
            Owners::Shell(shell) => shell.look(|session| session.has_owner(owner)),
            Owners::Named(named) => lock(named).values().any(|(named, _)| *named == owner),
        }
    }

    /// Does this owner acquire a lock that it does not hold yet?
    #[cfg(feature = "redis")]
    pub(crate) fn is_acquiring(&self, owner: Owner) -> bool {
        match &self.owners {
            Owners::Shell(shell) => shell.look(|session| session.is_acquiring(owner)),
            Owners::Named(_) => self.has_owner(owner),
        }
    }

    /// How many owners acquire or hold a lock.
    pub fn owner_count(&self) -> usize {
        match &self.owners {
            Owners::Shell(shell) => shell.look(|session| session.owner_count()),
            Owners::Named(named) => lock(named).len(),
        }
    }
}

impl std::fmt::Debug for Wakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wakes").finish_non_exhaustive()
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

/// A request under way.
pub(crate) struct Call {
    answer: AnswerFuture,
    sent: CallStart,
}

/// What was sent, and when.
#[derive(Clone, Copy)]
pub(crate) struct CallStart {
    pub(crate) at_us: u64,
    pub(crate) what: RequestKind,
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

/// What an engine answered, and what its clock showed. Only a release may tell no time.
pub(crate) struct CallAnswer {
    pub(crate) reply: Reply,
    pub(crate) clock: Option<(Origin, Anchor)>,
}

impl CallAnswer {
    /// The answer to all but a release.
    pub(crate) fn timed(self) -> Result<session::TimedReply, EngineError> {
        let no_time = || EngineError::Broken("the store answered without its time".into());
        let (origin, anchor) = self.clock.ok_or_else(no_time)?;
        Ok(session::TimedReply { reply: self.reply, origin, anchor })
    }
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

#[cfg(all(test, not(shuttle)))]
mod tests;
