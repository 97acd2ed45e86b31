//! One transaction: begin and read in one round trip, write and commit in another.
//!
//! ```text
//!   BEGIN, SELECT … FOR UPDATE ─►       any error here: not carried out
//!   UPDATE, …, COMMIT          ─►       an error of a statement: not carried out
//!                                       an error of the server to COMMIT: not carried out
//!                                       no answer, a connection that ends, a warning: unknown
//! ```
//!
//! A COMMIT is never cancelled: the server would have committed all the same.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all, join3};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error as PgError, Row};

use super::failure::{at_commit, before_commit, commit_in_doubt, keeps_connection};
use super::pool::{BusySession, SessionPool};
use super::statements;
use super::step::Write;
use crate::engine::EngineError;

pub(super) type Params<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// A transaction that has begun, on a connection of its own. Dropping it closes the connection.
pub(super) struct StepTransaction {
    busy: BusySession,
    /// How long the server may take to answer.
    response: Duration,
}

/// What became of a transaction's beginning.
pub(super) enum BeginOutcome {
    Begun(StepTransaction, Vec<Row>),
    /// The connection was idle, and the server had closed it. Nothing was sent that mattered.
    Stale,
}

/// What became of a COMMIT.
pub(super) enum CommitOutcome {
    /// All is written. The connection can be used further.
    Committed(BusySession),
    /// A statement that had to write a row wrote none. Nothing is written.
    Missed,
    /// A transaction has done the work of a lock meanwhile. Nothing is written.
    DoneMeanwhile,
    /// The server has not answered in time. The COMMIT goes on, and keeps its connection.
    Late(LateCommit),
}

/// The end of a COMMIT that takes too long.
pub(super) type LateCommit = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

impl StepTransaction {
    /// Begins, and reads.
    pub(super) async fn begin(
        busy: BusySession,
        begin: &str,
        load: &str,
        params: Params<'_>,
        response: Duration,
    ) -> Result<BeginOutcome, EngineError> {
        let client = &busy.session().client;
        let both = join(client.batch_execute(begin), client.query_typed(load, params));
        // The server itself gives up waiting for the row after `response`.
        let Ok((begun, loaded)) = timeout(2 * response, both).await else {
            return Err(no_answer());
        };
        match begun.and(loaded) {
            Ok(rows) => Ok(BeginOutcome::Begun(Self { busy, response }, rows)),
            Err(error) if busy.is_reused && !keeps_connection(&error) => Ok(BeginOutcome::Stale),
            Err(error) => {
                let failure = before_commit(&error);
                if keeps_connection(&error) {
                    Self { busy, response }.roll_back().await;
                }
                Err(failure)
            }
        }
    }

    /// Reads more.
    pub(super) async fn query(
        self,
        sql: &str,
        params: Params<'_>,
    ) -> Result<(Self, Vec<Row>), EngineError> {
        let asked =
            timeout(self.response, self.busy.session().client.query_typed(sql, params)).await;
        match asked {
            Ok(Ok(rows)) => Ok((self, rows)),
            Ok(Err(error)) => Err(before_commit(&error)),
            Err(_) => Err(no_answer()),
        }
    }

    /// Ends without writing, and gives the connection back.
    pub(super) async fn roll_back(self) {
        let client = &self.busy.session().client;
        let ended = timeout(self.response, client.batch_execute(statements::ROLLBACK)).await;
        if let Ok(Ok(())) = ended {
            self.busy.give_back();
        }
    }

    /// Writes and commits.
    pub(super) async fn commit(self, writes: Vec<Write>) -> Result<CommitOutcome, EngineError> {
        let Self { busy, response } = self;
        let mut committing = Box::pin(async move {
            busy.session().take_warning();
            let written = write_and_commit(&busy, &writes).await;
            (busy, written)
        });
        let Ok((busy, written)) = timeout(response, &mut committing).await else {
            return Ok(CommitOutcome::Late(Box::pin(async move { drop(committing.await) })));
        };
        match written {
            Ok(_) if busy.session().take_warning() => Err(commit_in_doubt()),
            Ok(true) => Ok(CommitOutcome::Committed(busy)),
            Ok(false) => {
                busy.give_back();
                Ok(CommitOutcome::Missed)
            }
            Err(WriteError::Refused(error)) => {
                // The COMMIT behind it was a rollback.
                if keeps_connection(&error) {
                    busy.give_back();
                }
                match error.code().map(SqlState::code) {
                    Some(statements::DONE_MEANWHILE) => Ok(CommitOutcome::DoneMeanwhile),
                    _ => Err(before_commit(&error)),
                }
            }
            Err(WriteError::AtCommit(error)) => Err(at_commit(&error)),
        }
    }
}

enum WriteError {
    Refused(PgError),
    AtCommit(PgError),
}

/// Did all statements write that had to?
async fn write_and_commit(busy: &BusySession, writes: &[Write]) -> Result<bool, WriteError> {
    let client = &busy.session().client;
    let params: Vec<_> = writes.iter().map(Write::params).collect();
    let mut sent = Vec::with_capacity(writes.len());
    for (write, params) in writes.iter().zip(&params) {
        sent.push(client.query_typed(write.sql, params));
    }
    // Sent in this order, in one write: a statement that fails turns the COMMIT into a rollback.
    let (written, committed) = join(join_all(sent), client.batch_execute(statements::COMMIT)).await;
    let mut wrote = true;
    for (write, rows) in writes.iter().zip(written) {
        match rows {
            Ok(rows) => wrote &= !(write.is_checked && rows.is_empty()),
            // Without an answer the COMMIT behind it may have been carried out.
            Err(error) if keeps_connection(&error) => return Err(WriteError::Refused(error)),
            Err(error) => return Err(WriteError::AtCommit(error)),
        }
    }
    committed.map_err(WriteError::AtCommit)?;
    Ok(wrote)
}

impl SessionPool {
    /// One read, in a transaction of its own.
    pub(super) async fn read(
        self: &Arc<Self>,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, EngineError> {
        loop {
            let busy = self.take().await?;
            let asked = busy.session().client.query_typed(sql, params);
            let answered = timeout(self.connector.config.timeouts.response, asked).await;
            match answered.map_err(|_| no_answer())? {
                Ok(rows) => {
                    busy.give_back();
                    return Ok(rows);
                }
                // The server had closed an idle connection.
                Err(error) if busy.is_reused && !keeps_connection(&error) => {}
                Err(error) => return Err(before_commit(&error)),
            }
        }
    }
}

/// Sends messages to channels, in a transaction of its own: those that NOTIFY wait for each other's COMMIT.
pub(super) async fn notify(
    busy: BusySession,
    (channels, messages): (Vec<String>, Vec<String>),
    response: Duration,
) -> Result<BusySession, EngineError> {
    if channels.is_empty() {
        return Ok(busy);
    }
    let client = &busy.session().client;
    let params: Params<'_> = &[(&channels, Type::TEXT_ARRAY), (&messages, Type::TEXT_ARRAY)];
    let all = join3(
        client.batch_execute(statements::BEGIN_NOTIFY),
        client.query_typed(statements::NOTIFY, params),
        client.batch_execute(statements::COMMIT),
    );
    let (begun, sent, committed) = timeout(response, all).await.map_err(|_| no_answer())?;
    let sent = begun.and(sent.map(drop)).and(committed);
    sent.map_err(|error| before_commit(&error))?;
    Ok(busy)
}

pub(super) fn no_answer() -> EngineError {
    EngineError::Unreachable("the server does not answer".to_owned())
}
