//! The connection on which a client that waits listens.
//!
//! ```text
//!   Off ──► Starting ──► Listening ──► Off, half a minute after the last place has lapsed
//!              ▲  │          │
//!              │  └─► Polling│  no connection to be had, or a proxy in front of it: the mailbox looks instead
//!              └────────┴────┘
//! ```
//!
//! Every NOTIFY wakes all connections of the database that listen. So nobody listens who does not wait.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::mailbox::Mailbox;
use super::session::{PgSession, PostgresConnector};
use crate::engine::{EngineError, EngineEvent};
use crate::sync::lock;
use crate::telling::target;

/// A client that has waited is likely to wait again soon. Besides, its refresh may be late on a busy machine.
const LINGER: Duration = Duration::from_secs(30);
/// After a failed attempt.
const REST: Duration = Duration::from_secs(1);
/// A proxy may be replaced by a server, but not often.
const PROXY_REST: Duration = Duration::from_secs(60);
/// What the client sends itself to see whether messages arrive.
const PROBE: &str = "probe";

/// How messages come to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListenPhase {
    Off,
    Starting,
    Listening,
    Polling,
}

pub(super) struct NotifyListener {
    connector: Arc<PostgresConnector>,
    mailbox: Arc<Mailbox>,
    state: Mutex<State>,
    phase: watch::Sender<ListenPhase>,
    probed: Notify,
}

struct State {
    /// Nobody waits for longer than this, as far as is known.
    until: Instant,
    is_running: bool,
    is_closed: bool,
    /// Messages may have been lost, or may yet be until the client listens.
    is_in_doubt: bool,
}

impl NotifyListener {
    pub(super) fn new(connector: Arc<PostgresConnector>, mailbox: Arc<Mailbox>) -> Arc<Self> {
        let until = Instant::now();
        let state = State { until, is_running: false, is_closed: false, is_in_doubt: false };
        Arc::new(Self {
            connector,
            mailbox,
            state: Mutex::new(state),
            phase: watch::Sender::new(ListenPhase::Off),
            probed: Notify::new(),
        })
    }

    pub(super) fn phase(&self) -> ListenPhase {
        *self.phase.borrow()
    }

    /// Listens for so long at least. Returns whether messages already arrived before.
    pub(super) fn listen_for(self: &Arc<Self>, lease_ms: u64) -> bool {
        let mut state = lock(&self.state);
        let until = Instant::now() + Duration::from_millis(lease_ms) + LINGER;
        state.until = state.until.max(until);
        if state.is_running || state.is_closed {
            return self.phase() != ListenPhase::Starting;
        }
        state.is_running = true;
        self.phase.send_replace(ListenPhase::Starting);
        self.connector.spawn_until_closed(self.clone().run());
        false
    }

    /// Waits until messages arrive, in whichever way, but not for longer than this. Returns whether they do. If not, the
    /// client looks for what it may have missed once they do.
    pub(super) async fn ready_within(&self, limit: Duration) -> bool {
        let mut phase = self.phase.subscribe();
        let ready = phase.wait_for(|phase| *phase != ListenPhase::Starting);
        if timeout(limit, ready).await.is_ok() {
            return true;
        }
        lock(&self.state).is_in_doubt = true;
        // It may have begun to listen just now.
        *phase.borrow() != ListenPhase::Starting
    }

    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.is_closed = true;
        drop(state);
        self.phase.send_replace(ListenPhase::Off);
    }

    async fn run(self: Arc<Self>) {
        while !self.has_expired() {
            match self.listen().await {
                Ok(Some(session)) => {
                    self.enter(ListenPhase::Listening);
                    self.mailbox.clone().take_notices().await;
                    self.wait_for_end(session).await;
                }
                Ok(None) => {
                    tracing::warn!(
                        target: target::POSTGRES,
                        "a proxy keeps wake-ups from this client, which polls instead: name the server itself by listen="
                    );
                    self.poll_for(PROXY_REST).await;
                }
                Err(error) => {
                    tracing::debug!(target: target::POSTGRES, %error, "the client can't listen, and polls instead");
                    self.poll_for(REST).await;
                }
            }
        }
    }

    /// Decides under the mutex, so that nobody who still wants to listen is left without.
    fn has_expired(&self) -> bool {
        let mut state = lock(&self.state);
        if state.until > Instant::now() {
            return false;
        }
        state.is_running = false;
        self.phase.send_replace(ListenPhase::Off);
        true
    }

    /// A connection on which messages arrive; `None` if they don't.
    async fn listen(self: &Arc<Self>) -> Result<Option<PgSession>, EngineError> {
        let listener = Arc::downgrade(self);
        let on_notice = Arc::new(move |message: &str| {
            let Some(listener) = listener.upgrade() else { return };
            match message {
                PROBE => listener.probed.notify_one(),
                message => listener.mailbox.handle_message(message),
            }
        });
        let session = self.connector.connect(on_notice).await?;
        let channel = self.mailbox.channel();
        let response = self.connector.config.timeouts.response;
        let listening = format!("LISTEN \"{channel}\"");
        let listening = timeout(response, session.client.batch_execute(&listening)).await;
        listening
            .map_err(|_| super::transaction::no_answer())?
            .map_err(|error| super::failure::before_commit(&error))?;
        // Through another connection: behind a proxy that shares connections the server wakes the client that has this one.
        self.mailbox.send_to_self(PROBE).await?;
        let arrives = timeout(response, self.probed.notified()).await.is_ok();
        if !arrives {
            session.end();
            return Ok(None);
        }
        Ok(Some(session))
    }

    /// Until the connection ends, or nobody waits any more.
    async fn wait_for_end(&self, mut session: PgSession) {
        loop {
            let until = lock(&self.state).until;
            tokio::select! {
                () = session.ended() => break,
                () = sleep_until(until) => {
                    if self.has_expired() {
                        session.end();
                        return;
                    }
                }
            }
        }
        lock(&self.state).is_in_doubt = true;
        self.phase.send_replace(ListenPhase::Starting);
    }

    /// Messages come in this way from now on.
    fn enter(&self, phase: ListenPhase) {
        self.phase.send_replace(phase);
        if std::mem::take(&mut lock(&self.state).is_in_doubt) {
            self.mailbox.wakes.push(EngineEvent::Recheck);
        }
    }

    async fn poll_for(&self, rest: Duration) {
        self.enter(ListenPhase::Polling);
        lock(&self.state).is_in_doubt = true;
        self.mailbox.open();
        sleep(rest).await;
    }
}
