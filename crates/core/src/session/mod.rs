//! The client as one pure state machine: everything that it knows, and all that it decides on its own.
//!
//! ```text
//!      begin_acquire, begin_release, release,        handle_acquire_answer, handle_release_answer,
//!      cancel_acquire, adopt …                       handle_renewal, handle_refresh, handle_wake,
//!                 │                                  handle_doubt, handle_timeout
//!                 ▼                                                   │
//!   ┌──────────────────────────────── Session ────────────────────────▼───────┐
//!   │ acquires · releases · holds · places in queues · turns · anchors · timers │
//!   └──────┬───────────────────────────┬──────────────────────────┬────────────┘
//!   poll_acquire, poll_release    take_effects,               poll_timeout
//!   what one operation needs      take_transmits              the one time at which
//!   next                          tasks to wake, what to tell handle_timeout is due
//! ```
//!
//! It does no I/O, reads no clock and calls nobody: wakers, events and requests are handed out, to be
//! used once the session's mutex is released. An operation is named by its owner, which is never used
//! twice, so a late answer can't reach another operation.
//!
//! Local times are microseconds on any clock of the client's that never goes back and does not stop
//! while the machine sleeps. Engine times are milliseconds on the engine's clock. Only an [`Anchor`]
//! turns one into the other.

mod acquire;
mod acquire_state;
mod anchor;
mod hold;
mod holds;
mod places;
mod release;
mod timers;
mod turns;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::task::Waker;

pub use acquire::{AcquireAction, AcquireOutcome, AcquireSpec, WaitLimit};
pub use anchor::{Anchor, Anchors, Origin};
pub use hold::{Hold, HoldTerms, Loss, LossCause};
pub use holds::{GuardEnd, HoldRenewal};
pub use places::PlaceRefresh;
pub use release::{ReleaseAction, ReleaseId, ReleaseOutcome};
pub use timers::Backoff;
pub use turns::LocalTurn;

use crate::limits;
use crate::wire::{parse_public_id, public_id_bits};
use crate::{ClientId, Name, Owner, Reply};
use acquire_state::AcquireState;
use holds::HeldLock;
use places::PlaceSet;
use release::ReleaseState;
use timers::{Jitter, Timer, Timers};
use turns::{TurnGroup, TurnQueue};

/// All that one client knows.
#[derive(Debug)]
pub struct Session {
    client: ClientId,
    waiter_lease_ms: u64,
    anchors: Anchors,
    acquires: OwnerMap<AcquireState>,
    releases: HashMap<ReleaseId, ReleaseState, BuildHasherDefault<OwnHasher>>,
    releases_ever: u64,
    holds: OwnerMap<HeldLock>,
    ids: PublicIds,
    /// Of the locks that somebody waits for. Invariant: it has exactly the places that acquires have.
    places: BTreeMap<Name, PlaceSet>,
    turn_queues: BTreeMap<Arc<TurnGroup>, TurnQueue>,
    timers: Timers,
    jitter: Jitter,
    effects: Effects,
    transmits: Vec<Transmit>,
    /// When something was last in doubt: a place that is answered for later may be too.
    doubted_us: Option<u64>,
    /// The client ends once nothing is released any more.
    is_closing: bool,
    /// Nobody looks at the timers any more.
    is_unattended: bool,
}

/// A reply of the engine, with the time at which it was true.
#[derive(Clone, Debug)]
pub struct TimedReply {
    /// What it said.
    pub reply: Reply,
    /// Whose clock it is.
    pub origin: Origin,
    /// What its clock showed.
    pub anchor: Anchor,
}

/// Why a call to the engine was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// The request was not carried out, and can be sent again.
    NotDone,
    /// It may have been carried out, and can be sent again.
    Unknown,
    /// It was not carried out, and sending it again hardly helps.
    Broken,
    /// It was not carried out, and never will be.
    Unsupported,
}

/// What a step leaves to be done once the session's mutex is released.
#[derive(Debug, Default)]
pub struct Effects {
    /// Tasks that have something to do.
    pub wakers: Vec<Waker>,
    /// What happened.
    pub events: Vec<SessionEvent>,
    /// The timers have to be looked at.
    pub look: bool,
}

impl Effects {
    fn is_empty(&self) -> bool {
        let Self { wakers, events, look } = self;
        wakers.is_empty() && events.is_empty() && !look
    }
}

/// What happened, for logs and metrics.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SessionEvent {
    /// A held lock is lost. Those who watch it have to be told.
    Lost {
        /// Which.
        hold: Arc<Hold>,
        /// Why.
        cause: LossCause,
    },
    /// The clock of a server was set forward: what is held there counts as lost.
    ClockSet,
    /// A lock that is waited for is in quarantine.
    Quarantined {
        /// Which.
        lock: Name,
        /// For how long.
        left_ms: u64,
    },
    /// An acquire was given a place.
    Queued {
        /// How many wait ahead of it.
        ahead: u64,
    },
    /// A place had lapsed, and the acquire waits again at the tail.
    Rejoined {
        /// For which lock.
        lock: Name,
    },
}

