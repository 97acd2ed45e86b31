//! One server at a time: the one in the URL, or the one that Sentinels say is the master. A [`SessionSlot`] has at most
//! one session with a server, opened when it is needed; a Cluster has one for each node.
//!
//! ```text
//!   100 callers ─► SessionSlot ─► one task that opens ─► ServerSession, for all of them
//! ```
//!
//! Opening is a task of its own and not the first caller's: a caller may be dropped, or not be polled, and the others
//! must not wait for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument, Span};

use super::sentinel::Sentinels;
use crate::engine::EngineEvent;
use crate::engine::redis::backend::Repair;
use crate::engine::redis::connection::connector::Connector;
use crate::engine::redis::connection::failure::Failure;
use crate::engine::redis::handshake::{Handshake, ServerSession, SessionTarget};
use crate::engine::redis::url::Address;
use crate::sync::{Mutex, lock};
use crate::telling::{Reconnect, target};

/// How the server is found.
#[derive(Clone)]
pub(crate) enum ServerLocator {
    Fixed(Address),
    Sentinels(Arc<Sentinels>),
}

pub(crate) struct SingleServer {
    handshake: Arc<Handshake>,
    locator: ServerLocator,
    pub(super) slot: SessionSlot,
    watch: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl SingleServer {
    pub(crate) fn new(handshake: Arc<Handshake>, locator: ServerLocator) -> Arc<Self> {
        let (slot, watch) = (SessionSlot::default(), Mutex::default());
        let single = Arc::new(Self { handshake, locator, slot, watch });
        if let ServerLocator::Sentinels(sentinels) = &single.locator {
            let handshake = single.handshake.clone();
            let watch = sentinels.clone().watch(handshake, Arc::downgrade(&single));
            *lock(&single.watch) = Some(single.handshake.connector.spawn(watch));
        }
        single
    }

    /// The session that is open, or a new one.
    pub(crate) async fn session(&self) -> Result<Arc<ServerSession>, Failure> {
        self.slot.session(&self.handshake.connector, |first| self.open(first)).await
    }

    fn open(&self, first: bool) -> OpenFuture {
        let (handshake, locator) = (self.handshake.clone(), self.locator.clone());
        let marker_key = handshake.config().marker_key();
        Box::pin(async move {
            let address = match &locator {
                ServerLocator::Fixed(address) => address.clone(),
                ServerLocator::Sentinels(sentinels) => sentinels.find(&handshake.connector).await?,
            };
            let target = SessionTarget { address, source: 0, marker_key, subscribe: true, first };
            let session = handshake.open(target).await;
            if let (Err(_), ServerLocator::Sentinels(sentinels)) = (&session, &locator) {
                // Perhaps it is the Sentinel that is behind the times.
                sentinels.try_next_first();
            }
            session
        })
    }

    /// A session whose backend is up to date, on the same connection.
    pub(crate) async fn repair(
        &self,
        session: &Arc<ServerSession>,
        repair: Repair,
    ) -> Result<Arc<ServerSession>, Failure> {
        let replace = || -> OpenFuture {
            let (handshake, old) = (self.handshake.clone(), session.clone());
            Box::pin(async move { handshake.repair(&old, repair, old.marker_key.clone()).await })
        };
        self.slot.replace(&self.handshake.connector, session, replace).await
    }

    /// A request failed: that may say something about the server.
    pub(crate) fn handle_failure(&self, session: &ServerSession, failure: &Failure) {
        if failure.wants_master() {
            session.connection().kill();
        }
    }

    /// Sentinels say where the master is.
    pub(crate) fn handle_master(&self, address: &Address) {
        if let Some(session) = self.slot.current()
            && session.connection().address != *address
        {
            let from = &session.connection().address;
            tracing::info!(target: target::REDIS, %from, to = %address, "the master has moved");
            session.connection().kill();
        }
    }

    pub(crate) fn close(&self) {
        *lock(&self.watch) = None;
        self.slot.close();
    }
}

/// A server that could not be reached is not tried again within this time.
const REST: Duration = Duration::from_millis(50);

type OpenOutcome = Result<Weak<ServerSession>, (Failure, Instant)>;
pub(crate) type OpenFuture =
    Pin<Box<dyn Future<Output = Result<Arc<ServerSession>, Failure>> + Send>>;

#[derive(Default)]
pub(crate) struct SessionSlot {
    slot: Arc<Slot>,
}

#[derive(Default)]
struct Slot {
    /// The session that is open. It is read without the mutex, and changed only under it.
    open: ArcSwapOption<ServerSession>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last one that was begun. If it went well, its session is in `open`, or was.
    attempt: Option<SessionAttempt>,
    /// There was a session before: waiters must ask again when there is a new one.
    opened: bool,
    /// When one was last begun: a server that hangs up on every session is given a rest too.
    begun: Option<Instant>,
    closed: bool,
}

struct SessionAttempt {
    outcome: watch::Receiver<Option<OpenOutcome>>,
    _task: AbortOnDropHandle<()>,
}

enum SlotState {
    ServerSession(Arc<ServerSession>),
    Wait(watch::Receiver<Option<OpenOutcome>>),
    Failed(Failure),
    Nothing,
}

impl Slot {
    fn current(&self) -> Option<Arc<ServerSession>> {
        self.open.load_full().filter(|session| session.connection().is_alive())
    }

    fn now(&self, state: &State) -> SlotState {
        if let Some(session) = self.current() {
            return SlotState::ServerSession(session);
        }
        let Some(attempt) = &state.attempt else { return SlotState::Nothing };
        match &*attempt.outcome.borrow() {
            None => SlotState::Wait(attempt.outcome.clone()),
            Some(Err((failure, at))) if at.elapsed() < REST => SlotState::Failed(failure.clone()),
            _ => SlotState::Nothing,
        }
    }

