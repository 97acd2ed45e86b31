//! Many steps in one transaction: the renewals of a client, and the refreshes of its places.
//!
//! - *Renewals* lock the rows in the order of their names, so that two batches can't wait for each other, and leave out
//!   those that are busy, so that nobody's renewals wait for one lock. What is left out is asked for by itself.
//! - *Refreshes* lock no row of a lock. They read the locks, and write to a table of their own that the client was there.
//!   A lock where time has changed something (a lease ended, the first place lapsed) then takes a step. That may have to
//!   wait for the row, and the client's place is alive meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::{join, join_all};
use taketurns_core::{Name, Reply, Request};
use tokio::sync::oneshot;
use tokio_postgres::types::Type;

use super::clocks::run_of;
use super::executor::{StepExecutor, ended};
use super::statements;
use super::step::{AttemptUnderWay, Messages, PlaceRow, SteppedLock, refresh, write_all};
use super::stored_row::StoredRow;
use super::transaction::{BeginOutcome, CommitOutcome};
use crate::clock::local_us;
use crate::engine::{Answer, EngineError};

/// Rows of one transaction. Each is locked until the COMMIT.
const BATCH: usize = 256;

type Answered = Result<Answer, EngineError>;
/// Requests with their place among all.
type BatchCalls = Vec<(usize, Name, Request)>;
/// The answers that a batch has, and the calls that need a step of their own.
type BatchOutcome = (Vec<(usize, Answered)>, BatchCalls);

impl StepExecutor {
    /// Carries out many requests. The answers are in the order of the requests.
    pub(super) async fn submit_all(self: &Arc<Self>, calls: Vec<(Name, Request)>) -> Vec<Answered> {
        let count = calls.len();
        let (mut renewals, mut refreshes, mut alone) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        for (index, (name, request)) in calls.into_iter().enumerate() {
            // A second request for a lock waits for the first.
            let is_first = seen.insert(name.clone());
            match request {
                Request::Renew { .. } if is_first => renewals.push((index, name, request)),
                Request::Refresh { .. } if is_first => refreshes.push((index, name, request)),
                _ => alone.push((index, name, request)),
            }
        }
        let (renewed, refreshed) = join(
            self.in_batches(renewals, Self::renew_batch),
            self.in_batches(refreshes, Self::refresh_batch),
        )
        .await;
        let mut answers: BTreeMap<usize, Answered> = BTreeMap::new();
        for (answered, left) in renewed.into_iter().chain(refreshed) {
            answers.extend(answered);
            alone.extend(left);
        }
        // The requests for one lock one after the other.
        let mut by_lock: BTreeMap<Name, Vec<(usize, Request)>> = BTreeMap::new();
        for (index, name, request) in alone {
            by_lock.entry(name).or_default().push((index, request));
        }
        let in_order = by_lock.into_iter().map(|(name, requests)| async move {
            let mut answered = Vec::with_capacity(requests.len());
            for (index, request) in requests {
                answered.push((index, self.submit(name.clone(), request).await));
            }
            answered
        });
        answers.extend(join_all(in_order).await.into_iter().flatten());
        (0..count).map(|index| answers.remove(&index).unwrap_or_else(|| Err(ended()))).collect()
    }

    /// Each batch in a task of its own, which ends its transaction even if nobody waits any more.
    async fn in_batches<F>(
        self: &Arc<Self>,
        calls: BatchCalls,
        carry_out: impl Fn(Arc<Self>, BatchCalls) -> F,
    ) -> Vec<BatchOutcome>
    where
        F: Future<Output = BatchOutcome> + Send + 'static,
    {
        let begun = calls.chunks(BATCH).map(|chunk| {
            let (done, outcome) = oneshot::channel();
            let work = carry_out(self.clone(), chunk.to_vec());
            self.pool.connector.spawn(async move {
                let _ = done.send(work.await);
            });
            outcome
        });
        let outcomes = join_all(begun.collect::<Vec<_>>()).await;
        outcomes.into_iter().filter_map(Result::ok).collect()
    }