/// A request to send besides those that operations ask for.
#[derive(Debug)]
pub enum Transmit {
    /// Renewals on one server, in one write.
    Renew(Vec<HoldRenewal>),
    /// Refreshes of places.
    Refresh(Vec<PlaceRefresh>),
    /// A release that the session began by itself, to be polled to its end.
    Release {
        /// The lock.
        lock: Name,
        /// Which.
        id: ReleaseId,
        /// Whose.
        owner: Owner,
    },
}

/// Exchanges an operation's waker: the new one goes in, the old one comes out. The old one is dropped once
/// the session's mutex is released, since dropping a waker may drop a task, which may call the session.
#[derive(Debug, Default)]
pub struct WakerSwap {
    fresh: Option<Waker>,
    old: Option<Waker>,
}

impl WakerSwap {
    /// Of a waker that was cloned before the session's mutex was locked.
    pub fn new(fresh: Waker) -> Self {
        Self { fresh: Some(fresh), old: None }
    }

    fn store(&mut self, waker: &mut Option<Waker>) {
        if let Some(fresh) = self.fresh.take() {
            self.old = waker.replace(fresh);
        }
    }
}

impl Session {
    /// Starts without any operation. `seed` spreads the pauses of many clients.
    pub fn new(client: ClientId, seed: u64) -> Self {
        Self {
            client,
            waiter_lease_ms: limits::WAITER_LEASE_MS_DEFAULT,
            anchors: Anchors::default(),
            acquires: HashMap::default(),
            releases: HashMap::default(),
            releases_ever: 0,
            holds: HashMap::default(),
            ids: PublicIds::default(),
            places: BTreeMap::new(),
            turn_queues: BTreeMap::new(),
            timers: Timers::default(),
            jitter: Jitter(seed),
            effects: Effects::default(),
            transmits: Vec::new(),
            doubted_us: None,
            is_closing: false,
            is_unattended: false,
        }
    }

    /// How long a place lasts without a refresh, from now on.
    pub fn set_waiter_lease_ms(&mut self, waiter_lease_ms: u64) {
        self.waiter_lease_ms = waiter_lease_ms;
    }

    /// The engine has found out that this owner holds its lock no more.
    pub fn handle_gone(&mut self, now_us: u64, owner: Owner) {
        self.lose(now_us, owner, LossCause::Gone);
    }

    /// Does what is due by now.
    pub fn handle_timeout(&mut self, now_us: u64) {
        self.timers.begin_look();
        let due: Vec<Timer> = self.timers.due(now_us).map(|(_, timer)| timer.clone()).collect();
        let (mut renews, mut refreshes) = (false, false);
        for timer in due {
            match timer {
                Timer::Acquire(owner) => self.wake_acquire(owner),
                Timer::Release(id) => self.wake_release(id),
                Timer::Hold(_) => renews = true,
                Timer::Queue(_) => refreshes = true,
            }
        }
        if renews {
            self.renew(now_us);
        }
        if refreshes {
            self.refresh(now_us);
        }
    }

    /// Nobody looks at the timers any more. Nobody would say when something is lost: so all of it is, now.
    /// What would have to wait for a timer fails.
    pub fn handle_unattended(&mut self, now_us: u64) {
        self.is_unattended = true;
        let acquires = self.acquires.values_mut().filter_map(|acquire| acquire.waker.take());
        let releases = self.releases.values_mut().filter_map(ReleaseState::take_waker);
        self.effects.wakers.extend(acquires.chain(releases));
        for owner in self.holds.keys().copied().collect::<BTreeSet<_>>() {
            if let Some(held) = self.forget(owner) {
                self.report(&held.hold, held.hold.lose(now_us, LossCause::Unattended));
            }
        }
    }

    /// Hands out what others have to be told; `None` if nothing.
    pub fn take_effects(&mut self) -> Option<Effects> {
        self.effects.look |= self.timers.take_sooner();
        (!self.effects.is_empty()).then(|| std::mem::take(&mut self.effects))
    }

    /// Is there something that the client has to send?
    pub fn has_transmits(&self) -> bool {
        !self.transmits.is_empty()
    }

    /// Hands out what the client has to send.
    pub fn take_transmits(&mut self) -> Vec<Transmit> {
        std::mem::take(&mut self.transmits)
    }

    /// When [`Self::handle_timeout`] is due. From now on [`Effects::look`] says if it is due sooner.
    pub fn poll_timeout(&mut self) -> Option<u64> {
        self.timers.end_look()
    }
}

