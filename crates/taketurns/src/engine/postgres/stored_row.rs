//! A row as it was read: a lock, the server's time, and whether the server is the one that clients have verified.

use taketurns_core::{ClientId, Lock, Name, Now};
use tokio_postgres::Row;

use crate::engine::{EngineError, stored};

/// A lock and its circumstances, with the refreshes of its waiters, as the statements of [`super::statements`] return them.
pub(super) struct StoredRow {
    pub(super) now: Now,
    /// The server incarnation whose clock this is.
    pub(super) clock: String,
    /// The server is the one that the marker names.
    pub(super) is_verified: bool,
    /// Of all locks of this server; in the past if there is none.
    quarantine_until_ms: u64,
    lock: Option<StoredLock>,
    places: Vec<StoredPlace>,
}

/// What the table has of a lock.
struct StoredLock {
    name: String,
    clock: String,
    state: Vec<u8>,
    /// Where its row is in the table, if the row was locked by itself.
    at: Option<String>,
}

/// When a client refreshed its places.
struct StoredPlace {
    client: i64,
    seen_ms: i64,
    waiter_lease_ms: i64,
}

impl StoredRow {
    pub(super) fn read(row: &Row) -> Result<Self, EngineError> {
        Self::columns(row).map_err(|error| changed(&error))
    }

    fn columns(row: &Row) -> Result<Self, tokio_postgres::Error> {
        let server: String = row.try_get(2)?;
        let marked: Option<String> = row.try_get(3)?;
        let quarantine: (Option<i64>, Option<i64>) = (row.try_get(4)?, row.try_get(5)?);
        let name: Option<String> = row.try_get(6)?;
        let now = now(row.try_get(0)?);
        let lock = match name {
            None => None,
            Some(name) => Some(StoredLock {
                name,
                clock: row.try_get(7)?,
                state: row.try_get(8)?,
                at: row.try_get(12)?,
            }),
        };
        Ok(Self {
            now,
            clock: row.try_get(1)?,
            is_verified: marked.is_some_and(|marked| marked == server),
            quarantine_until_ms: quarantine_until_ms(now.ms, quarantine),
            lock,
            places: places(row)?,
        })
    }

    /// Is there a row for the lock?
    pub(super) fn exists(&self) -> bool {
        self.lock.is_some()
    }

    /// Where that row is.
    pub(super) fn at(&self) -> Option<&str> {
        self.lock.as_ref()?.at.as_deref()
    }

    /// The name in the row, if it can be one.
    pub(super) fn name(&self) -> Option<Name> {
        Name::new(&self.lock.as_ref()?.name).ok()
    }

    /// Was the row written under this clock?
    pub(super) fn is_of_this_clock(&self) -> bool {
        self.lock.as_ref().is_none_or(|lock| lock.clock == self.clock)
    }

    /// The lock now: on the clock of this server incarnation, in quarantine if the server is, and with its refreshes.
    pub(super) fn lock(&self) -> Result<Lock, EngineError> {
        let now_ms = self.now.ms;
        let mut lock = match &self.lock {
            None => Lock::new(),
            Some(row) => {
                let snapshot = stored::decode(&row.state)?;
                stored::restore(match row.clock == self.clock {
                    true => snapshot,
                    false => snapshot.on_another_clock(now_ms),
                })?
            }
        };
        // What the lock remembers is from an older marker, or from before the clock was set back.
        lock.quarantine(self.quarantine_until_ms);
        lock.end_quarantine_by(self.quarantine_until_ms);
        self.places.iter().for_each(|place| place.record(&mut lock, self.now));
        Ok(lock)
    }
}

/// When the quarantine ends that the marker tells of. If the clock was set back since, it lasts as long as it was meant
/// to from now on.
fn quarantine_until_ms(now_ms: u64, (since_ms, until_ms): (Option<i64>, Option<i64>)) -> u64 {
    let positive = |number: Option<i64>| number.and_then(|at| u64::try_from(at).ok()).unwrap_or(0);
    let (since_ms, until_ms) = (positive(since_ms), positive(until_ms));
    until_ms.min(now_ms.saturating_add(until_ms.saturating_sub(since_ms)))
}

/// The refreshes in the row of a lock.
fn places(row: &Row) -> Result<Vec<StoredPlace>, tokio_postgres::Error> {
    type Column = Option<Vec<i64>>;
    let columns: [Column; 3] = [row.try_get(9)?, row.try_get(10)?, row.try_get(11)?];
    let [Some(clients), Some(seen_ms), Some(leases_ms)] = columns else { return Ok(Vec::new()) };
    let columns = clients.into_iter().zip(seen_ms).zip(leases_ms);
    let place =
        |((client, seen_ms), waiter_lease_ms)| StoredPlace { client, seen_ms, waiter_lease_ms };
    Ok(columns.map(place).collect())
}

impl StoredPlace {
    fn record(&self, lock: &mut Lock, now: Now) {
        let positive = |number: i64| u64::try_from(number).unwrap_or(0);
        // A later time is from before the clock was set back.
        let seen = Now { ms: positive(self.seen_ms).min(now.ms), ..now };
        let client = ClientId::from_bits(self.client.cast_unsigned());
        lock.record_refresh(client, positive(self.waiter_lease_ms), seen);
    }
}

/// The server's wall clock is the lease clock too.
pub(super) fn now(micros: i64) -> Now {
    let wall_us = u64::try_from(micros).unwrap_or(0);
    Now { ms: wall_us / 1_000, wall_us }
}

/// A column of another type than ours.
pub(super) fn changed(error: &tokio_postgres::Error) -> EngineError {
    EngineError::Broken(format!(
        "a table of the schema taketurns was changed by hand ({error}); `taketurns schema postgres` shows how it should be"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarantine_that_was_meant_for_another_clock_is_as_long_as_it_was_meant_to_be() {
        let marker = (Some(1_000_000), Some(1_060_000));
        assert_eq!(quarantine_until_ms(1_000_000, marker), 1_060_000);
        assert_eq!(quarantine_until_ms(1_059_999, marker), 1_060_000);
        assert_eq!(quarantine_until_ms(400_000, marker), 460_000, "the clock was set back");
        assert_eq!(quarantine_until_ms(1_000_000, (Some(900), Some(0))), 0);
        assert_eq!(quarantine_until_ms(1_000_000, (None, None)), 0);
    }
}
