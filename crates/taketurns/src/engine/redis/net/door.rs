//! The way to one server: at most one session at a time, opened when it is needed.
//!
//! ```text
//!   100 callers ─► Door ─► one task that opens ─► Session, for all of them
//! ```
//!
//! Opening is a task of its own and not the first caller's: a caller may be dropped, or not be polled,
//! and the others must not wait for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use tokio::sync::watch;
use tracing::{Instrument, Span};

use super::failure::Failure;
use super::line::Task;
use super::opener::Opener;
use super::session::Session;
use crate::engine::EngineEvent;
use crate::sync::{Mutex, lock};
use crate::telling::Reconnect;

/// A server that could not be reached is not tried again within this time.
const REST: Duration = Duration::from_millis(50);

type Outcome = Result<Weak<Session>, (Failure, Instant)>;
pub(crate) type Opening = Pin<Box<dyn Future<Output = Result<Arc<Session>, Failure>> + Send>>;

#[derive(Default)]
pub(crate) struct Door {
    inside: Arc<Inside>,
}

#[derive(Default)]
struct Inside {
    /// The session that is open. It is read without the mutex, and changed only under it.
    open: ArcSwapOption<Session>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last one that was begun. If it went well, its session is in `open`, or was.
    attempt: Option<Attempt>,
    /// There was a session before: whoever waits must ask again once there is one anew.
    opened: bool,
    /// When one was last begun: a server that hangs up on every session is given a rest too.
    begun: Option<Instant>,
    closed: bool,
}

struct Attempt {
    outcome: watch::Receiver<Option<Outcome>>,
    _task: Task,
}

enum Now {
    Session(Arc<Session>),
    Wait(watch::Receiver<Option<Outcome>>),
    Failed(Failure),
    Nothing,
}

impl Inside {
    fn current(&self) -> Option<Arc<Session>> {
        self.open.load_full().filter(|session| session.link.is_alive())
    }

    fn now(&self, state: &State) -> Now {
        if let Some(session) = self.current() {
            return Now::Session(session);
        }
        let Some(attempt) = &state.attempt else { return Now::Nothing };
        match &*attempt.outcome.borrow() {
            None => Now::Wait(attempt.outcome.clone()),
            Some(Err((failure, at))) if at.elapsed() < REST => Now::Failed(failure.clone()),
            _ => Now::Nothing,
        }
    }

    /// An attempt went well.
    fn enter(&self, session: Arc<Session>) {
        let mut state = lock(&self.state);
        state.opened = true;
        if state.closed {
            drop(state);
            session.link.end();
        } else {
            self.open.store(Some(session));
        }
    }

    /// Begins an attempt. What is open by then is not used any more.
    fn begin(
        self: &Arc<Self>,
        state: &mut State,
        opener: &Opener,
        opening: Opening,
        recheck: bool,
    ) -> watch::Receiver<Option<Outcome>> {
        self.open.store(None);
        let (done, outcome) = watch::channel(None);
        let (wakes, inside) = (opener.wakes.clone(), Arc::downgrade(self));
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
                reconnect.end(result.as_ref().ok().map(|session| &session.link.address));
            }
            let outcome = result.map_err(failed).map(|session| {
                let outcome = Arc::downgrade(&session);
                if let Some(inside) = Weak::upgrade(&inside) {
                    inside.enter(session);
                }
                outcome
            });
            done.send_replace(Some(outcome));
            if opened && recheck {
                // Subscribed by now: what was missed until here has to be asked for.
                wakes.push(EngineEvent::Recheck);
            }
        };
        let task = opener.spawn(task.instrument(span));
        state.attempt = Some(Attempt { outcome: outcome.clone(), _task: task });
        outcome
    }

    async fn wait(
        &self,
        mut outcome: watch::Receiver<Option<Outcome>>,
    ) -> Result<Arc<Session>, Failure> {
        let outcome = match outcome.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone(),
            Err(_) => None,
        };
        match outcome {
            // Another may have taken its place since.
            Some(Ok(session)) => session
                .upgrade()
                .filter(|session| session.link.is_alive())
                .or_else(|| self.current())
                .ok_or_else(lost),
            Some(Err((failure, _))) => Err(failure),
            // Its task was dropped.
            None => Err(closed()),
        }
    }
}

impl Door {
    /// The session that is open, or a new one.
    pub(crate) async fn session(
        &self,
        opener: &Opener,
        opening: impl FnOnce(bool) -> Opening,
    ) -> Result<Arc<Session>, Failure> {
        if let Some(session) = self.current() {
            return Ok(session);
        }
        let outcome = {
            let mut state = lock(&self.inside.state);
            if state.closed {
                return Err(closed());
            }
            match self.inside.now(&state) {
                Now::Session(session) => return Ok(session),
                Now::Failed(failure) => return Err(failure),
                Now::Wait(outcome) => outcome,
                Now::Nothing => {
                    let before = state.opened;
                    self.inside.begin(&mut state, opener, opening(!before), before)
                }
            }
        };
        self.inside.wait(outcome).await
    }

    /// The session that takes the place of `old`, on the same link. Somebody else may have seen to
    /// it already.
    pub(crate) async fn replace(
        &self,
        opener: &Opener,
        old: &Arc<Session>,
        replacing: impl FnOnce() -> Opening,
    ) -> Result<Arc<Session>, Failure> {
        let outcome = {
            let mut state = lock(&self.inside.state);
            if state.closed {
                return Err(closed());
            }
            match self.inside.now(&state) {
                Now::Session(session) if Arc::ptr_eq(&session, old) => {
                    state.begun = None;
                    self.inside.begin(&mut state, opener, replacing(), false)
                }
                Now::Session(session) => return Ok(session),
                Now::Wait(outcome) => outcome,
                Now::Failed(failure) => return Err(failure),
                Now::Nothing => {
                    let why = format!("the connection to {} is lost", old.link.address);
                    return Err(Failure::Unreachable(why));
                }
            }
        };
        self.inside.wait(outcome).await
    }

    /// The session that is open now, if one is.
    pub(crate) fn current(&self) -> Option<Arc<Session>> {
        self.inside.current()
    }

    /// Lets go of the session that is open, if one is. What is being opened is let be: there are
    /// callers who wait for it.
    pub(crate) fn clear(&self) -> Option<Arc<Session>> {
        let mut state = lock(&self.inside.state);
        let session = self.inside.current()?;
        state.attempt = None;
        self.inside.open.store(None);
        Some(session)
    }

    /// Nothing is opened any more.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.inside.state);
        state.closed = true;
        let (attempt, session) = (state.attempt.take(), self.inside.open.swap(None));
        drop(state);
        drop(attempt);
        if let Some(session) = session {
            session.link.end();
        }
    }
}

fn lost() -> Failure {
    Failure::Unreachable("the connection was lost as soon as it was made".to_owned())
}

fn closed() -> Failure {
    Failure::Broken("this client is closed".to_owned())
}
