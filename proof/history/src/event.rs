//! One thing that happened.

use serde::{Deserialize, Serialize};

/// One thing that happened. In a file it is one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEvent {
    /// When, in µs on the one clock of the history.
    pub at_us: u64,
    /// What.
    #[serde(flatten)]
    pub what: EventKind,
}

/// What happened.
///
/// Who notes something notes it so that too little is claimed rather than too much: what began, after
/// it was certain; what ends, before it is said to anybody. Until when a guard holds is reckoned from a
/// time that was read before the guard was asked, or a program that is stopped between the two claims
/// more than its guard said. An operation is one acquire and all that comes of it; its events are noted by
/// one task, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum EventKind {
    /// The first event of every history.
    Begins {
        /// What was tried, for people.
        title: String,
        /// All locks there are.
        locks: Vec<HistoryLock>,
        /// For how long a place in a queue outlives its client.
        waiter_lease_us: u64,
        /// No lease is longer.
        max_lease_us: u64,
        /// May a client that is stopped hold up all others? Each step on a file locks the whole file.
        #[serde(default)]
        stopped_blocks: bool,
    },
    /// An acquire is about to be called.
    Asked {
        /// A number that no other operation has.
        op: u64,
        /// Whose it is.
        client: u32,
        /// The lock's name.
        lock: String,
        /// What is wanted.
        ask: HistoryAsk,
        /// Will it wait for as long as it takes? Then it may not fail once all is calm.
        endless: bool,
        /// May it share a grant with other operations of its client, one after the other?
        #[serde(default)]
        keeps: bool,
    },
    /// The acquire has returned a guard.
    Granted {
        /// Whose.
        op: u64,
        /// The guard's token, unless the wire has none.
        token: Option<u64>,
        /// Which member of a pool it is.
        member: Option<String>,
        /// When the guard says that it is over, unless it is renewed.
        until_us: u64,
    },
    /// The holder asked its guard. The time is that of before it asked.
    Checked {
        /// Whose.
        op: u64,
        /// When the guard says that it is over; `None` if it says that it is lost.
        until_us: Option<u64>,
    },
    /// The guard said that it is lost, without being asked.
    Lost {
        /// Whose.
        op: u64,
        /// Why.
        cause: String,
    },
    /// The holder is about to give it back: from here on it claims nothing.
    Releases {
        /// Whose.
        op: u64,
    },
    /// The release has been answered.
    Released {
        /// Whose.
        op: u64,
        /// The kind of error, if it was one. What is not known is one of them.
        error: Option<String>,
    },
    /// The acquire has returned without a guard.
    Failed {
        /// Whose.
        op: u64,
        /// The kind of error.
        error: String,
    },
    /// The acquire has returned that the work of the once is done.
    DoneBefore {
        /// Whose.
        op: u64,
    },
    /// That the work is done has been answered.
    Finished {
        /// By whom it was done.
        op: u64,
        /// The kind of error, if it was one.
        error: Option<String>,
    },
    /// The acquire's future was dropped.
    Cancelled {
        /// Whose.
        op: u64,
    },
    /// A resource was written to by the holder, or by who takes itself for it. One that looks at tokens
    /// must have seen the writer's already when the writer read: else an older writer may come between.
    Wrote {
        /// By whom.
        op: u64,
        /// Does the resource look at tokens?
        fenced: bool,
        /// Did it let the write through?
        accepted: bool,
        /// Was it changed by another since the writer read it?
        stale: bool,
    },
    /// Somebody looked at a queue. The time is that of after the look.
    Line {
        /// Of this lock.
        lock: String,
        /// The operations that wait, the next one first.
        ops: Vec<u64>,
    },
    /// The store answered to a client's refresh of its places in a queue. The time is that of the answer.
    Refreshed {
        /// Whose places.
        client: u32,
        /// In the queue of this lock.
        lock: String,
        /// When the client had sent the refresh.
        sent_us: u64,
    },
    /// A client found that its place in a queue had lapsed, and took a new one.
    Rejoined {
        /// Whose place.
        client: u32,
        /// In the queue of this lock.
        lock: String,
    },
    /// The keeper of the lock gave the operation a place in the queue. Only a simulation knows.
    Placed {
        /// Whom.
        op: u64,
        /// Which: who has a lower one is before it.
        number: u64,
        /// Nothing is granted yet, though nobody holds it: the keeper may have forgotten a holder, or the last one has
        /// it for a time at least, or an attempt failed a moment ago.
        #[serde(default)]
        quarantined: bool,
    },
    /// The keeper heard nothing of the client for a waiter lease. Only a simulation knows.
    Lapsed {
        /// Whose place.
        op: u64,
    },
    /// It heard of the client again, or can't tell by its clock any more. Only a simulation knows.
    Heard {
        /// Whose place had lapsed.
        op: u64,
    },
    /// The keeper granted the lock. Only a simulation knows.
    Minted {
        /// To whom.
        op: u64,
        /// With this token.
        token: u64,
        /// Which member of a pool.
        member: Option<String>,
    },
    /// The keeper recorded that the work of a once is done. Only a simulation knows.
    Done {
        /// By whom.
        op: u64,
    },
    /// The keeper told the operation that the work is done: it has no place. Only a simulation knows.
    Told {
        /// Whom.
        op: u64,
    },
    /// The keeper gave the operation's place away, since as many attempts failed as it allows. It may ask anew. Only a
    /// simulation knows.
    GivenUp {
        /// Whose place.
        op: u64,
    },
    /// The keeper forgot that work was done, since its time was over or somebody undid it. Only a simulation knows.
    Undone {
        /// The lock.
        lock: String,
    },
    /// The keeper was told that the operation is over. Only a simulation knows.
    Freed {
        /// Which.
        op: u64,
    },
    /// The client has given up what it had, and asks anew for the same operation. Only a simulation
    /// knows.
    Again {
        /// Which.
        op: u64,
        /// It had been answered that the lock is granted. Otherwise it had no reason to leave a place.
        #[serde(default)]
        was_granted: bool,
    },
    /// The keeper forgot what it knew, or some of it. Only a simulation knows.
    Forgot,
    /// A break was acknowledged: the holder keeps the lock at most until its deadline.
    Broken {
        /// Which.
        lock: String,
        /// When that was asked for.
        asked_us: u64,
    },
    /// A client is gone without a word.
    Died {
        /// Which.
        client: u32,
    },
    /// A client is stopped.
    Paused {
        /// Which.
        client: u32,
    },
    /// It goes on.
    Resumed {
        /// Which.
        client: u32,
    },
    /// Something goes wrong.
    Fault {
        /// What, such as `kill -9`.
        kind: String,
        /// To whom, such as `node 2`.
        on: String,
        /// The guarantees that are not given while it lasts, and until the longest lease after it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        excuses: Vec<crate::Guarantee>,
    },
    /// That is over.
    Mended {
        /// What.
        kind: String,
        /// To whom.
        on: String,
    },
    /// From here on nothing goes wrong any more: everybody who waits must get its turn.
    Calm,
    /// Something was left behind in the end.
    Left {
        /// What.
        thing: String,
    },
}

