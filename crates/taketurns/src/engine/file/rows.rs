//! One row per lock: a version byte, then the whole lock.

use rusqlite::{Connection, params};
use taketurns_core::{Lock, Name, Now};

use super::database::engine_error;
use crate::engine::{EngineError, stored};

/// Times to forget at are rounded up to this, so that an index is not rewritten by every step.
const FORGET_GRAIN_MS: u64 = 10 * 60 * 1_000;

/// A lock as it is stored.
pub(super) struct Row {
    pub(super) lock: Lock,
    pub(super) of_boot: i64,
    pub(super) forget_at_ms: Option<i64>,
}

pub(super) fn load(
    connection: &Connection,
    name: &Name,
    boot: i64,
) -> Result<Option<Row>, EngineError> {
    let mut statement = connection
        .prepare_cached("SELECT boot, forget_at_ms, state FROM locks WHERE name = ?1")
        .map_err(engine_error)?;
    let mut rows = statement.query([name.as_str()]).map_err(engine_error)?;
    let Some(row) = rows.next().map_err(engine_error)? else { return Ok(None) };
    let of_boot = row.get(0).map_err(engine_error)?;
    let forget_at_ms = row.get(1).map_err(engine_error)?;
    let state = row.get_ref(2).and_then(|state| Ok(state.as_blob()?)).map_err(engine_error)?;
    Ok(Some(Row { lock: decode(state, of_boot, boot)?, of_boot, forget_at_ms }))
}

/// Saves a lock. `known` is when the stored row may be forgotten, if there is one.
pub(super) fn save(
    connection: &Connection,
    name: &Name,
    boot: i64,
    lock: &Lock,
    known: Option<Option<i64>>,
    now: Now,
) -> Result<(), EngineError> {
    let state = stored::encode(lock)?;
    let forget_at_ms = lock.forget_at_ms().map(|at_ms| {
        let wall_ms = (now.wall_us / 1_000).saturating_add(at_ms.saturating_sub(now.ms));
        let rounded_ms = wall_ms.div_ceil(FORGET_GRAIN_MS).saturating_mul(FORGET_GRAIN_MS);
        // One that is damaged may be in use for ever.
        i64::try_from(rounded_ms).unwrap_or(i64::MAX)
    });
    let saved = if known == Some(forget_at_ms) {
        connection
            .prepare_cached("UPDATE locks SET boot = ?2, state = ?3 WHERE name = ?1")
            .and_then(|mut statement| statement.execute(params![name.as_str(), boot, state]))
    } else {
        connection
            .prepare_cached("INSERT OR REPLACE INTO locks (name, boot, state, forget_at_ms) VALUES (?1, ?2, ?3, ?4)")
            .and_then(|mut statement| statement.execute(params![name.as_str(), boot, state, forget_at_ms]))
    };
    saved.map(drop).map_err(engine_error)
}

pub(super) fn decode(state: &[u8], of_boot: i64, boot: i64) -> Result<Lock, EngineError> {
    let mut lock = stored::restore(stored::decode(state)?)?;
    if of_boot != boot {
        lock.reboot();
    }
    Ok(lock)
}