    /// An attempt went well.
    fn enter(&self, session: Arc<ServerSession>) {
        let mut state = lock(&self.state);
        state.opened = true;
        if state.closed {
            drop(state);
            session.connection().close();
        } else {
            self.open.store(Some(session));
        }
    }

    /// Begins an attempt. What is open by then is not used any more.
    fn begin(
        self: &Arc<Self>,
        state: &mut State,
        connector: &Connector,
        opening: OpenFuture,
        recheck: bool,
    ) -> watch::Receiver<Option<OpenOutcome>> {
        self.open.store(None);
        let (done, outcome) = watch::channel(None);
        let (wakes, slot) = (connector.wakes.clone(), Arc::downgrade(self));
        let rest = state.begun.map_or(Duration::ZERO, |begun| REST.saturating_sub(begun.elapsed()));
        state.begun = Some(Instant::now() + rest);
        let reconnect = recheck.then(Reconnect::begin);
        let span = reconnect.as_ref().map_or_else(Span::none, Reconnect::span);
        let task = async move {
            if !rest.is_zero() {
                tokio::time::sleep(rest).await;
            }
            let result = opening.await;
            let opened = result.is_ok();
            let failed = |failure: Failure| (failure.before_sending(), Instant::now());
            if let Some(reconnect) = reconnect {
                reconnect.end(result.as_ref().ok().map(|session| &session.connection().address));
            }
            let outcome = result.map_err(failed).map(|session| {
                let outcome = Arc::downgrade(&session);
                if let Some(slot) = Weak::upgrade(&slot) {
                    slot.enter(session);
                }
                outcome
            });
            done.send_replace(Some(outcome));
            if opened && recheck {
                // It is subscribed now. The clients ask for what they missed before that.
                wakes.push(EngineEvent::Recheck);
            }
        };
        let task = connector.spawn(task.instrument(span));
        state.attempt = Some(SessionAttempt { outcome: outcome.clone(), _task: task });
        outcome
    }

    async fn wait(
        &self,
        mut outcome: watch::Receiver<Option<OpenOutcome>>,
    ) -> Result<Arc<ServerSession>, Failure> {
        let outcome = match outcome.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone(),
            Err(_) => None,
        };
        match outcome {
            // Another may have taken its place since.
            Some(Ok(session)) => session
                .upgrade()
                .filter(|session| session.connection().is_alive())
                .or_else(|| self.current())
                .ok_or_else(lost),
            Some(Err((failure, _))) => Err(failure),
            // Its task was dropped.
            None => Err(closed()),
        }
    }
}

impl SessionSlot {
    /// The session that is open, or a new one.
    pub(crate) async fn session(
        &self,
        connector: &Connector,
        opening: impl FnOnce(bool) -> OpenFuture,
    ) -> Result<Arc<ServerSession>, Failure> {
        if let Some(session) = self.current() {
            return Ok(session);
        }
        let outcome = {
            let mut state = lock(&self.slot.state);
            if state.closed {
                return Err(closed());
            }
            match self.slot.now(&state) {
                SlotState::ServerSession(session) => return Ok(session),
                SlotState::Failed(failure) => return Err(failure),
                SlotState::Wait(outcome) => outcome,
                SlotState::Nothing => {
                    let before = state.opened;
                    self.slot.begin(&mut state, connector, opening(!before), before)
                }
            }
        };
        self.slot.wait(outcome).await
    }

    /// The session that takes the place of `old`, on the same connection. Another caller may have opened it
    /// already.
    pub(crate) async fn replace(
        &self,
        connector: &Connector,
        old: &Arc<ServerSession>,
        replacing: impl FnOnce() -> OpenFuture,
    ) -> Result<Arc<ServerSession>, Failure> {
        let outcome = {
            let mut state = lock(&self.slot.state);
            if state.closed {
                return Err(closed());
            }
            match self.slot.now(&state) {
                SlotState::ServerSession(session) if Arc::ptr_eq(&session, old) => {
                    state.begun = None;
                    self.slot.begin(&mut state, connector, replacing(), false)
                }
                SlotState::ServerSession(session) => return Ok(session),
                SlotState::Wait(outcome) => outcome,
                SlotState::Failed(failure) => return Err(failure),
                SlotState::Nothing => {
                    let why = format!("the connection to {} is lost", old.connection().address);
                    return Err(Failure::Unreachable(why));
                }
            }
        };
        self.slot.wait(outcome).await
    }

    /// The session that is open now, if one is.
    pub(crate) fn current(&self) -> Option<Arc<ServerSession>> {
        self.slot.current()
    }

    /// Lets go of the session that is open, if one is. What is being opened is let be: there are
    /// callers who wait for it.
    pub(crate) fn clear(&self) -> Option<Arc<ServerSession>> {
        let mut state = lock(&self.slot.state);
        let session = self.slot.current()?;
        state.attempt = None;
        self.slot.open.store(None);
        Some(session)
    }

    /// Nothing is opened any more.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.slot.state);
        state.closed = true;
        let (attempt, session) = (state.attempt.take(), self.slot.open.swap(None));
        drop(state);
        drop(attempt);
        if let Some(session) = session {
            session.connection().close();
        }
    }
}

fn lost() -> Failure {
    Failure::Unreachable("the connection was lost as soon as it was made".to_owned())
}

fn closed() -> Failure {
    Failure::Broken("this client is closed".to_owned())
}
