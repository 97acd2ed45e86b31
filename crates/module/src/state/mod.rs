//! What the module knows beside the keys: who waits or polls on which connection, which locks concern
//! somebody, and what is due when. None of it is stored: it ends with the process, as the
//! connections do.

mod connections;
mod locations;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use taketurns_core::{ClientId, Owner, limits};

use crate::binding::Bindings;
use crate::info::Counts;
use crate::polls::Polls;
use crate::record::Record;
use crate::sys::BlockedClient;

thread_local! {
    static STATE: RefCell<ModuleState> = RefCell::default();
}

/// Everything. Not to be held while the server is called: it may call back.
pub(crate) fn with_state<T>(look: impl FnOnce(&mut ModuleState) -> T) -> T {
    STATE.with_borrow_mut(look)
}

/// A client that waits, or was just granted the lock and not told yet.
pub(crate) struct BlockedWaiter {
    pub(crate) handle: BlockedClient,
    /// The connection, as the server numbers it.
    pub(crate) connection: u64,
    pub(crate) record: u64,
    pub(crate) owner: Owner,
    /// What is to be told to the client: its owner, as an integer.
    pub(crate) secret: u64,
    /// For how long it wants to wait.
    pub(crate) wait_ms: u64,
    /// When its time is up.
    pub(crate) until_ms: u64,
}

/// A client that was granted the lock, and whose reply is on its way.
struct GrantedClient {
    connection: u64,
    record: u64,
    owner: Owner,
}

/// What a connection holds for only as long as it lasts.
struct BoundHold {
    client: ClientId,
    record: u64,
    owner: Owner,
}

/// Where a lock is that somebody waits for or holds by a connection.
struct LockLocation {
    db: i32,
    key: Box<[u8]>,
    due_ms: Option<u64>,
}

/// Something to be done as soon as the server is back in its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chore {
    /// This owner's connection is gone, or its time is up.
    Leave(Owner),
    /// The lock comes from elsewhere: those whose connection is not here are gone.
    Sort,
    /// This connection is tied to it by more than it may hold.
    Untie(u64),
    /// Its time has come.
    Tick,
}

/// A chore, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DueChore {
    pub(crate) record: u64,
    pub(crate) db: i32,
    pub(crate) key: Box<[u8]>,
    pub(crate) chore: Chore,
}

#[derive(Default)]
pub(crate) struct ModuleState {
    /// The id of this run of the server.
    pub(crate) run: Arc<str>,
    /// No channel yet: one for all that have none.
    no_channel: Arc<str>,
    /// It does nothing by itself: its master does.
    pub(crate) is_replica: bool,
    /// There is a log or a replica, or may be: what changes has to be repeated there. A server that
    /// has had neither since it started, nor a child that writes what one could begin with, is spared
    /// the trouble.
    pub(crate) is_followed: bool,
    /// The longest lease, if nothing is granted for as long after a restart.
    pub(crate) quarantine_ms: Option<u64>,
    /// Until when nothing is granted.
    pub(crate) until_ms: u64,
    pub(crate) bindings: Bindings,
    pub(crate) counts: Counts,
    pub(crate) polls: Polls,
    /// The timer that runs, and when it is up.
    pub(crate) timer: Option<(u64, u64)>,
    /// What the clock said last.
    pub(crate) clock_ms: u64,
    waiters: HashMap<ClientId, BlockedWaiter>,
    /// Whose time is up when.
    ends: BTreeSet<(u64, ClientId)>,
    /// Those who wait, and those who have yet to hear that they don't any more.
    handles: HashMap<BlockedClient, ClientId>,
    told: HashMap<ClientId, GrantedClient>,
    bound_holds: HashMap<u64, Vec<BoundHold>>,
    locations: HashMap<u64, LockLocation>,
    due: BTreeSet<(u64, u64)>,
    chores: VecDeque<(u64, Chore)>,
}

impl ModuleState {
    pub(crate) fn new_record(&self) -> Box<Record> {
        Record::new(&self.run, &self.no_channel)
    }

    pub(crate) fn max_lease_ms(&self) -> u64 {
        self.quarantine_ms.unwrap_or(limits::LEASE_MS_MAX)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiters.len()
    }

    pub(crate) fn tied(&self) -> usize {
        self.bound_holds.values().map(Vec::len).sum()
    }
}