/// A lock and what may be held of it at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryLock {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: LockKind,
}

/// What a lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockKind {
    /// One holder.
    Mutex,
    /// Many readers or one writer.
    Rwlock,
    /// A semaphore with this number of permits.
    Semaphore(u32),
    /// Members with a holder each.
    Pool,
    /// One holder at a time, until the work is done.
    Once,
}

/// What is wanted of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryAsk {
    /// A mutex.
    Mutex,
    /// A lock to read under.
    Read,
    /// A lock to write under.
    Write,
    /// This number of permits.
    Permits(u32),
    /// Any member of a pool.
    Any,
    /// This member.
    Member(String),
    /// The right to do the work of a once.
    Once,
}

impl EventKind {
    /// The operation that it is about, if it is about one.
    pub fn op(&self) -> Option<u64> {
        match self {
            Self::Asked { op, .. }
            | Self::Granted { op, .. }
            | Self::Checked { op, .. }
            | Self::Lost { op, .. }
            | Self::Releases { op }
            | Self::Released { op, .. }
            | Self::Failed { op, .. }
            | Self::Cancelled { op }
            | Self::Wrote { op, .. }
            | Self::Placed { op, .. }
            | Self::Lapsed { op }
            | Self::Heard { op }
            | Self::Minted { op, .. }
            | Self::DoneBefore { op }
            | Self::Finished { op, .. }
            | Self::Done { op }
            | Self::Told { op }
            | Self::GivenUp { op }
            | Self::Freed { op }
            | Self::Again { op, .. } => Some(*op),
            _ => None,
        }
    }
}
