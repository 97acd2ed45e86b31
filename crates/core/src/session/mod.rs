//! Everything that a client knows, and all that it decides on its own: one pure state machine.
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
mod acquiring;
mod anchor;
mod backoff;
mod hold;
mod holds;
mod ids;
mod places;
mod queue;
mod release;
mod renewals;
mod sight;
mod timers;
mod turns;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::task::Waker;

pub use acquire::{AcquireNext, Acquired, Patience, Wanted};
pub use anchor::{Anchor, Anchors, Origin};
pub use backoff::Backoff;
pub use hold::{Hold, Loss, LossCause, Terms};
pub use holds::{GuardEnd, Renewal};
pub use places::Refresh;
pub use release::{ReleaseId, ReleaseNext, Released};
pub use turns::Turn;

use crate::limits;
use crate::{ClientId, Name, Owner, Reply, Token, WakeEvent};
use acquiring::Acquiring;
use ids::Ids;
use queue::Queue;
use release::Release;
use renewals::Kept;
use timers::{Timer, Timers};
use turns::{Course, Line};

/// All that one client knows.
#[derive(Debug)]
pub struct Session {
    client: ClientId,
    waiter_lease_ms: u64,
    anchors: Anchors,
    acquires: ByOwner<Acquiring>,
    releases: BTreeMap<ReleaseId, Release>,
    releases_ever: u64,
    holds: ByOwner<Kept>,
    ids: Ids,
    /// Of the locks that somebody waits for. Invariant: it has exactly the places that acquires have.
    queues: BTreeMap<Name, Queue>,
    lines: BTreeMap<Arc<Course>, Line>,
    timers: Timers,
    /// When the client looks at the timers again if nobody tells it to look sooner; 0 while it looks.
    looks_at_us: u64,
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

/// What the engine answered, and when.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What it said.
    pub reply: Reply,
    /// Whose clock it is.
    pub origin: Origin,
    /// What its clock showed.
    pub anchor: Anchor,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The request was not carried out, and can be sent again.
    NotDone,
    /// It may have been carried out, and can be sent again.
    Unknown,
    /// It was not carried out, and sending it again hardly helps.
    Broken,
    /// It was not carried out, and never will be.
    Unsupported,
}

/// What others have to be told. To be done once the session's mutex is released.
#[derive(Debug, Default)]
pub struct Effects {
    /// Tasks that have something to do.
    pub wakers: Vec<Waker>,
    /// What happened.
    pub events: Vec<Event>,
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
pub enum Event {
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

/// What has to be sent besides what operations ask for.
#[derive(Debug)]
pub enum Transmit {
    /// Renewals on one server, in one write.
    Renew(Vec<Renewal>),
    /// Refreshes of places.
    Refresh(Vec<Refresh>),
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

/// A waker that comes in, and the one that goes out for it. What is left here is dropped once the
/// session's mutex is released: a waker that is dropped may drop a task, which may come back.
#[derive(Debug, Default)]
pub struct Spare {
    fresh: Option<Waker>,
    old: Option<Waker>,
}

impl Spare {
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
            releases: BTreeMap::new(),
            releases_ever: 0,
            holds: HashMap::default(),
            ids: Ids::default(),
            queues: BTreeMap::new(),
            lines: BTreeMap::new(),
            timers: Timers::default(),
            looks_at_us: 0,
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

    /// Takes an answer's time into account. A clock that has gone further than time can have was set
    /// forward, and leases there may have ended before their holders could know.
    pub fn observe(&mut self, now_us: u64, origin: Origin, anchor: Anchor) {
        if self.anchors.observe(origin, anchor, now_us) {
            return;
        }
        self.effects.events.push(Event::ClockSet);
        let there = self.holds.iter().filter(|(_, kept)| kept.source == origin.source);
        for owner in there.map(|(owner, _)| *owner).collect::<BTreeSet<_>>() {
            self.lose(now_us, owner, LossCause::ClockSet);
        }
    }

    /// The engine pushed a wake-up for one of this client's owners.
    pub fn handle_wake(&mut self, now_us: u64, owner: Owner, event: WakeEvent, origin: Origin) {
        match event {
            WakeEvent::Granted(grant) => self.handle_granted(owner, grant, origin),
            WakeEvent::Refused(refusal) => self.handle_refused(owner, refusal),
            // To an engine that is made of others, and goes no further than it.
            WakeEvent::Inquired { .. } => {}
            WakeEvent::Revoked { token } => self.handle_revocation(now_us, owner, token),
        }
    }

    fn handle_revocation(&mut self, now_us: u64, owner: Owner, token: Option<Token>) {
        match self.holds.get(&owner) {
            Some(kept) if kept.hold.is_of(token) => self.lose(now_us, owner, LossCause::Revoked),
            Some(_) => {}
            None => self.handle_revoked(owner, token),
        }
    }

    /// The engine has found out that this owner holds its lock no more.
    pub fn handle_gone(&mut self, now_us: u64, owner: Owner) {
        self.lose(now_us, owner, LossCause::Gone);
    }

    /// Does what is due by now.
    pub fn handle_timeout(&mut self, now_us: u64) {
        self.looks_at_us = 0;
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
        let releases = self.releases.values_mut().filter_map(Release::take_waker);
        self.effects.wakers.extend(acquires.chain(releases));
        for owner in self.holds.keys().copied().collect::<BTreeSet<_>>() {
            if let Some(kept) = self.forget(owner) {
                self.report(&kept.hold, kept.hold.lose(now_us, LossCause::Unattended));
            }
        }
    }

    /// Hands out what others have to be told; `None` if nothing.
    pub fn take_effects(&mut self) -> Option<Effects> {
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
        let first_us = self.timers.first_us();
        self.looks_at_us = first_us.unwrap_or(u64::MAX);
        first_us
    }

    fn look_sooner(&mut self) {
        if self.timers.first_us().is_some_and(|first_us| first_us < self.looks_at_us) {
            self.effects.look = true;
            self.looks_at_us = 0;
        }
    }
}

/// Owners are random, so their own bits do as a hash. The order is the same in every run of a
/// simulation.
type ByOwner<T> = HashMap<Owner, T, BuildHasherDefault<OwnBits>>;

#[derive(Debug, Default)]
struct OwnBits(u64);

impl Hasher for OwnBits {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, bits: u128) {
        self.0 = (bits >> 64) as u64 ^ bits as u64;
    }
}

/// Random numbers for pauses. They spread clients, and are no secret.
#[derive(Debug)]
struct Jitter(u64);

impl Jitter {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
