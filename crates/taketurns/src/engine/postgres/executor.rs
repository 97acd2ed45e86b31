//! Carries out steps: a task for each, since a transaction that was begun must be ended whether its caller still waits
//! or not.
//!
//! ```text
//!   call ─► task: turn, connection ─► BEGIN, SELECT ─► core ─► UPDATE, COMMIT ─► NOTIFY ─► answer
//!                                         │ not the server that clients have verified
//!                                         └─► marker: did it lose commits? quarantine ─► again
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use taketurns_core::{AcquireRequest, ClientId, Name, Reply, Request, Wake};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_postgres::types::Type;

use super::clocks::{ServerClocks, run_of};
use super::done_work::done_by_nobody;
use super::listener::NotifyListener;
use super::mailbox::Mailbox;
use super::pool::{BusySession, SessionPool};
use super::schema;
use super::session::{ClientTasks, PostgresConnector};
use super::statements;
use super::step::{Messages, SteppedLock, forget_old};
use super::step_order::{StepOrder, StepTurn};
use super::stored_row::StoredRow;
use super::transaction::{BeginOutcome, CommitOutcome, Params, StepTransaction, no_answer, notify};
use super::url::{PostgresConfig, PostgresFailover};
use crate::clock::local_us;
use crate::engine::{Answer, EngineError, EngineEvent, Stamp, Wakes};
use crate::runtime::entered;
use crate::telling::target;

/// How often a step is begun anew: its row was made meanwhile, the server was not verified, the client did not listen.
const TRIES: usize = 8;
/// One step in this many looks for locks to forget. A sweep can forget more locks than the steps since the last one can
/// have created.
const STEPS_PER_SWEEP: u32 = 64;
const FORGET_PER_SWEEP: i64 = 2 * STEPS_PER_SWEEP as i64;
/// Refreshes and messages are of no use after twice the longest lease of either.
const KEEP_MS: i64 = 10 * 60 * 1_000;
/// Tasks that were told to end do so at their next turn.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// What a task of this client does its steps with.
pub(super) struct StepExecutor {
    pub(super) config: Arc<PostgresConfig>,
    pub(super) client: ClientId,
    pub(super) wakes: Wakes,
    pub(super) pool: Arc<SessionPool>,
    pub(super) clocks: Arc<ServerClocks>,
    pub(super) listener: Arc<NotifyListener>,
    pub(super) mailbox: Arc<Mailbox>,
    tasks: ClientTasks,
    pub(super) begin: String,
    order: Arc<StepOrder>,
    steps: AtomicU32,
}

/// Where the answer of a step goes.
pub(super) struct AnswerSender {
    sender: oneshot::Sender<Result<Answer, EngineError>>,
    /// Until the step is carried out, the next one of its lock waits.
    turn: Option<StepTurn>,
}

/// What became of one try.
enum TryOutcome {
    Done,
    /// Nothing was carried out.
    Again,
    /// It was, and must be asked once more.
    AskAgain,
}

impl StepExecutor {
    /// Connects, and makes the tables if they are missing. To be called on the runtime that drives the connections.
    pub(super) async fn open(
        config: PostgresConfig,
        client: ClientId,
        wakes: Wakes,
    ) -> Result<Arc<Self>, EngineError> {
        let (config, tasks) = (Arc::new(config), ClientTasks::default());
        let connector = Arc::new(PostgresConnector::new(config.clone(), tasks.clone())?);
        let listening = match &config.listen {
            None => connector.clone(),
            Some(listen) => {
                Arc::new(PostgresConnector::new(Arc::new((**listen).clone()), tasks.clone())?)
            }
        };
        let pool = SessionPool::new(connector);
        let first = pool.take().await?;
        schema::prepare(first.session(), config.max_lease).await?;
        first.give_back();
        let clocks = Arc::new(ServerClocks::default());
        let mailbox = Mailbox::new(client, wakes.clone(), pool.clone(), clocks.clone());
        let listener = NotifyListener::new(listening, mailbox.clone());
        mailbox.set_listener(&listener);
        let begin = statements::begin(config.timeouts.response, config.synchronous_commit);
        let steps = AtomicU32::new(0);
        Ok(Arc::new(Self {
            config,
            client,
            wakes,
            pool,
            clocks,
            listener,
            mailbox,
            tasks,
            begin,
            order: Arc::default(),
            steps,
        }))
    }