    async fn renew_batch(self: Arc<Self>, calls: BatchCalls) -> BatchOutcome {
        match self.try_renew(&calls).await {
            Ok(outcome) => outcome,
            Err(error) => (fail_all(&calls, &error), Vec::new()),
        }
    }

    async fn try_renew(self: &Arc<Self>, calls: &BatchCalls) -> Result<BatchOutcome, EngineError> {
        let busy = self.pool.take().await?;
        let sent_us = local_us();
        let names = names(calls);
        let begun = self.begin(busy, statements::LOAD_ALL, &[(&names, Type::TEXT_ARRAY)]).await?;
        let BeginOutcome::Begun(transaction, rows) = begun else {
            return Ok((Vec::new(), calls.clone()));
        };
        let mut found = by_name(&rows)?;
        let (mut stepped, mut left) = (Vec::new(), Vec::new());
        for (index, name, request) in calls {
            match found.remove(name).map(|row| self.step_of(&row, name, request)) {
                Some(Ok(Some(lock))) => stepped.push((*index, request, lock)),
                // Busy, or gone, or it needs a look at something else first: by itself it says what is wrong.
                _ => left.push((*index, name.clone(), request.clone())),
            }
        }
        let run = stepped.first().map(|(_, _, lock)| run_of(&lock.clock)).unwrap_or_default();
        let wakes = |lock: &mut SteppedLock| std::mem::take(&mut lock.step.wakes);
        let mut own = Vec::new();
        let mut all = Vec::new();
        for (position, (_, _, lock)) in stepped.iter_mut().enumerate() {
            for wake in wakes(lock) {
                if wake.client == self.client {
                    own.push((position, wake));
                } else {
                    all.push(wake);
                }
            }
        }
        let messages = Messages::of(all, self.client, &run);
        let written: Vec<&SteppedLock> =
            stepped.iter().map(|(_, _, lock)| lock).filter(|lock| lock.is_written()).collect();
        let mut writes = write_all(&written)?;
        if let Some((_, _, lock)) = stepped.first() {
            writes.extend(messages.write(lock.now));
        }
        match transaction.commit(writes).await? {
            CommitOutcome::Committed(busy) => self.wake(busy, &messages).await,
            CommitOutcome::Missed => {}
            CommitOutcome::DoneMeanwhile => return Ok((Vec::new(), calls.clone())),
            CommitOutcome::Late(rest) => {
                self.pool.connector.spawn(rest);
                let why = "the server has not answered to COMMIT".to_owned();
                return Ok((fail_all(calls, &EngineError::Unknown(why)), Vec::new()));
            }
        }
        for (position, wake) in own {
            let lock = &stepped[position].2;
            self.push_own(&lock.name, vec![wake], &lock.clock);
        }
        let mut answers = Vec::with_capacity(stepped.len());
        for (index, request, lock) in &stepped {
            self.attend(&lock.name, request, &lock.step.reply);
            answers.push((*index, Ok(self.answer(lock, sent_us))));
        }
        Ok((answers, left))
    }

    /// The step of one lock of a batch; `None` if it must be taken by itself.
    fn step_of(
        &self,
        row: &StoredRow,
        name: &Name,
        request: &Request,
    ) -> Result<Option<SteppedLock>, EngineError> {
        if !row.is_verified {
            return Ok(None);
        }
        let lock = row.lock()?;
        let attempt = AttemptUnderWay::of(&lock);
        let stepped = SteppedLock::apply(name.clone(), row, lock, attempt, request);
        Ok((!stepped.changes_attempt()).then_some(stepped))
    }

    async fn refresh_batch(self: Arc<Self>, calls: BatchCalls) -> BatchOutcome {
        match self.try_refresh(&calls).await {
            Ok(outcome) => outcome,
            Err(error) => (fail_all(&calls, &error), Vec::new()),
        }
    }

