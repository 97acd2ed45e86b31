//! What the module knows beside the keys: which client waits or polls on which connection, which locks concern a
//! client, and what is due when. None of it is stored: it ends with the process, as the connections do.

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

/// Gives access to all of it. Must not be held while calling the server, which may call back.
pub(crate) fn with_state<T>(look: impl FnOnce(&mut ModuleState) -> T) -> T {
    STATE.with_borrow_mut(look)
}

/// A client that waits, or was granted the lock and has not been told yet.
pub(crate) struct BlockedWaiter {
    pub(crate) handle: BlockedClient,
    /// The server's id of the connection.
    pub(crate) connection: u64,
    pub(crate) record: u64,
    pub(crate) owner: Owner,
    /// The secret that the client gets: its owner, as an integer.
    pub(crate) secret: u64,
    /// How long it wants to wait.
    pub(crate) wait_ms: u64,
    /// When its wait times out.
    pub(crate) until_ms: u64,
}

/// A client that was granted the lock, and whose reply is on its way.
struct GrantedClient {
    connection: u64,
    record: u64,
    owner: Owner,
}

/// A hold that ends with its connection.
struct BoundHold {
    client: ClientId,
    record: u64,
    owner: Owner,
}

/// Where a lock is that a client waits for or holds by a connection.
struct LockLocation {
    db: i32,
    key: Box<[u8]>,
    due_ms: Option<u64>,
}

/// Work to do as soon as the server is back in its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chore {
    /// This owner's connection is gone, or its wait timed out.
    Leave(Owner),
    /// The lock comes from elsewhere: clients without a connection here are gone.
    Sort,
    /// Some of this connection's ties to the lock may be holds that have ended.
    Untie(u64),
    /// Something became due.
    Tick,
}

/// A chore, and its lock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DueChore {
    pub(crate) record: u64,
    pub(crate) db: i32,
    pub(crate) key: Box<[u8]>,
    pub(crate) chore: Chore,
}

#[derive(Default)]
pub(crate) struct ModuleState {
    /// The id of this server incarnation.
    pub(crate) run: Arc<str>,
    /// The empty channel prefix, shared by all locks without one.
    no_channel: Arc<str>,
    /// A replica does nothing by itself: its master does.
    pub(crate) is_replica: bool,
    /// A log or a replica may exist, so changes must be passed on to it. A server that has had neither since it
    /// started, nor a child process that writes the beginning of one, saves that work.
    pub(crate) is_followed: bool,
    /// The longest lease, if the server has a quarantine after a restart.
    pub(crate) quarantine_ms: Option<u64>,
    /// Until when nothing is granted.
    pub(crate) until_ms: u64,
    pub(crate) bindings: Bindings,
    pub(crate) counts: Counts,
    pub(crate) polls: Polls,
    /// The running timer, and when it fires.
    pub(crate) timer: Option<(u64, u64)>,
    /// The last reading of the clock.
    pub(crate) clock_ms: u64,
    waiters: HashMap<ClientId, BlockedWaiter>,
    /// When each wait times out.
    ends: BTreeSet<(u64, ClientId)>,
    /// The clients that wait, and those that have not yet been told that they no longer do.
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
