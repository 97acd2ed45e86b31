//! What can be asked of a lock, what it answers, and whom it wakes.

use serde::{Deserialize, Serialize};

use crate::{Ask, ClientId, Kind, Label, Member, Owner, Token};

/// The engine's time at a step. Never a client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// The lease clock, in milliseconds. May be any clock that all steps of a lock share.
    pub ms: u64,
    /// The wall clock, in microseconds since 1970. Floors the tokens.
    pub wall_us: u64,
}

/// A request. Each carries its owner or client, so that sending it again gives the same outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Hold the lock, or wait for it.
    Acquire(AcquireRequest),
    /// Keep all places of one client alive, and say which of them hold the lock by now.
    Refresh {
        /// Whose places.
        client: ClientId,
        /// For how long they stay without a further refresh.
        waiter_lease_ms: u64,
    },
    /// Stretch a held lease, never shorten it. One that ran out is gone, and is never recreated.
    Renew {
        /// Whose grant.
        owner: Owner,
        /// Who keeps it from now on: wake-ups go there.
        client: ClientId,
        /// How long from now, at least.
        lease_ms: u64,
        /// If the lock is held on a majority of nodes, of which this is one.
        write_back: Option<WriteBack>,
    },
    /// Give up the lock, or the place in the queue: whichever the owner has.
    Release {
        /// Whose.
        owner: Owner,
        /// Until this engine time an acquire by the same owner is refused; 0 for not at all. To be
        /// set when an acquire may still be under way: cancelled unanswered, or sent twice.
        bury_until_ms: u64,
        /// The last token that was used of those in [`Grant::tokens`]: those after it are given to
        /// others. `None` if all of them may have been used.
        last_used: Option<Token>,
    },
    /// Revoke: no renewal from now on.
    Break {
        /// Only the holder with this token; all holders if `None`.
        token: Option<Token>,
        /// Pass the lock on at once instead of at the holder's deadline.
        at_once: bool,
    },
    /// A client is known to have died: its places are dead and what was just handed to it passes on.
    ClientGone {
        /// Which.
        client: ClientId,
    },
    /// Give a semaphore another number of permits, also while it is in use.
    Resize {
        /// The new number.
        permits: u32,
    },
    /// Add a member to a pool.
    PoolAdd {
        /// Which.
        member: Member,
    },
    /// Remove a member from a pool; one that is held goes at its release.
    PoolRemove {
        /// Which.
        member: Member,
    },
    /// Nothing but what time has brought: expiry, and hand-over that a step before left undone.
    Tick,
}

/// An acquire: [`Request::Acquire`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcquireRequest {
    /// The secret of the grant to be.
    pub owner: Owner,
    /// Where wake-ups go, and whose refresh keeps the place.
    pub client: ClientId,
    /// What is asked for.
    pub ask: Ask,
    /// How long the grant shall last without renewal.
    pub lease_ms: u64,
    /// How long the place in the queue lasts without refresh; `None` to not queue at all.
    pub waiter_lease_ms: Option<u64>,
    /// The engine time from which on this request must change nothing: it came too late.
    pub not_after_ms: u64,
    /// If it is asked for on several nodes, of which this is one.
    pub ballot: Option<Ballot>,
    /// What people see.
    pub label: Label,
}

impl AcquireRequest {
    /// Its ballot, if it is for what a majority can decide about.
    pub(crate) fn ballot(&self) -> Option<Ballot> {
        self.ballot.filter(|_| self.ask == Ask::Mutex)
    }
}

/// What an acquire says besides if a majority of nodes decides, each with a lock like this one. The
/// node then gives out tokens and places that the others are likely to give too, keeps waiters in the
/// order of their tickets, and takes back a vote that stands in the way of a lower ticket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ballot {
    /// Token and ticket are to be at least this: the client's estimate of the nodes' clock.
    pub hint: u64,
    /// The ticket that the owner has by now; `None` for one that the node assigns.
    pub ticket: Option<u64>,
    /// Give up the grant of this number, and wait again.
    pub yields: Option<u64>,
}

/// What a renewal says besides if a majority of nodes decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteBack {
    /// The grant that is meant. Another one is not touched.
    pub number: u64,
    /// The token that the majority is to agree on. The node takes it over if it is larger than its own.
    pub token: u64,
}

/// What a grant is to one who needs a majority of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// The number of the grant: the token as it was minted. Changes at a grant and at nothing else.
    pub number: u64,
    /// The ticket that its owner has on this node.
    pub ticket: u64,
    /// A lower ticket waits for it.
    pub inquired: bool,
}