    async fn try_refresh(
        self: &Arc<Self>,
        calls: &BatchCalls,
    ) -> Result<BatchOutcome, EngineError> {
        let busy = self.pool.take().await?;
        let sent_us = local_us();
        let names = names(calls);
        let begun = self.begin(busy, statements::LOOK_ALL, &[(&names, Type::TEXT_ARRAY)]).await?;
        let BeginOutcome::Begun(transaction, rows) = begun else {
            return Ok((Vec::new(), calls.clone()));
        };
        let mut found = by_name(&rows)?;
        let (mut refreshed, mut left, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (index, name, request) in calls {
            let seen = found.remove(name).and_then(|row| refresh_of(&row, name, request).ok());
            let (place, lock) = seen.unwrap_or_default();
            places.extend(place);
            match lock {
                Some(lock) => refreshed.push((*index, request, lock)),
                // Also if something is wrong with it: by itself it says what.
                None => left.push((*index, name.clone(), request.clone())),
            }
        }
        if places.is_empty() {
            transaction.roll_back().await;
        } else {
            match transaction.commit(vec![refresh(self.client, &places)]).await? {
                CommitOutcome::Committed(busy) => busy.give_back(),
                CommitOutcome::Missed | CommitOutcome::DoneMeanwhile => {}
                CommitOutcome::Late(rest) => {
                    self.pool.connector.spawn(rest);
                    let why = "the server has not answered to COMMIT".to_owned();
                    return Ok((fail_all(calls, &EngineError::Unknown(why)), Vec::new()));
                }
            }
        }
        let mut answers = Vec::with_capacity(refreshed.len());
        for (index, request, lock) in &refreshed {
            self.attend(&lock.name, request, &lock.step.reply);
            answers.push((*index, Ok(self.answer(lock, sent_us))));
        }
        Ok((answers, left))
    }
}

/// What notes that the client was there, if it waits. And the lock with the answer, unless it has to take a step: time
/// has changed something, or the reply claims a hold, or somebody must be told.
fn refresh_of(
    row: &StoredRow,
    name: &Name,
    request: &Request,
) -> Result<(Option<PlaceRow>, Option<SteppedLock>), EngineError> {
    let Request::Refresh { client, waiter_lease_ms } = *request else { return Ok((None, None)) };
    let mut lock = row.lock()?;
    let place = lock.is_waited_for_by(client).then(|| PlaceRow {
        name: name.as_str().to_owned(),
        seen_ms: row.now.ms as i64,
        waiter_lease_ms: i64::try_from(waiter_lease_ms).unwrap_or(i64::MAX),
    });
    lock.record_refresh(client, waiter_lease_ms, row.now);
    let tick = lock.clone().apply(row.now, &Request::Tick);
    if !row.is_verified || !row.is_of_this_clock() || tick.changed || tick.more {
        return Ok((place, None));
    }
    let attempt = AttemptUnderWay::of(&lock);
    let stepped = SteppedLock::apply(name.clone(), row, lock, attempt, request);
    let is_quiet = stepped.step.wakes.is_empty()
        && matches!(&stepped.step.reply, Reply::Refreshed { granted, .. } if granted.is_empty());
    Ok((place, is_quiet.then_some(stepped)))
}

fn names(calls: &BatchCalls) -> Vec<String> {
    calls.iter().map(|(_, name, _)| name.as_str().to_owned()).collect()
}

fn by_name(rows: &[tokio_postgres::Row]) -> Result<BTreeMap<Name, StoredRow>, EngineError> {
    let mut found = BTreeMap::new();
    for row in rows {
        let row = StoredRow::read(row)?;
        found.extend(row.name().map(|name| (name, row)));
    }
    Ok(found)
}

fn fail_all(calls: &BatchCalls, error: &EngineError) -> Vec<(usize, Answered)> {
    calls.iter().map(|(index, _, _)| (*index, Err(error.clone()))).collect()
}
