//! The connections of one client that carry out steps: a few, each opened when all others are busy, and closed when it
//! was idle for a while. The one that was used last stays.
//!
//! Invariant: a connection in `idle` has no transaction. Only [`BusySession::give_back`] puts one there, after a COMMIT
//! or ROLLBACK was answered. A connection that is dropped in between is closed, and the server rolls back.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use super::session::{PgSession, PostgresConnector};
use crate::engine::EngineError;
use crate::sync::lock;

/// A connection that nobody needed for so long is closed.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// After a failed attempt to connect, all who ask within this time get the same error.
const REST: Duration = Duration::from_millis(100);

pub(super) struct SessionPool {
    pub(super) connector: Arc<PostgresConnector>,
    permits: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The one that was used last is at the end.
    idle: Vec<(Box<PgSession>, Instant)>,
    /// How many connections have ended by themselves or by a fault and were not replaced yet.
    lost: usize,
    failed: Option<(EngineError, Instant)>,
    /// A task closes what is idle for too long.
    is_watched: bool,
    is_closed: bool,
}

/// A connection that one task has to itself.
pub(super) struct BusySession {
    session: Option<Box<PgSession>>,
    pool: Arc<SessionPool>,
    /// It was idle before: the server may have closed it meanwhile.
    pub(super) is_reused: bool,
    _permit: OwnedSemaphorePermit,
}

impl SessionPool {
    pub(super) fn new(connector: Arc<PostgresConnector>) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(connector.config.connections));
        Arc::new(Self { connector, permits, state: Mutex::default() })
    }

    /// An idle connection, or a new one. Waits for its turn if there are as many as may be.
    pub(super) async fn take(self: &Arc<Self>) -> Result<BusySession, EngineError> {
        let timeouts = self.connector.config.timeouts;
        let turn =
            timeout(timeouts.connect + timeouts.response, self.permits.clone().acquire_owned());
        let permit = match turn.await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(closed()),
            Err(_) => {
                let why = "all connections of this client wait for the server (see connections=)";
                return Err(EngineError::Unreachable(why.to_owned()));
            }
        };
        let (idle, is_reused) = match self.idle_session()? {
            Some(session) => (session, true),
            None => (self.connect().await?, false),
        };
        Ok(BusySession { session: Some(idle), pool: self.clone(), is_reused, _permit: permit })
    }

    fn idle_session(&self) -> Result<Option<Box<PgSession>>, EngineError> {
        let mut state = lock(&self.state);
        if state.is_closed {
            return Err(closed());
        }
        while let Some((session, _)) = state.idle.pop() {
            if session.is_open() {
                return Ok(Some(session));
            }
            state.lost += 1;
        }
        match &state.failed {
            Some((error, at)) if at.elapsed() < REST => Err(error.clone()),
            _ => Ok(None),
        }
    }

    async fn connect(&self) -> Result<Box<PgSession>, EngineError> {
        let is_replacement = lock(&self.state).lost > 0;
        // Nobody sends to this connection: it listens to no channel.
        let connected = self.connector.connect(Arc::new(|_: &str| ()), is_replacement).await;
        let failed = connected.as_ref().err().map(|error| (error.clone(), Instant::now()));
        let mut state = lock(&self.state);
        state.failed = failed;
        if connected.is_ok() {
            state.lost = state.lost.saturating_sub(1);
        }
        drop(state);
        connected.map(Box::new)
    }

    /// Closes connections that are idle for too long, until one is left.
    async fn close_idle(self: Arc<Self>) {
        loop {
            sleep(IDLE_MAX).await;
            let mut state = lock(&self.state);
            let is_old = |(_, since): &(Box<PgSession>, Instant)| since.elapsed() >= IDLE_MAX;
            let old = state.idle.iter().take_while(|idle| is_old(idle)).count();
            let old = old.min(state.idle.len().saturating_sub(1));
            let old: Vec<_> = state.idle.drain(..old).collect();
            state.is_watched = state.idle.len() > 1;
            let is_done = !state.is_watched;
            drop(state);
            old.into_iter().for_each(|(session, _)| session.end());
            if is_done {
                return;
            }
        }
    }

    /// No connection is handed out any more, and those that are idle end.
    pub(super) fn close(&self) {
        self.permits.close();
        let mut state = lock(&self.state);
        state.is_closed = true;
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        idle.into_iter().for_each(|(session, _)| session.end());
    }
}

impl BusySession {
    pub(super) fn session(&self) -> &PgSession {
        self.session.as_ref().unwrap_or_else(|| unreachable!("it is there until it is given back"))
    }

    /// For the next task: there is no transaction on it.
    pub(super) fn give_back(mut self) {
        let Some(session) = self.session.take_if(|session| session.is_open()) else { return };
        let mut state = lock(&self.pool.state);
        if state.is_closed {
            drop(state);
            session.end();
            return;
        }
        state.idle.push((session, Instant::now()));
        let is_crowded = state.idle.len() > 1;
        if is_crowded && !std::mem::replace(&mut state.is_watched, true) {
            drop(state);
            self.pool.connector.spawn_until_closed(self.pool.clone().close_idle());
        }
    }
}

impl Drop for BusySession {
    /// Without having been given back it is closed, and the server rolls back.
    fn drop(&mut self) {
        if self.session.take().is_some() {
            lock(&self.pool.state).lost += 1;
        }
    }
}

fn closed() -> EngineError {
    EngineError::Broken("this client is closed".to_owned())
}