/// A lock held until its deadline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The fencing token. `None` only from an engine whose wire has no room for one.
    pub token: Option<Token>,
    /// How many tokens in a row, beginning with this one, are the holder's: 1 unless it asked for
    /// [`Ask::Turns`].
    pub tokens: u32,
    /// Held while the engine's clock is below this.
    pub deadline_ms: u64,
    /// Which member, if the lock is a pool.
    pub member: Option<Member>,
    /// Set if it was asked for with a [`Ballot`].
    pub vote: Option<Vote>,
}

/// A place in the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The number of this place: its ticket, if it was asked for with a [`Ballot`]. Numbers only grow.
    pub number: u64,
    /// The number at the front of the queue.
    pub front: u64,
    /// When it is worth asking again: no holder's lease ends before, unless it is given up.
    pub recheck_ms: Option<u64>,
    /// Until when nobody is granted the lock, if its store may have forgotten a holder.
    pub quarantined_until_ms: Option<u64>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// To an acquire: held.
    Granted(Grant),
    /// To an acquire: waiting.
    Queued(Place),
    /// To an acquire that would not wait: somebody else holds or waits.
    Busy,
    /// To a refresh.
    Refreshed {
        /// How many of the client's places are in the queue.
        waiting: u32,
        /// The number at the front of the queue.
        front: u64,
        /// When it is worth asking again: no holder's lease ends before, unless it is given up.
        recheck_ms: Option<u64>,
        /// Until when nobody is granted the lock, if its store may have forgotten a holder.
        quarantined_until_ms: Option<u64>,
        /// Grants that were handed to the client and that it has not renewed yet.
        granted: Vec<(Owner, Grant)>,
    },
    /// To a renewal: held until the new deadline.
    Renewed(Grant),
    /// To a renewal: somebody broke the lock.
    Revoked,
    /// To a release: it was held, and is not any more.
    Released,
    /// To a release: it was waiting, and is not any more.
    Left,
    /// To a renewal or a release: no such holder, and for a release no such waiter.
    NotHeld,
    /// To a break: so many holders were revoked or removed.
    Broken(u32),
    /// To a change of a pool: did it change anything?
    Changed(bool),
    /// Done, and nothing to say.
    Done,
    /// Nothing was changed, for this reason.
    Refused(Refusal),
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    /// The lock is in use as something else.
    #[error("it is in use as a {0}")]
    KindMismatch(Kind),
    /// The queue is at its limit.
    #[error("its queue is full ({max} waiters)", max = crate::limits::QUEUE_MAX)]
    QueueFull,
    /// The pool has as many members as it can.
    #[error("the pool is full ({max} members)", max = crate::limits::MEMBERS_MAX)]
    PoolFull,
    /// The request came after its `not_after_ms`.
    #[error("the request came too late to be carried out")]
    TooLate,
    /// Nobody is granted the lock, since its store may have forgotten a holder.
    #[error("its store was restarted or failed over, and grants nothing until old leases are over")]
    Quarantined {
        /// Until this engine time.
        until_ms: u64,
    },
    /// The owner was cancelled before this request came.
    #[error("the request was cancelled before it came")]
    Cancelled,
    /// A lease or waiter lease outside its limits.
    #[error(
        "a lease must be between {min} ms and {max} ms",
        min = crate::limits::LEASE_MS_MIN,
        max = crate::limits::LEASE_MS_MAX
    )]
    InvalidLease,
    /// Permits that no semaphore can give.
    #[error("permits must be at least 1 and at most what the semaphore has, itself at most {max}",
        max = crate::limits::PERMITS_MAX)]
    InvalidPermits,
}

/// To be sent to a client whose waiter or holder another's step has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// To whom.
    pub client: ClientId,
    /// Which of its owners.
    pub owner: Owner,
    /// What happened.
    pub event: WakeEvent,
}

/// What a wake-up says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WakeEvent {
    /// The lock was handed over.
    Granted(Grant),
    /// The lock was broken: it can't be renewed, or is gone already.
    Revoked {
        /// The token with which the broken grant was minted: see [`Vote::number`] for that of a vote.
        /// `None` only from an engine whose wire has no room for one.
        token: Option<Token>,
    },
    /// The place is gone, for this reason.
    Refused(Refusal),
    /// A lower ticket waits for the grant of this number.
    Inquired {
        /// See [`Vote::number`].
        number: u64,
    },
}

/// What one step did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// To whoever asked.
    pub reply: Reply,
    /// To others, to be sent once the step is stored.
    pub wakes: Vec<Wake>,
    /// There is more to hand over than one step may: send a [`Request::Tick`].
    pub more: bool,
    /// False if the lock is as it was, but for the time of the last step: then whoever repeats the
    /// steps elsewhere may leave this one out.
    pub changed: bool,
}
