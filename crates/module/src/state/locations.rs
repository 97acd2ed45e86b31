//! Which locks somebody waits for or holds by a connection: under which key each is, and what is due for it when.

use std::collections::HashSet;

use taketurns_core::ClientId;

use super::{BlockedWaiter, Chore, DueChore, LockLocation, ModuleState};
use crate::sys::BlockedClient;

impl ModuleState {
    /// This lock concerns somebody: it is here, and time changes something for it then.
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

    /// The same lock is under another key now.
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

    /// The locks of one database, or of all.
    pub(crate) fn tracked_in(&self, db: Option<i32>) -> Vec<u64> {
        let here = |location: &LockLocation| db.is_none_or(|db| db == location.db);
        self.locations
            .iter()
            .filter(|(_, location)| here(location))
            .map(|(record, _)| *record)
            .collect()
    }

    /// These locks are no more: who waited for them is to be told.
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

    /// A lock comes from elsewhere, or all do: those whose connection is not here are gone.
    pub(crate) fn sort(&mut self, record: u64) {
        self.chores.push_back((record, Chore::Sort));
    }

    pub(crate) fn sort_all(&mut self) {
        self.chores.extend(self.locations.keys().map(|record| (*record, Chore::Sort)));
    }

    /// The clock was set back: every lock has to take notice.
    pub(crate) fn tick_all(&mut self) {
        self.chores.extend(self.locations.keys().map(|record| (*record, Chore::Tick)));
    }

    /// Takes what is to be done by now, so much at most.
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

    /// It can't be done now.
    pub(crate) fn put_off(&mut self, job: &DueChore) {
        self.chores.push_back((job.record, job.chore));
    }

    /// When there is something to do next.
    pub(crate) fn next_ms(&self, now_ms: u64) -> Option<u64> {
        if !self.chores.is_empty() {
            return Some(now_ms);
        }
        let due_ms = self.due.first().map(|(due_ms, _)| *due_ms);
        let end_ms = self.ends.first().map(|(end_ms, _)| *end_ms);
        due_ms.into_iter().chain(end_ms).min()
    }

    /// A replica does nothing by itself: its master does.
    pub(crate) fn drop_chores(&mut self) {
        self.chores.clear();
    }
}
