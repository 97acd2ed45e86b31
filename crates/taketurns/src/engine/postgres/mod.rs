//! The engine in PostgreSQL: one row per lock, and core in the client.
//!
//! ```text
//!   call ─► executor: BEGIN, SELECT … FOR UPDATE ─► core's step ─► UPDATE, COMMIT ─► NOTIFY
//!   answer ◄──────────────────────────────────────────────────────┘                   │
//!   Wakes ◄── listener, mailbox: whose is it, is the seal right? ◄────────────────────┘ by another client's step
//! ```
//!
//! | file | question |
//! |---|---|
//! | [`session`], [`pool`] | which server, and which connection to it? |
//! | [`schema`] | are the tables there, and of this version? |
//! | [`transaction`], [`failure`] | was it carried out? |
//! | [`stored_row`], [`step`] | what does a step read and write? Pure. |
//! | [`done_work`] | which work has a transaction of a user done? |
//! | [`executor`], [`step_order`], [`batch`] | one step; those of one lock in order; many in one transaction |
//! | [`listener`], [`mailbox`] | how are waiters and holders told? |
//! | [`clocks`] | whose time is it? |
//! | [`views`] | what do people see? |
//! | [`exam`] | is the server fit to hold locks? |
//!
//! Whether the server may have lost commits is a row of an unlogged table, the marker: PostgreSQL empties such tables
//! in every recovery. Each step compares the row with the server, and core quarantines the lock if it must.

mod batch;
mod clocks;
mod done_work;
mod exam;
mod executor;
mod failure;
mod listener;
mod mailbox;
mod pool;
mod schema;
mod session;
mod statements;
mod step;
mod step_order;
mod stored_row;
mod tls;
mod transaction;
mod url;
mod views;

use std::sync::Arc;
use std::time::Duration;

use taketurns_core::{ClientId, Name, Pattern, Request, View};

use super::{
    Answer, AnswerFuture, Durability, Engine, EngineError, EngineFuture, Guarantees, Open, Stamp,
    Wakes,
};
pub(crate) use exam::examine;
use executor::StepExecutor;
use listener::ListenPhase;
pub(crate) use schema::sql as schema_sql;
use url::PostgresConfig;

use crate::runtime::entered;

/// A store URL that was understood.
pub(crate) struct OpenPostgres {
    config: PostgresConfig,
}

impl OpenPostgres {
    pub(crate) fn new(url: &str) -> Result<Self, crate::Error> {
        let config = PostgresConfig::parse(url).map_err(crate::Error::InvalidUrl)?;
        Ok(Self { config })
    }
}

impl Open for OpenPostgres {
    fn open(
        self: Box<Self>,
        client: ClientId,
        wakes: Wakes,
    ) -> EngineFuture<'static, Result<Box<dyn Engine>, EngineError>> {
        Box::pin(async move {
            let executor = StepExecutor::open(self.config, client, wakes).await?;
            let engine = PostgresEngine { executor, pid: std::process::id() };
            Ok(Box::new(engine) as Box<dyn Engine>)
        })
    }

    fn again(&self) -> Option<Box<dyn Open>> {
        Some(Box::new(Self { config: self.config.clone() }))
    }
}

/// Locks in PostgreSQL, as one client sees them.
struct PostgresEngine {
    executor: Arc<StepExecutor>,
    /// A forked child has the sockets, but not the threads that read them.
    pid: u32,
}

impl PostgresEngine {
    /// Looks on the caller's thread, which may have no timers of its own.
    fn look<'a, T>(&'a self, look: impl Future<Output = T> + Send + 'a) -> EngineFuture<'a, T> {
        Box::pin(entered(&self.executor.pool.connector.runtime, look))
    }
}

impl Engine for PostgresEngine {
    fn call(&self, lock: &Name, request: Request) -> AnswerFuture {
        if self.pid != std::process::id() {
            let why = "this process was forked after it had connected; connect again in the child";
            return AnswerFuture::now(Err(EngineError::Broken(why.to_owned())));
        }
        match request {
            // Without a lock on the row.
            Request::Refresh { .. } => {
                let (executor, calls) = (self.executor.clone(), vec![(lock.clone(), request)]);
                AnswerFuture::later(async move {
                    let answer = executor.submit_all(calls).await.pop();
                    answer.unwrap_or_else(|| Err(executor::ended()))
                })
            }
            request => AnswerFuture::later(self.executor.submit(lock.clone(), request)),
        }
    }

    fn call_all<'a>(
        &'a self,
        calls: Vec<(Name, Request)>,
    ) -> EngineFuture<'a, Vec<Result<Answer, EngineError>>> {
        Box::pin(self.executor.submit_all(calls))
    }

    fn ping(&self) -> EngineFuture<'_, Result<Stamp, EngineError>> {
        self.look(self.executor.ping())
    }

    fn view<'a>(
        &'a self,
        lock: &'a Name,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Option<View>, EngineError>> {
        self.look(self.executor.view(lock, waiters_max))
    }

    fn list<'a>(
        &'a self,
        pattern: &'a Pattern,
        after: Option<&'a Name>,
        max: usize,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Vec<(Name, View)>, EngineError>> {
        self.look(self.executor.list(pattern, after, max, waiters_max))
    }

    fn max_lease(&self) -> Duration {
        self.executor.config.max_lease
    }

    fn guarantees(&self) -> Guarantees {
        let event_driven = self.executor.listener.phase() != ListenPhase::Polling;
        Guarantees { event_driven, ..Guarantees::full(Durability::AnyClient) }
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        Box::pin(self.executor.close())
    }
}

impl Drop for PostgresEngine {
    fn drop(&mut self) {
        self.executor.shut();
    }
}
