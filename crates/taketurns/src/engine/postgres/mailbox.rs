//! What other clients' steps have to say to this one.
//!
//! A grant comes by NOTIFY, to a client that waits and so listens. All else (a lock was broken, somebody wants it) is
//! written into a table, for a client that may only hold: it looks there once a second, or at once if it listens.
//! Where wake-ups don't arrive, because of a proxy, the client also looks at the locks that it waits for.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use taketurns_core::wire::SealedWake;
use taketurns_core::{ClientId, Name, Wake};
use tokio::time::sleep;
use tokio_postgres::types::Type;

use super::clocks::ServerClocks;
use super::listener::{ListenPhase, NotifyListener};
use super::pool::SessionPool;
use super::statements;
use super::step::{LOOK, channel, client_number};
use super::stored_row::StoredRow;
use super::transaction::{BeginOutcome, CommitOutcome, Params, StepTransaction, notify};
use crate::engine::{EngineError, EngineEvent, Origin, Wakes};
use crate::sync::lock;
use crate::telling::target;

/// How often a client that holds looks for messages.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a client that waits looks, if nobody can wake it.
const POLL_EVERY: Duration = Duration::from_millis(50);

pub(super) struct Mailbox {
    client: ClientId,
    pub(super) wakes: Wakes,
    pool: Arc<SessionPool>,
    clocks: Arc<ServerClocks>,
    listener: OnceLock<Weak<NotifyListener>>,
    /// Locks with a place of this client, while it polls.
    watched: Mutex<BTreeSet<Name>>,
    is_open: AtomicBool,
    begin: String,
}

impl Mailbox {
    pub(super) fn new(
        client: ClientId,
        wakes: Wakes,
        pool: Arc<SessionPool>,
        clocks: Arc<ServerClocks>,
    ) -> Arc<Self> {
        let response = pool.connector.config.timeouts.response;
        Arc::new(Self {
            client,
            wakes,
            pool,
            clocks,
            listener: OnceLock::new(),
            watched: Mutex::default(),
            is_open: AtomicBool::new(false),
            begin: statements::begin(response, false),
        })
    }

    pub(super) fn set_listener(&self, listener: &Arc<NotifyListener>) {
        let _ = self.listener.set(Arc::downgrade(listener));
    }

    pub(super) fn channel(&self) -> String {
        channel(self.client)
    }

    fn phase(&self) -> ListenPhase {
        let listener = self.listener.get().and_then(Weak::upgrade);
        listener.map_or(ListenPhase::Off, |listener| listener.phase())
    }

    /// Looks for messages from now on, until this client has no lock and wants none.
    pub(super) fn open(self: &Arc<Self>) {
        if !self.is_open.swap(true, Ordering::AcqRel) {
            self.pool.connector.spawn_until_closed(self.clone().run());
        }
    }

    /// The client has a place in this lock's queue.
    pub(super) fn watch(self: &Arc<Self>, name: &Name) {
        if self.phase() == ListenPhase::Polling {
            lock(&self.watched).insert(name.clone());
            self.open();
        }
    }

    async fn run(self: Arc<Self>) {
        loop {
            let polls = self.phase() == ListenPhase::Polling && !lock(&self.watched).is_empty();
            sleep(if polls { POLL_EVERY } else { LOOK_EVERY }).await;
            if self.wakes.owner_count() == 0 {
                self.is_open.store(false, Ordering::Release);
                // An owner that came meanwhile has found it open.
                if self.wakes.owner_count() == 0 || self.is_open.swap(true, Ordering::AcqRel) {
                    return;
                }
            }
            if self.phase() != ListenPhase::Listening {
                self.clone().take_notices().await;
            }
            if polls && let Err(error) = self.look().await {
                tracing::debug!(target: target::POSTGRES, %error, "the locks that are waited for can't be looked at");
            }
        }
    }

    /// A message on the channel, on the thread that read it.
    pub(super) fn handle_message(self: &Arc<Self>, message: &str) {
        match message {
            LOOK => self.pool.connector.spawn_until_closed(self.clone().take_notices()),
            message => self.push(message),
        }
    }

    /// Takes the messages from the table.
    pub(super) async fn take_notices(self: Arc<Self>) {
        let taken = async {
            let number = client_number(self.client);
            let rows = self.transact(statements::TAKE_NOTICES, &[(&number, Type::INT8)]).await?;
            for row in rows {
                if let Ok(message) = row.try_get::<_, &str>(0) {
                    self.push(message);
                }
            }
            Ok::<(), EngineError>(())
        };
        if let Err(error) = taken.await {
            tracing::debug!(target: target::POSTGRES, %error, "messages can't be read; the next renewal says the same");
        }
    }

    async fn transact(
        &self,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<tokio_postgres::Row>, EngineError> {
        let response = self.pool.connector.config.timeouts.response;
        let busy = self.pool.take().await?;
        let begun = StepTransaction::begin(busy, &self.begin, sql, params, response).await?;
        let BeginOutcome::Begun(transaction, rows) = begun else { return Ok(Vec::new()) };
        if rows.is_empty() {
            transaction.roll_back().await;
            return Ok(rows);
        }
        match transaction.commit(Vec::new()).await? {
            CommitOutcome::Committed(busy) => busy.give_back(),
            CommitOutcome::Missed | CommitOutcome::DoneMeanwhile | CommitOutcome::Late(_) => {
                return Ok(Vec::new());
            }
        }
        Ok(rows)
    }

    /// Pushes what a message says, if it is genuine and for somebody. It names its owner by a hash and is sealed with the
    /// owner's secret: everybody in the database may NOTIFY.
    fn push(&self, message: &str) {
        let Some(sealed) = SealedWake::parse(message.as_bytes()) else { return };
        let Some((owner, lock)) = self.wakes.find_owner(sealed.id) else { return };
        let Some(event) = sealed.open(owner) else {
            tracing::warn!(target: target::POSTGRES, %lock, "a wake-up that no step of this lock made was ignored");
            return;
        };
        let wake = Wake { client: self.client, owner, event };
        let origin = self.clocks.origin_of_run(sealed.run).unwrap_or(Origin::UNKNOWN);
        self.wakes.push(EngineEvent::Wake { lock, wake, origin });
    }

    /// Was one of the watched locks handed to this client? Then its waiter asks, which tells how long it holds.
    async fn look(&self) -> Result<(), EngineError> {
        let names: Vec<String> =
            lock(&self.watched).iter().map(|name| name.as_str().to_owned()).collect();
        let rows = self.pool.read(statements::LOOK_ALL, &[(&names, Type::TEXT_ARRAY)]).await?;
        for row in &rows {
            let row = StoredRow::read(row)?;
            let Some(name) = row.name() else { continue };
            let found = row.lock()?;
            let is_handed = found.has_handed_to(self.client);
            if is_handed || !found.is_waited_for_by(self.client) {
                lock(&self.watched).remove(&name);
                self.wakes.push(EngineEvent::LockChanged { lock: name });
            }
        }
        Ok(())
    }

    /// Sends a message to this client itself.
    pub(super) async fn send_to_self(&self, message: &str) -> Result<(), EngineError> {
        let response = self.pool.connector.config.timeouts.response;
        let busy = self.pool.take().await?;
        let messages = (vec![self.channel()], vec![message.to_owned()]);
        notify(busy, messages, response).await?.give_back();
        Ok(())
    }
}
