//! Requests to a lock, its replies, and the wake-ups that it causes.

use serde::{Deserialize, Serialize};

use crate::{Ask, ClientId, Completion, Kind, Label, Member, Note, Owner, Token};

/// The engine's time at a step. It is never a client's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// The lease clock, in milliseconds. Any clock will do if all steps of a lock share it.
    pub ms: u64,
    /// The wall clock, in microseconds since 1970. Tokens are at least this.
    pub wall_us: u64,
}

/// A request. Each carries its owner or client, so sending it again gives the same outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Hold the lock, or wait for it.
    Acquire(AcquireRequest),
    /// Keep all places of one client alive, and say which of them became holders.
    Refresh {
        /// The client whose places these are.
        client: ClientId,
        /// How long they last without another refresh.
        waiter_lease_ms: u64,
    },
    /// Extend a held lease; never shorten it. A lease that ran out is gone and is never recreated.
    Renew {
        /// The owner of the grant.
        owner: Owner,
        /// The client that keeps it from now on and gets the wake-ups.
        client: ClientId,
        /// How long from now, at least.
        lease_ms: u64,
        /// Set if the lock is held on a majority of nodes and this is one of them.
        write_back: Option<WriteBack>,
    },
    /// Give up the lock, or the place in the queue: whichever the owner has.
    Release {
        /// The owner.
        owner: Owner,
        /// Until this engine time the lock refuses an acquire by the same owner; 0 for no
        /// tombstone. Set it when an acquire may still be in flight: one that was cancelled before
        /// its reply, or sent twice.
        bury_until_ms: u64,
        /// The last token that was used of those in [`Grant::tokens`]. The lock gives the later
        /// ones to others. `None` if all of them may have been used.
        last_used: Option<Token>,
    },
    /// Revoke: no renewal succeeds from now on.
    Break {
        /// Only the holder with this token; all holders if `None`.
        token: Option<Token>,
        /// Pass the lock on at once instead of at the holder's deadline.
        at_once: bool,
    },
    /// A client is known to have died: its places are dead, and a lock that was just handed to it
    /// passes on.
    ClientGone {
        /// The client.
        client: ClientId,
    },
    /// Change the number of a semaphore's permits, even while it is in use.
    Resize {
        /// The new number.
        permits: u32,
    },
    /// Add a member to a pool.
    PoolAdd {
        /// The member.
        member: Member,
    },
    /// Remove a member from a pool. If it is held, it goes when it is released.
    PoolRemove {
        /// The member.
        member: Member,
    },
    /// End an attempt at the work of a once: it is done, or it failed.
    Finish {
        /// The owner of the attempt.
        owner: Owner,
        /// Its token, by which the lock knows *done* again if it is sent twice.
        token: Token,
        /// How it ended.
        end: AttemptEnd,
        /// As for a release.
        bury_until_ms: u64,
    },
    /// Forget what a once remembers: the work must be done again.
    Undo,
    /// Do only what is due: expire leases, and finish a hand-over that an earlier step left.
    Tick,
}

/// How an attempt at the work of a once ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptEnd {
    /// The work is done, with this result.
    Done(Note),
    /// It is not done.
    Failed,
}

/// An acquire: [`Request::Acquire`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcquireRequest {
    /// The secret of the grant that is asked for.
    pub owner: Owner,
    /// The client that gets the wake-ups and whose refreshes keep the place.
    pub client: ClientId,
    /// What is asked for.
    pub ask: Ask,
    /// How long nobody else is granted what this takes, from the grant on, even if it is released or lost; 0 if
    /// others need not wait longer than for its end.
    pub at_least_ms: u64,
    /// How long the grant lasts without renewal.
    pub lease_ms: u64,
    /// How long the place in the queue lasts without refresh; `None` to not queue at all.
    pub waiter_lease_ms: Option<u64>,
    /// From this engine time on the request is too late and must change nothing.
    pub not_after_ms: u64,
    /// Set if several nodes are asked and this is one of them.
    pub ballot: Option<Ballot>,
    /// What people see.
    pub label: Label,
}

impl AcquireRequest {
    /// Returns its ballot, if a majority of nodes can decide about what it asks for.
    pub(crate) fn ballot(&self) -> Option<Ballot> {
        self.ballot.filter(|_| self.ask == Ask::Mutex && self.at_least_ms == 0)
    }
}

/// The part of an acquire for a lock that a majority of nodes decides about, each with a
/// [`Lock`](crate::Lock) of its own. The node then issues tokens and places that the other nodes
/// are likely to issue too, keeps waiters in the order of their tickets, and takes back a vote that
/// blocks a lower ticket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ballot {
    /// Lower bound for token and ticket: the client's estimate of the nodes' clock.
    pub hint: u64,
    /// The ticket that the owner already has; `None` if the node assigns one.
    pub ticket: Option<u64>,
    /// Give up the grant with this number, and wait again.
    pub yields: Option<u64>,
}

/// The part of a renewal for a lock that a majority of nodes decides about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteBack {
    /// The number of the grant to renew. Any other grant stays as it is.
    pub number: u64,
    /// The token that the majority should agree on. The node adopts it if it is larger than its
    /// own.
    pub token: u64,
}

