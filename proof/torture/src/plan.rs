//! The parameters of a run: which locks there are, how many clients, and how long leases last.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use taketurns_history::{HistoryLock, LockKind};

/// What most leases are, so that many end within a pause.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// For how long a server that has forgotten grants nothing. Short, since nothing is tried meanwhile.
pub(crate) const MAX_LEASE: Duration = Duration::from_secs(3);
/// A third of it is between two refreshes.
pub(crate) const WAITER_LEASE: Duration = Duration::from_secs(1);

/// The client processes at any time, and how many tasks each has.
pub(crate) const CLIENTS: usize = 6;
pub(crate) const TASKS: u64 = 3;

/// A lock that has members, and which.
pub(crate) const POOL: &str = "desks";
pub(crate) const MEMBERS: [&str; 3] = ["left", "middle", "right"];

/// Work that is done once. There is new work each time that this is over, with a name of its own.
pub(crate) const CHORES: &str = "chores";
pub(crate) const CHORE_EVERY: Duration = Duration::from_secs(2);

/// The locks of a run.
pub(crate) fn locks(only_mutexes: bool) -> Vec<HistoryLock> {
    let lock = |name: &str, kind| HistoryLock { name: name.to_owned(), kind };
    let mut locks = vec![lock("till", LockKind::Mutex), lock("gate", LockKind::Mutex)];
    if !only_mutexes {
        locks.push(lock("ledger", LockKind::Rwlock));
        locks.push(lock("seats", LockKind::Semaphore(3)));
        locks.push(lock(POOL, LockKind::Pool));
        locks.push(lock(CHORES, LockKind::Once));
    }
    locks
}

/// All that a client process has to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// Its number, which no other ever had.
    pub(crate) number: u32,
    /// The process that it ends with.
    pub(crate) parent: i32,
    /// The store.
    pub(crate) url: String,
    /// Are there only mutexes?
    pub(crate) only_mutexes: bool,
    /// The socket of the resources.
    pub(crate) resources: std::path::PathBuf,
    /// Where it notes what happens.
    pub(crate) notes: std::path::PathBuf,
    /// The run's.
    pub(crate) seed: u64,
}