    /// Begins a step in a task of its own.
    pub(super) fn submit(
        self: &Arc<Self>,
        name: Name,
        request: Request,
    ) -> impl Future<Output = Result<Answer, EngineError>> + Send + use<> {
        let (sender, answer) = oneshot::channel();
        let (executor, mut turn) = (self.clone(), self.order.enter(&name));
        self.pool.connector.spawn(async move {
            turn.begin().await;
            let mut sender = Some(AnswerSender { sender, turn: Some(turn) });
            if let Err(error) = executor.carry_out(&name, &request, &mut sender).await {
                answer_with(&mut sender, Err(error));
            }
        });
        async move { answer.await.map_err(|_| ended())? }
    }

    pub(super) async fn carry_out(
        self: &Arc<Self>,
        name: &Name,
        request: &Request,
        sender: &mut Option<AnswerSender>,
    ) -> Result<(), EngineError> {
        let mut is_carried_out = false;
        for _ in 0..TRIES {
            match self.try_step(name, request, sender).await {
                Ok(TryOutcome::Done) => return Ok(()),
                Ok(TryOutcome::Again) => {}
                Ok(TryOutcome::AskAgain) => is_carried_out = true,
                // The first try was carried out, whatever becomes of the rest.
                Err(error) if is_carried_out => {
                    return Err(EngineError::Unknown(error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        Err(EngineError::Unknown("the server changes again and again".to_owned()))
    }

    async fn try_step(
        self: &Arc<Self>,
        name: &Name,
        request: &Request,
        sender: &mut Option<AnswerSender>,
    ) -> Result<TryOutcome, EngineError> {
        let busy = self.pool.take_for_step().await?;
        let sent_us = local_us();
        let key = name.as_str();
        let begun = self.begin(busy, statements::LOAD, &[(&key, Type::TEXT)]).await?;
        let BeginOutcome::Begun(transaction, rows) = begun else { return Ok(TryOutcome::Again) };
        let row = rows.first().ok_or_else(no_answer)?;
        let row = StoredRow::read(row)?;
        if !row.is_verified {
            transaction.roll_back().await;
            self.verify().await?;
            return Ok(TryOutcome::Again);
        }
        let mut lock = row.lock()?;
        let (transaction, attempt) = self.with_done(transaction, name, &row, &mut lock).await?;
        let mut stepped = SteppedLock::apply(name.clone(), &row, lock, attempt, request);
        let wakes = std::mem::take(&mut stepped.step.wakes);
        let messages = Messages::of(wakes, self.client, &run_of(&row.clock));
        if !stepped.is_written() && messages.is_empty() {
            transaction.roll_back().await;
            let done = self.finish(name, request, &stepped, sent_us, messages.own, sender).await?;
            self.forget_if_due(row.now.ms).await;
            return Ok(done);
        }
        let is_new = stepped.is_new();
        let mut writes = Vec::new();
        if stepped.is_written() {
            writes.extend(stepped.write_end());
            writes.push(stepped.write()?);
            writes.extend(stepped.write_begin());
        }
        writes.extend(messages.write(row.now));
        let busy = match transaction.commit(writes).await? {
            CommitOutcome::Committed(busy) => busy,
            CommitOutcome::Missed if is_new => return Ok(TryOutcome::Again),
            CommitOutcome::DoneMeanwhile if attempt.is_some() => return Ok(TryOutcome::Again),
            CommitOutcome::DoneMeanwhile => return Err(done_by_nobody()),
            CommitOutcome::Missed => {
                let why = "the row of this lock can't be written to: was a trigger or a policy added by hand?";
                return Err(EngineError::Broken(why.to_owned()));
            }
            CommitOutcome::Late(rest) => {
                let why = "the server has not answered to COMMIT";
                answer_with(sender, Err(EngineError::Unknown(why.to_owned())));
                rest.await;
                return Ok(TryOutcome::Done);
            }
        };
        self.wake(busy, &messages).await;
        let done = self.finish(name, request, &stepped, sent_us, messages.own, sender).await?;
        self.forget_if_due(row.now.ms).await;
        Ok(done)
    }

    /// Wakes the clients for which there are messages. They are told of what is committed, so this comes after the
    /// COMMIT. The step is carried out whatever becomes of it: a refresh makes up for a lost message.
    pub(super) async fn wake(&self, busy: BusySession, messages: &Messages) {
        match notify(busy, messages.notifications(), self.config.timeouts.response).await {
            Ok(busy) => busy.give_back(),
            Err(error) => {
                tracing::debug!(target: target::POSTGRES, %error, "a wake-up was not sent");
            }
        }
    }

    /// Begins a transaction of this client's kind.
    pub(super) async fn begin(
        &self,
        busy: BusySession,
        load: &str,
        params: Params<'_>,
    ) -> Result<BeginOutcome, EngineError> {
        StepTransaction::begin(busy, &self.begin, load, params, self.config.timeouts.response).await
    }

    /// Tells the client what the step says, unless it has to ask once more.
    async fn finish(
        self: &Arc<Self>,
        name: &Name,
        request: &Request,
        stepped: &SteppedLock,
        sent_us: u64,
        own: Vec<Wake>,
        sender: &mut Option<AnswerSender>,
    ) -> Result<TryOutcome, EngineError> {
        if let Some(sender) = sender {
            sender.turn = None;
        }
        self.push_own(name, own, &stepped.clock);
        self.attend(name, request, &stepped.step.reply);
        if let (Request::Acquire(acquire), Reply::Queued(_)) = (request, &stepped.step.reply) {
            let is_heard = self.is_heard(name, acquire).await;
            // The step is carried out by now.
            if !is_heard.map_err(|error| EngineError::Unknown(error.to_string()))? {
                return Ok(TryOutcome::AskAgain);
            }
        }
        answer_with(sender, Ok(self.answer(stepped, sent_us)));
        Ok(TryOutcome::Done)
    }

    /// Pushes the wake-ups of this client itself.
    pub(super) fn push_own(&self, name: &Name, own: Vec<Wake>, clock: &str) {
        let origin = self.clocks.origin(clock);
        for wake in own {
            self.wakes.push(EngineEvent::Wake { lock: name.clone(), wake, origin });
        }
    }

    pub(super) fn answer(&self, stepped: &SteppedLock, sent_us: u64) -> Answer {
        let SteppedLock { step, now, clock, .. } = stepped;
        let stamp =
            Stamp { now_ms: now.ms, origin: self.clocks.origin(clock), sent_us: Some(sent_us) };
        Answer { reply: step.reply.clone(), stamp: step.timed.then_some(stamp), more: step.more }
    }

    /// Sees that messages arrive: a client that waits listens, one that holds looks for messages.
    pub(super) fn attend(&self, name: &Name, request: &Request, reply: &Reply) {
        match (request, reply) {
            (Request::Refresh { waiter_lease_ms, .. }, Reply::Refreshed { waiting: 1.., .. }) => {
                self.mailbox.watch(name);
                self.listener.listen_for(*waiter_lease_ms);
            }
            (Request::Acquire(AcquireRequest { lease_ms, .. }), Reply::Granted(grant))
            | (Request::Renew { lease_ms, .. }, Reply::Renewed(grant)) => {
                self.mailbox.open();
                // Somebody may want a lock that is kept, or a vote.
                if grant.tokens > 1 || grant.vote.is_some() {
                    self.listener.listen_for(*lease_ms);
                }
            }
            _ => {}
        }
    }

    /// Has the place that was just had, if a hand-over to it can't have been missed. Returns false if the client did not
    /// listen when it got its place, and has lost it since: it may have been granted the lock. A client that does not
    /// listen for long is told of its place all the same, since it has to refresh it.
    async fn is_heard(&self, name: &Name, acquire: &AcquireRequest) -> Result<bool, EngineError> {
        let waiter_lease_ms = acquire.waiter_lease_ms.unwrap_or(0);
        let is_heard = self.listener.listen_for(waiter_lease_ms);
        let limit = Duration::from_millis(waiter_lease_ms / 3);
        let is_ready = is_heard || self.listener.ready_within(limit).await;
        self.mailbox.watch(name);
        if is_heard || !is_ready {
            return Ok(true);
        }
        let names = vec![name.as_str().to_owned()];
        let rows = self.pool.read(statements::LOOK_ALL, &[(&names, Type::TEXT_ARRAY)]).await?;
        let Some(row) = rows.first() else { return Ok(false) };
        let lock = StoredRow::read(row)?.lock()?;
        Ok(lock.is_waiting(acquire.owner))
    }

    /// Makes this server the one that clients have verified. It may have lost commits since they did: then nothing is
    /// granted for as long as the longest lease may last.
    pub(super) async fn verify(&self) -> Result<(), EngineError> {
        let is_quarantined = self.config.failover == PostgresFailover::Quarantine;
        let busy = self.pool.take().await?;
        let params: Params<'_> = &[(&is_quarantined, Type::BOOL)];
        let begun = self.begin(busy, statements::WRITE_MARKER, params).await?;
        let BeginOutcome::Begun(transaction, rows) = begun else { return Ok(()) };
        if let CommitOutcome::Committed(busy) = transaction.commit(Vec::new()).await? {
            busy.give_back();
            if !rows.is_empty() && is_quarantined {
                tracing::warn!(
                    target: target::POSTGRES,
                    seconds = self.config.max_lease.as_secs(),
                    "the server may have lost commits (a crash, an immediate stop or a promotion): nothing is granted \
                     until all leases are over"
                );
            }
        }
        Ok(())
    }

    /// Forgets what is long idle, and what dead clients left.
    async fn forget_if_due(self: &Arc<Self>, now_ms: u64) {
        if !self.steps.fetch_add(1, Ordering::Relaxed).is_multiple_of(STEPS_PER_SWEEP) {
            return;
        }
        let swept = async {
            let busy = self.pool.take().await?;
            let now_ms = now_ms as i64;
            let params: Params<'_> = &[(&now_ms, Type::INT8), (&FORGET_PER_SWEEP, Type::INT8)];
            let begun = self.begin(busy, statements::FORGET, params).await?;
            let BeginOutcome::Begun(transaction, _) = begun else { return Ok(()) };
            let kept = now_ms.saturating_sub(KEEP_MS)..=now_ms.saturating_add(KEEP_MS);
            if let CommitOutcome::Committed(busy) = transaction.commit(forget_old(kept)).await? {
                busy.give_back();
            }
            self.take_over_done(FORGET_PER_SWEEP as usize).await
        };
        if let Err(error) = swept.await {
            tracing::debug!(target: target::POSTGRES, %error, "forgetting idle locks failed and is left to a later step");
        }
    }

    /// Ends all connections and tasks, and waits for that, but not for long.
    pub(super) async fn close(&self) {
        self.shut();
        let ended = async { timeout(CLOSE_WITHIN, self.tasks.tracker.wait()).await };
        let _ = entered(&self.pool.connector.runtime, ended).await;
    }

    pub(super) fn shut(&self) {
        self.tasks.tracker.close();
        self.tasks.closed.cancel();
        self.listener.close();
        self.pool.close();
    }
}

/// The step is carried out, or is not; nobody may wait for it any more.
fn answer_with(sender: &mut Option<AnswerSender>, answer: Result<Answer, EngineError>) {
    if let Some(AnswerSender { sender, turn }) = sender.take() {
        drop(turn);
        let _ = sender.send(answer);
    }
}

/// The task was dropped with its runtime.
pub(super) fn ended() -> EngineError {
    EngineError::Unknown("the client's runtime has ended".to_owned())
}
