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
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tracing::{Instrument, Span};

use super::failure::Failure;
use super::line::{Task, lock};
use super::opener::Opener;
use super::session::Session;
use crate::engine::Woken;
use crate::telling::Reconnect;

/// A server that could not be reached is not tried again within this time.
const REST: Duration = Duration::from_millis(50);

type Outcome = Result<Arc<Session>, (Failure, Instant)>;
pub(crate) type Opening = Pin<Box<dyn Future<Output = Result<Arc<Session>, Failure>> + Send>>;

#[derive(Default)]
pub(crate) struct Door {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
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

impl State {
    fn now(&self) -> Now {
        let Some(attempt) = &self.attempt else { return Now::Nothing };
        match &*attempt.outcome.borrow() {
            None => Now::Wait(attempt.outcome.clone()),
            Some(Ok(session)) if session.link.is_alive() => Now::Session(session.clone()),
            Some(Err((failure, at))) if at.elapsed() < REST => Now::Failed(failure.clone()),
            _ => Now::Nothing,
        }
    }

    /// Whether this door has ever led anywhere.
    fn note_opened(&mut self) -> bool {
        self.opened |= self
            .attempt
            .as_ref()
            .is_some_and(|attempt| matches!(&*attempt.outcome.borrow(), Some(Ok(_))));
        self.opened
    }

    fn begin(
        &mut self,
        opener: &Opener,
        opening: Opening,
        recheck: bool,
    ) -> watch::Receiver<Option<Outcome>> {
        let (done, outcome) = watch::channel(None);
        let wakes = opener.wakes.clone();
        let rest = self.begun.map_or(Duration::ZERO, |begun| REST.saturating_sub(begun.elapsed()));
        self.begun = Some(Instant::now() + rest);
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
            done.send_replace(Some(result.map_err(failed)));
            if opened && recheck {
                // Subscribed by now: what was missed until here has to be asked for.
                wakes.push(Woken::Recheck);
            }
        };
        let task = opener.spawn(task.instrument(span));
        self.attempt = Some(Attempt { outcome: outcome.clone(), _task: task });
        outcome
    }
}

impl Door {
    /// The session that is open, or a new one.
    pub(crate) async fn session(
        &self,
        opener: &Opener,
        opening: impl FnOnce(bool) -> Opening,
    ) -> Result<Arc<Session>, Failure> {
        let outcome = {
            let mut state = lock(&self.state);
            if state.closed {
                return Err(closed());
            }
            match state.now() {
                Now::Session(session) => return Ok(session),
                Now::Failed(failure) => return Err(failure),
                Now::Wait(outcome) => outcome,
                Now::Nothing => {
                    let before = state.note_opened();
                    state.begin(opener, opening(!before), before)
                }
            }
        };
        wait(outcome).await
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
            let mut state = lock(&self.state);
            if state.closed {
                return Err(closed());
            }
            match state.now() {
                Now::Session(session) if Arc::ptr_eq(&session, old) => {
                    state.begun = None;
                    state.begin(opener, replacing(), false)
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
        wait(outcome).await
    }

    /// The session that is open now, if one is.
    pub(crate) fn current(&self) -> Option<Arc<Session>> {
        match lock(&self.state).now() {
            Now::Session(session) => Some(session),
            _ => None,
        }
    }

    /// Lets go of the session that is open, if one is. What is being opened is let be: there are
    /// callers who wait for it.
    pub(crate) fn clear(&self) -> Option<Arc<Session>> {
        let mut state = lock(&self.state);
        match state.now() {
            Now::Session(session) => {
                state.note_opened();
                state.attempt = None;
                Some(session)
            }
            _ => None,
        }
    }

    /// Nothing is opened any more.
    pub(crate) fn close(&self) {
        let session = self.clear();
        let attempt = {
            let mut state = lock(&self.state);
            state.closed = true;
            state.attempt.take()
        };
        drop(attempt);
        if let Some(session) = session {
            session.link.end();
        }
    }
}

async fn wait(mut outcome: watch::Receiver<Option<Outcome>>) -> Result<Arc<Session>, Failure> {
    let outcome = match outcome.wait_for(Option::is_some).await {
        Ok(outcome) => outcome.clone(),
        Err(_) => None,
    };
    match outcome {
        Some(Ok(session)) => Ok(session),
        Some(Err((failure, _))) => Err(failure),
        // Its task was dropped.
        None => Err(closed()),
    }
}

fn closed() -> Failure {
    Failure::Broken("this client is closed".to_owned())
}