/// A grant as one node's vote, for a client that needs a majority of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// The number of the grant: the token as it was minted. Only a new grant changes it.
    pub number: u64,
    /// The ticket that its owner has on this node.
    pub ticket: u64,
    /// A waiter with a lower ticket wants it.
    pub inquired: bool,
}

/// A lock held until its deadline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The fencing token. `None` only from an engine whose protocol has no tokens.
    pub token: Option<Token>,
    /// How many consecutive tokens, beginning with this one, belong to the holder: 1 unless it
    /// asked for [`Ask::Turns`] or [`Ask::Stay`].
    pub tokens: u32,
    /// Its client keeps it ([`Ask::Stay`]), and another client waits for it.
    pub wanted: bool,
    /// Held while the engine's clock is below this.
    pub deadline_ms: u64,
    /// Which member, if the lock is a pool.
    pub member: Option<Member>,
    /// Set if the request had a [`Ballot`].
    pub vote: Option<Vote>,
}

/// A place in the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The number of this place, or its ticket if the request had a [`Ballot`]. Numbers only grow.
    pub number: u64,
    /// The number at the front of the queue.
    pub front: u64,
    /// When to ask again: no lease ends earlier, unless its holder gives it up.
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
    /// To an acquire that does not wait: another client holds or waits.
    Busy,
    /// To an acquire that does not wait: another client keeps it ([`Ask::Stay`]), perhaps unused, and
    /// was told that it is wanted. Nobody waits for it.
    Kept,
    /// To an acquire of a once: the work is done already.
    DoneBefore(Box<Completion>),
    /// To a refresh.
    Refreshed {
        /// How many of the client's places are in the queue.
        waiting: u32,
        /// The number at the front of the queue.
        front: u64,
        /// When to ask again: no lease ends earlier, unless its holder gives it up.
        recheck_ms: Option<u64>,
        /// Until when nobody is granted the lock, if its store may have forgotten a holder.
        quarantined_until_ms: Option<u64>,
        /// Grants that were handed to the client and that it has not renewed yet.
        granted: Vec<(Owner, Grant)>,
    },
    /// To a renewal: held until the new deadline.
    Renewed(Grant),
    /// To a renewal: the lock was broken.
    Revoked,
    /// To a release or a finish: the owner held it, and no longer does. Also to a finish that repeats what made the
    /// work done.
    Released,
    /// To a release: the owner waited, and no longer does.
    Left,
    /// To a renewal, a release or a finish: no such holder (and, for a release, no such waiter).
    NotHeld,
    /// To a break: how many holders were revoked or removed.
    Broken(u32),
    /// To a change of a pool, or to an undo: whether it changed anything.
    Changed(bool),
    /// Done; there is nothing else to say.
    Done,
    /// Nothing was changed, for this reason.
    Refused(Refusal),
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    /// The lock is in use as another kind.
    #[error("it is in use as a {0}")]
    KindMismatch(Kind),
    /// The queue is at its limit.
    #[error("its queue is full ({max} waiters)", max = crate::limits::QUEUE_MAX)]
    QueueFull,
    /// The pool has the largest number of members.
    #[error("the pool is full ({max} members)", max = crate::limits::MEMBERS_MAX)]
    PoolFull,
    /// The request came after its `not_after_ms`.
    #[error("the request came too late to be carried out")]
    TooLate,
    /// Nobody is granted the lock, because its store may have forgotten a holder.
    #[error("its store was restarted or failed over, and grants nothing until old leases are over")]
    Quarantined {
        /// Until this engine time.
        until_ms: u64,
    },
    /// The owner was cancelled before this request arrived.
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
    /// The work of a once failed as often as the request allows.
    #[error("its work failed {failed} times, and may not be tried again")]
    Exhausted {
        /// How often.
        failed: u32,
    },
    /// Terms that no once has.
    #[error(
        "a once remembers for 1 s to 31 days, a period begins within its length, and a pause lasts at most 24 h"
    )]
    InvalidTerms,
}

/// A message to a client whose waiter or holder was changed by another client's step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// The client to send it to.
    pub client: ClientId,
    /// The owner that it is about.
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
        /// The token with which the broken grant was minted; for a vote see [`Vote::number`].
        /// `None` only from an engine whose protocol has no tokens.
        token: Option<Token>,
    },
    /// The place is gone, for this reason.
    Refused(Refusal),
    /// A waiter with a lower ticket wants the grant with this number.
    Inquired {
        /// See [`Vote::number`].
        number: u64,
    },
    /// The work that it waited for is done.
    DoneBefore(Box<Completion>),
    /// Another client wants the lock that this one keeps ([`Ask::Stay`]).
    Wanted {
        /// The token with which it was granted.
        token: Token,
    },
}

/// The outcome of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// For the client that asked.
    pub reply: Reply,
    /// For other clients. Send them once the step is stored.
    pub wakes: Vec<Wake>,
    /// False for a release that was carried out without a look at the clock. Its reply says nothing
    /// about the engine's time.
    pub timed: bool,
    /// More can be handed over than one step may: send a [`Request::Tick`].
    pub more: bool,
    /// False if only the time of the last step changed. A replica may then skip this step.
    pub changed: bool,
}
