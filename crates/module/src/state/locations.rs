//! Which locks clients wait for or hold by a connection: under which key each lock is, and when something is due for
//! it.

use std::collections::HashSet;

use taketurns_core::ClientId;

use super::{BlockedWaiter, Chore, DueChore, LockLocation, ModuleState};
use crate::sys::BlockedClient;

impl ModuleState {
    /// Tracks a lock that concerns a client: its key, and when time changes something for it.
    pub(crate) fn track(&mut self, record: u64, db: i32, key: &[u8], due_ms: Option<u64>) {
        let location = self.locations.entry(record).or_insert_with(|| LockLocation {
            db,
            key: key.into(),
            due_ms: None,
        });
        if location.db != db || *location.key != *key {
            (location.db, location.key) = (db, key.into());
        }
        if location.due_ms != due_ms {
            if let Some(due_ms) = location.due_ms {
                self.due.remove(&(due_ms, record));
            }
            self.due.extend(due_ms.map(|due_ms| (due_ms, record)));
            location.due_ms = due_ms;
        }
    }

    pub(crate) fn untrack(&mut self, record: u64) {
        if let Some(LockLocation { due_ms: Some(due_ms), .. }) = self.locations.remove(&record) {
            self.due.remove(&(due_ms, record));
        }
    }

    /// Notes that a lock is under another key now.
    pub(crate) fn moved(&mut self, record: u64, db: i32, key: &[u8]) {
        if let Some(location) = self.locations.get_mut(&record) {
            (location.db, location.key) = (db, key.into());
        }
    }

    pub(crate) fn swapped(&mut self, one: i32, other: i32) {
        for location in self.locations.values_mut() {
            location.db = match location.db {
                db if db == one => other,
                db if db == other => one,
                db => db,
            };
        }
    }

    /// Returns the locks of one database, or of all.
    pub(crate) fn tracked_in(&self, db: Option<i32>) -> Vec<u64> {
        let here = |location: &LockLocation| db.is_none_or(|db| db == location.db);
        self.locations
            .iter()
            .filter(|(_, location)| here(location))
            .map(|(record, _)| *record)
            .collect()
    }

    /// Forgets these locks. Returns the clients that waited for them; the caller tells them.
    pub(crate) fn lost(&mut self, records: &HashSet<u64>) -> Vec<BlockedClient> {
        for record in records {
            self.untrack(*record);
        }
        let is_lost = |waiter: &BlockedWaiter| records.contains(&waiter.record);
        let lost: Vec<(ClientId, BlockedClient)> = self
            .waiters
            .iter()
            .filter(|(_, waiter)| is_lost(waiter))
            .map(|(client, waiter)| (*client, waiter.handle))
            .collect();
        for (client, _) in &lost {
            self.take_waiter(*client);
        }
        lost.into_iter().map(|(_, handle)| handle).collect()
    }

    /// Schedules the check of a lock that comes from elsewhere: holders and waiters without a connection here are gone.
    pub(crate) fn sort(&mut self, record: u64) {
        self.chores.push_back((record, Chore::Sort));
    }

    pub(crate) fn sort_all(&mut self) {
        self.chores.extend(self.locations.keys().map(|record| (*record, Chore::Sort)));
    }

    /// Schedules a look at every lock, after the clock was set back.
    pub(crate) fn tick_all(&mut self) {
        self.chores.extend(self.locations.keys().map(|record| (*record, Chore::Tick)));
    }

    /// Takes what is due by now, at most `max`.
    pub(crate) fn take_jobs(&mut self, now_ms: u64, max: usize) -> Vec<DueChore> {
        let mut jobs = Vec::new();
        while jobs.len() < max {
            let due = self.due.first().filter(|(due_ms, _)| *due_ms <= now_ms).copied();
            let (record, chore) = match self.chores.pop_front() {
                Some(chore) => chore,
                None => match due {
                    Some((_, record)) => (record, Chore::Tick),
                    None => break,
                },
            };
            let Some(location) = self.locations.get_mut(&record) else { continue };
            if chore == Chore::Tick
                && let Some(due_ms) = location.due_ms.take()
            {
                self.due.remove(&(due_ms, record));
            }
            jobs.push(DueChore { record, db: location.db, key: location.key.clone(), chore });
        }
        jobs
    }

    /// Puts a job off that can't be done now.
    pub(crate) fn put_off(&mut self, job: &DueChore) {
        self.chores.push_back((job.record, job.chore));
    }

    /// Returns when something is due next.
    pub(crate) fn next_ms(&self, now_ms: u64) -> Option<u64> {
        if !self.chores.is_empty() {
            return Some(now_ms);
        }
        let due_ms = self.due.first().map(|(due_ms, _)| *due_ms);
        let end_ms = self.ends.first().map(|(end_ms, _)| *end_ms);
        due_ms.into_iter().chain(end_ms).min()
    }

    /// Drops all chores: a replica leaves them to its master.
    pub(crate) fn drop_chores(&mut self) {
        self.chores.clear();
    }
}
