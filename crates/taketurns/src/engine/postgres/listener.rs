//! The connection on which a client that waits listens.
//!
//! ```text
//!   Off ──► Starting ──► Listening ──► Off, ten seconds after the client has left its last queue
//!              ▲  │        ▲ │
//!              │  └─► Polling│  no connection to be had, or no message arrives on it: the mailbox looks instead
//!              └────────┴────┘
//! ```
//!
//! Every NOTIFY wakes all connections of the database that listen. So nobody listens who does not wait.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use super::mailbox::Mailbox;
use super::session::{PgSession, PostgresConnector};
use crate::engine::{EngineError, EngineEvent};
use crate::sync::lock;
use crate::telling::target;

/// A client that has waited is likely to wait again soon. Besides, its refresh may be late on a busy machine.
const LINGER: Duration = Duration::from_secs(10);
/// How often the client checks whether it still needs messages.
const CHECK_EVERY: Duration = Duration::from_secs(1);
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
}

/// A connection that has been told to listen.
struct ListenSession {
    session: PgSession,
    /// The client's message to itself has arrived.
    probed: Arc<Notify>,
}

struct State {
    /// When somebody last needed messages.
    needed: Instant,
    /// Nobody waits for longer than this, as far as is known.
    until: Instant,
    is_running: bool,
    is_closed: bool,
}

impl NotifyListener {
    pub(super) fn new(connector: Arc<PostgresConnector>, mailbox: Arc<Mailbox>) -> Arc<Self> {
        let now = Instant::now();
        let state = State { needed: now, until: now, is_running: false, is_closed: false };
        Arc::new(Self {
            connector,
            mailbox,
            state: Mutex::new(state),
            phase: watch::Sender::new(ListenPhase::Off),
        })
    }

    pub(super) fn phase(&self) -> ListenPhase {
        *self.phase.borrow()
    }

    /// Listens for so long at least. Returns whether messages already arrived before.
    pub(super) fn listen_for(self: &Arc<Self>, lease_ms: u64) -> bool {
        let mut state = lock(&self.state);
        state.needed = Instant::now();
        let until = state.needed + Duration::from_millis(lease_ms) + LINGER;
        state.until = state.until.max(until);
        if state.is_running || state.is_closed {
            return self.phase() != ListenPhase::Starting;
        }
        state.is_running = true;
        self.phase.send_replace(ListenPhase::Starting);
        self.connector.spawn_until_closed(self.clone().run());
        false
    }

    /// Waits until messages arrive, in whichever way.
    pub(super) async fn ready(&self) {
        let mut phase = self.phase.subscribe();
        let _ = phase.wait_for(|phase| *phase != ListenPhase::Starting).await;
    }

    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.is_closed = true;
        drop(state);
        self.phase.send_replace(ListenPhase::Off);
    }

    async fn run(self: Arc<Self>) {
        let (mut is_first, mut has_connected) = (true, false);
        while !self.has_expired() {
            match self.listen(has_connected).await {
                Ok(listening) => {
                    has_connected = true;
                    self.hear(listening, &mut is_first).await;
                }
                Err(error) => {
                    tracing::debug!(target: target::POSTGRES, %error, "the client can't listen, and polls instead");
                    self.poll();
                    sleep(REST).await;
                    is_first = false;
                }
            }
        }
    }

    /// Until the connection ends, nobody waits any more, or it is clear that no message arrives.
    async fn hear(&self, mut listening: ListenSession, is_first: &mut bool) {
        if !listening.is_probed(self.connector.config.timeouts.response).await {
            *is_first = false;
            if !listening.session.is_open() {
                return;
            }
            tracing::warn!(
                target: target::POSTGRES,
                "a proxy keeps wake-ups from this client, or the server is busy: the client polls instead. Behind a \
                 proxy name the server itself by listen="
            );
            self.poll();
            if !listening.is_probed(PROXY_REST).await {
                listening.session.end();
                return;
            }
        }
        self.phase.send_replace(ListenPhase::Listening);
        if !std::mem::take(is_first) {
            // Messages may have been lost meanwhile.
            self.mailbox.wakes.push(EngineEvent::Recheck);
        }
        self.mailbox.clone().take_notices().await;
        self.wait_for_end(listening.session).await;
    }

    /// Decides under the mutex, so that nobody who still wants to listen is left without.
    fn has_expired(&self) -> bool {
        let mut state = lock(&self.state);
        // Without an owner it neither waits nor holds, and no lease has to end.
        let is_idle = self.mailbox.wakes.owner_count() == 0;
        let until = if is_idle { state.needed + LINGER } else { state.until };
        if until > Instant::now() {
            return false;
        }
        state.is_running = false;
        self.phase.send_replace(ListenPhase::Off);
        true
    }

    /// Connects, listens, and sends a message to this client itself.
    async fn listen(self: &Arc<Self>, is_replacement: bool) -> Result<ListenSession, EngineError> {
        let (mailbox, probed) = (Arc::downgrade(&self.mailbox), Arc::new(Notify::new()));
        let arrived = probed.clone();
        let on_notice = Arc::new(move |message: &str| match message {
            PROBE => arrived.notify_one(),
            message => {
                if let Some(mailbox) = mailbox.upgrade() {
                    mailbox.handle_message(message);
                }
            }
        });
        let session = self.connector.connect(on_notice, is_replacement).await?;
        let channel = self.mailbox.channel();
        let response = self.connector.config.timeouts.response;
        let listening = format!("LISTEN \"{channel}\"");
        let listening = timeout(response, session.client.batch_execute(&listening)).await;
        listening
            .map_err(|_| super::transaction::no_answer())?
            .map_err(|error| super::failure::before_commit(&error))?;
        // Through another connection: behind a proxy that shares connections the server wakes the client that has this one.
        self.mailbox.send_to_self(PROBE).await?;
        Ok(ListenSession { session, probed })
    }

    /// Until the connection ends, or nobody waits any more.
    async fn wait_for_end(&self, mut session: PgSession) {
        loop {
            tokio::select! {
                () = session.ended() => break,
                () = sleep(CHECK_EVERY) => {
                    if self.has_expired() {
                        session.end();
                        return;
                    }
                }
            }
        }
        self.phase.send_replace(ListenPhase::Starting);
    }

    fn poll(&self) {
        self.phase.send_replace(ListenPhase::Polling);
        self.mailbox.open();
    }
}

impl ListenSession {
    /// Waits for the client's message to itself. Returns false if it does not come in time, or can't come any more.
    async fn is_probed(&mut self, within: Duration) -> bool {
        tokio::select! {
            () = self.probed.notified() => true,
            () = self.session.ended() => false,
            () = sleep(within) => false,
        }
    }
}
