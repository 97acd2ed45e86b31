//! What people see: locks as they are, without a step.

use taketurns_core::{Name, Pattern, View};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::done_work::DoneWork;
use super::executor::StepExecutor;
use super::statements;
use super::stored_row::{self, StoredRow};
use super::transaction::{Params, no_answer};
use crate::clock::local_us;
use crate::engine::{EngineError, Stamp};
use crate::telling::target;

/// Rows that are read at a time.
const PAGE: i64 = 500;

impl StepExecutor {
    pub(super) async fn ping(&self) -> Result<Stamp, EngineError> {
        let sent_us = local_us();
        let rows = self.pool.read(statements::PING, &[]).await?;
        let row = rows.first().ok_or_else(no_answer)?;
        let columns = row.try_get(0).and_then(|micros| Ok((micros, row.try_get(1)?)));
        let (micros, clock): (i64, String) =
            columns.map_err(|error| stored_row::changed(&error))?;
        let origin = self.clocks.origin(&clock);
        Ok(Stamp { now_ms: stored_row::now(micros).ms, origin, sent_us: Some(sent_us) })
    }

    pub(super) async fn view(
        &self,
        name: &Name,
        waiters_max: usize,
    ) -> Result<Option<View>, EngineError> {
        let names = vec![name.as_str().to_owned()];
        let rows = self.pool.read(statements::LOOK_ALL, &[(&names, Type::TEXT_ARRAY)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let row = StoredRow::read(row)?;
        let mut lock = row.lock()?;
        self.look_for_done(name, row.now, &mut lock).await?;
        Ok(Some(lock.view(row.now, waiters_max)))
    }

    pub(super) async fn list(
        &self,
        pattern: &Pattern,
        after: Option<&Name>,
        max: usize,
        waiters_max: usize,
    ) -> Result<Vec<(Name, View)>, EngineError> {
        let mut after = after.map_or(String::new(), |name| name.as_str().to_owned());
        let mut views = Vec::new();
        let done = self.all_done().await?;
        loop {
            let params: Params<'_> = &[(&after, Type::TEXT), (&PAGE, Type::INT8)];
            let rows = self.pool.read(statements::LIST, params).await?;
            for row in &rows {
                after = row.try_get(6).map_err(|error| stored_row::changed(&error))?;
                match listed(row, &after, pattern, &done, waiters_max) {
                    Ok(Some(view)) => views.push(view),
                    Ok(None) => {}
                    // One damaged lock must not hide all others.
                    Err(error) => {
                        tracing::warn!(target: target::POSTGRES, lock = after, %error, "left out of the listing");
                    }
                }
                if views.len() == max {
                    return Ok(views);
                }
            }
            if rows.len() < PAGE as usize {
                return Ok(views);
            }
        }
    }
}

fn listed(
    row: &Row,
    name: &str,
    pattern: &Pattern,
    done: &[DoneWork],
    waiters_max: usize,
) -> Result<Option<(Name, View)>, EngineError> {
    if !pattern.matches(name) {
        return Ok(None);
    }
    let name = Name::new(name).map_err(|_| {
        EngineError::Broken("the store is damaged: a name that can't be one".to_owned())
    })?;
    let row = StoredRow::read(row)?;
    let mut lock = row.lock()?;
    if let Some(done) = done.iter().find(|done| done.is_of(&name)) {
        done.take_over(&mut lock, row.now);
    }
    let view = lock.view(row.now, waiters_max);
    // All that is known of it may be who was cancelled.
    Ok((!view.is_blank()).then_some((name, view)))
}
