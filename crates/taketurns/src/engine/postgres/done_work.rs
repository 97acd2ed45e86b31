//! Work that a transaction of a user has done: `taketurns.done` of schema/2-once.sql.
//!
//! The commit of that transaction is what counts. The lock does not know it until its next step, which takes it over
//! before anything else: before it looks whether the lease is over, for instance.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use taketurns_core::{Lock, Name, Note, Now, Request, Token};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::executor::StepExecutor;
use super::statements;
use super::step::AttemptUnderWay;
use super::stored_row::{StoredRow, changed};
use super::transaction::{Params, StepTransaction};
use crate::engine::EngineError;

/// What the table of fences says of the attempt that did the work.
pub(super) struct DoneWork {
    name: String,
    token: Token,
    at_ms: u64,
    result: Note,
}

impl DoneWork {
    fn read(row: &Row) -> Result<Self, EngineError> {
        let is_other = |error: tokio_postgres::Error| changed(&error);
        let positive = |number: i64| u64::try_from(number).unwrap_or(0);
        let token: i64 = row.try_get(1).map_err(is_other)?;
        let done_us: i64 = row.try_get(2).map_err(is_other)?;
        let result: String = row.try_get(3).map_err(is_other)?;
        Ok(Self {
            name: row.try_get(0).map_err(is_other)?,
            token: Token::from_raw(positive(token)),
            at_ms: positive(done_us) / 1_000,
            // The function checks a result as a note does.
            result: Note::new(&result).unwrap_or_default(),
        })
    }

    pub(super) fn is_of(&self, name: &Name) -> bool {
        self.name == name.as_str()
    }

    /// Lets the lock know. Returns false if the attempt is not under way there.
    pub(super) fn take_over(&self, lock: &mut Lock, now: Now) -> bool {
        lock.take_over_done(now, self.token, self.at_ms, &self.result)
    }
}

impl StepExecutor {
    /// If an attempt at work is under way, a transaction may have done that work: then the lock takes it over.
    pub(super) async fn with_done(
        &self,
        transaction: StepTransaction,
        name: &Name,
        row: &StoredRow,
        lock: &mut Lock,
    ) -> Result<(StepTransaction, Option<AttemptUnderWay>), EngineError> {
        let Some(attempt) = AttemptUnderWay::of(lock) else { return Ok((transaction, None)) };
        let key = name.as_str();
        let (transaction, rows) =
            transaction.query(statements::DONE, &[(&key, Type::TEXT)]).await?;
        let done = rows.first().map(DoneWork::read).transpose()?;
        let is_done = done.is_some_and(|done| done.take_over(lock, row.now));
        Ok((transaction, Some(AttemptUnderWay { is_done, ..attempt })))
    }

    /// The same for a lock that is only looked at.
    pub(super) async fn look_for_done(
        &self,
        name: &Name,
        now: Now,
        lock: &mut Lock,
    ) -> Result<(), EngineError> {
        if lock.attempt().is_none() {
            return Ok(());
        }
        let key = name.as_str();
        let rows = self.pool.read(statements::DONE, &[(&key, Type::TEXT)]).await?;
        if let Some(row) = rows.first() {
            DoneWork::read(row)?.take_over(lock, now);
        }
        Ok(())
    }

    /// All work that transactions have done, and that its locks do not know of yet.
    pub(super) async fn all_done(&self) -> Result<Vec<DoneWork>, EngineError> {
        let params: Params<'_> = &[];
        self.pool.read(statements::DONE_ALL, params).await?.iter().map(DoneWork::read).collect()
    }

    /// Lets at most `most` locks know of it. Their workers may have died right after the commit, and others may wait.
    pub(super) async fn take_over_done(self: &Arc<Self>, most: usize) -> Result<(), EngineError> {
        for done in self.all_done().await?.iter().take(most) {
            if let Ok(name) = Name::new(&done.name) {
                self.tick(name).await?;
            }
        }
        Ok(())
    }

    /// One step that only catches up. Boxed, since a step may sweep, and a sweep takes steps.
    fn tick(self: &Arc<Self>, name: Name) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async move { self.carry_out(&name, &Request::Tick, &mut None).await })
    }
}

/// A transaction did the work in an attempt that the lock does not know.
pub(super) fn done_by_nobody() -> EngineError {
    EngineError::Broken(
        "taketurns.fence says that a transaction did the work of this lock, and taketurns.lock knows of no attempt: was its \
         row deleted by hand? Set `attempt` in taketurns.fence to 'recorded' to forget it"
            .to_owned(),
    )
}