/// A table of the operations under way: it keeps its room, while a tree would allocate a node for the first and free
/// it with the last. The order is the same in every run of a simulation.
type OwnerMap<T> = HashMap<Owner, T, BuildHasherDefault<OwnHasher>>;

/// Owners are random, so their own bits do as a hash. Numbers of releases are spread.
#[derive(Debug, Default)]
struct OwnHasher(u64);

impl Hasher for OwnHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, bits: u64) {
        self.0 = bits.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_u128(&mut self, bits: u128) {
        self.0 = (bits >> 64) as u64 ^ bits as u64;
    }
}

/// Public ids of owners: the hash by which an engine names an owner to others. They are made only for owners that are
/// given a place, and for others when somebody asks, since most owners are never sent a message.
///
/// Invariant: an owner that acquires or holds has its id noted with that and in `named`, or is in `unnamed`.
#[derive(Debug, Default)]
struct PublicIds {
    named: HashMap<u64, Owner, BuildHasherDefault<OwnHasher>>,
    /// Those without an id, in the order in which they began; some are over by now, or were named since.
    unnamed: VecDeque<Owner>,
    /// The engine's messages name owners by their ids.
    are_sent: bool,
}

/// Owners that are over are cleared away once there are more of them than of others, and a few.
const OVER_MAX: usize = 64;

impl Session {
    /// The engine's messages name owners by their public ids. From now on each owner is hashed when it is given a place,
    /// so that the first message does not wait until all of them are.
    pub fn name_owners(&mut self) {
        self.ids.are_sent = true;
    }

    /// Whose public id that is, and the lock that it wants or holds. Each owner is hashed once at most, however
    /// many ask.
    pub fn find_owner(&mut self, id: &str) -> Option<(Owner, Name)> {
        let id = parse_public_id(id)?;
        let owner = match self.ids.named.get(&id) {
            Some(owner) => *owner,
            None => {
                std::mem::take(&mut self.ids.unnamed).into_iter().for_each(|it| self.make_id(it));
                *self.ids.named.get(&id)?
            }
        };
        let (lock, _) = self.noted_id(owner)?;
        Some((owner, lock.clone()))
    }

    fn make_id(&mut self, owner: Owner) {
        if let Some((_, noted)) = self.noted_id(owner)
            && noted.is_none()
        {
            let id = public_id_bits(owner);
            *noted = Some(id);
            self.ids.named.insert(id, owner);
        }
    }

    /// An owner was given a place, so it will be sent a message.
    fn name_waiter(&mut self, owner: Owner) {
        if !self.ids.are_sent {
            return;
        }
        self.make_id(owner);
        // Most are given their places in the order in which they asked.
        while let Some(first) = self.ids.unnamed.front().copied()
            && !matches!(self.noted_id(first), Some((_, None)))
        {
            self.ids.unnamed.pop_front();
        }
    }

    /// How many owners acquire or hold.
    pub fn owner_count(&self) -> usize {
        self.acquires.len() + self.holds.len()
    }

    /// Does this owner acquire?
    pub fn is_acquiring(&self, owner: Owner) -> bool {
        self.acquires.contains_key(&owner)
    }

    /// Does this owner acquire or hold, or is it about to be released?
    pub fn has_owner(&self, owner: Owner) -> bool {
        self.is_live(owner) || self.releases.values().any(|release| release.owner == owner)
    }

    fn is_live(&self, owner: Owner) -> bool {
        self.acquires.contains_key(&owner) || self.holds.contains_key(&owner)
    }

    /// From now on an owner acquires or holds.
    pub(super) fn note_owner(&mut self, owner: Owner) {
        if self.ids.unnamed.len() >= 2 * self.owner_count() + OVER_MAX {
            let unnamed = std::mem::take(&mut self.ids.unnamed);
            // A handle may be adopted again and again.
            let mut known = BTreeSet::new();
            let is_needed = |owner: &Owner| self.is_live(*owner) && known.insert(*owner);
            self.ids.unnamed = unnamed.into_iter().filter(is_needed).collect();
        }
        self.ids.unnamed.push_back(owner);
    }

    /// An owner with this id is over.
    pub(super) fn forget_id(&mut self, id: Option<u64>) {
        if let Some(id) = id {
            self.ids.named.remove(&id);
        }
    }

    fn noted_id(&mut self, owner: Owner) -> Option<(&Name, &mut Option<u64>)> {
        if let Some(acquire) = self.acquires.get_mut(&owner) {
            return Some((&acquire.spec.terms.lock, &mut acquire.id));
        }
        let held = self.holds.get_mut(&owner)?;
        Some((held.hold.name(), &mut held.id))
    }
}

#[cfg(test)]
mod tests;
