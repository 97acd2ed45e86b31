//! From the engine's clock to the local one.
//!
//! ```text
//!   local    s ─── request ───►         reply
//!   engine            n: "it is n now, your deadline is D"
//!
//!   The engine said n no earlier than s, so at local s + (D − n) its clock shows at most D.
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::{LossCause, Session, SessionEvent};

/// 1 % for clocks that run at different speeds.
const DRIFT_DIVISOR: u64 = 100;
/// 2 ms for both ends rounding to the millisecond.
const ROUNDING_US: u64 = 2_000;

/// How many earlier servers and connections an acquire remembers the clocks of.
const EARLIER_MAX: usize = 8;

/// One exchange with the engine that ties its clock to ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Local time when the request was *sent*.
    pub sent_us: u64,
    /// The engine's time in its reply.
    pub engine_ms: u64,
}

impl Anchor {
    /// The local time until which a grant with this engine deadline may be relied on: never later
    /// than the deadline itself, and earlier by the margin for drift and rounding.
    pub fn valid_until_us(&self, deadline_ms: u64) -> u64 {
        let span_us = deadline_ms.saturating_sub(self.engine_ms).saturating_mul(1_000);
        let margin_us = span_us / DRIFT_DIVISOR + ROUNDING_US;
        self.sent_us.saturating_add(span_us.saturating_sub(margin_us))
    }

    /// A local time at which the engine's clock will have passed this time, if the reply came at
    /// `received_us`.
    pub fn surely_passed_us(&self, received_us: u64, engine_ms: u64) -> u64 {
        let span_us = engine_ms.saturating_sub(self.engine_ms).saturating_mul(1_000);
        let margin_us = span_us / DRIFT_DIVISOR + ROUNDING_US;
        received_us.saturating_add(span_us).saturating_add(margin_us)
    }

    /// Could the engine's clock have come to show this by a local time, if nobody set it?
    fn could_show(&self, engine_ms: u64, local_us: u64) -> bool {
        let passed_us = local_us.saturating_sub(self.sent_us);
        let at_most_us = passed_us.saturating_add(passed_us / DRIFT_DIVISOR + ROUNDING_US);
        engine_ms.saturating_sub(self.engine_ms).saturating_mul(1_000) <= at_most_us
    }

    /// The engine's time at a local one, as far as it can be known. For `not_after`, where a few
    /// milliseconds do not matter.
    pub fn engine_ms_at(&self, local_us: u64) -> u64 {
        self.engine_ms.saturating_add(local_us.saturating_sub(self.sent_us) / 1_000)
    }
}

/// Whose time it is. Times of different origins can't be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Which of an engine's servers. One that is alone is 0.
    pub source: u64,
    /// Changes, always upwards, whenever the connection to that server or its run does.
    pub epoch: u64,
}

impl Origin {
    /// Of a wake-up whose server or connection is not known: no answer ever has it, so a grant that comes with it has
    /// to be confirmed.
    pub const UNKNOWN: Self = Self { source: 0, epoch: u64::MAX };
}

/// The newest anchor of each server's present connection and run. A wake-up is never one: how long
/// it was under way can't be known.
#[derive(Clone, Debug, Default)]
pub struct Anchors {
    newest: BTreeMap<u64, (u64, Anchor)>,
}

impl Anchors {
    /// Takes a reply that came at `received_us` into account. False if the engine's clock has gone
    /// further since the anchor before than time can have: it was set forward, and leases ended
    /// before their holders could know.
    pub fn observe(&mut self, origin: Origin, anchor: Anchor, received_us: u64) -> bool {
        match self.newest.get(&origin.source) {
            Some(&(epoch, newest)) if epoch == origin.epoch => {
                if newest.sent_us < anchor.sent_us {
                    self.newest.insert(origin.source, (epoch, anchor));
                }
                newest.could_show(anchor.engine_ms, received_us)
            }
            Some(&(epoch, _)) if epoch > origin.epoch => true,
            _ => {
                self.newest.insert(origin.source, (origin.epoch, anchor));
                true
            }
        }
    }

    /// The newest anchor of this source, and its origin.
    pub fn newest(&self, source: u64) -> Option<(Origin, Anchor)> {
        self.newest.get(&source).map(|&(epoch, anchor)| (Origin { source, epoch }, anchor))
    }

    /// The newest anchor of this source, whichever its epoch; of another, if none is known: clocks
    /// of one store's servers mostly agree.
    pub fn latest(&self, source: u64) -> Option<Anchor> {
        let any = || self.newest.values().next();
        self.newest.get(&source).or_else(any).map(|&(_, anchor)| anchor)
    }
}

impl Session {
    /// Takes an answer's time into account. A clock that has gone further than time can have was set
    /// forward, and leases there may have ended before their holders could know.
    pub fn observe(&mut self, now_us: u64, origin: Origin, anchor: Anchor) {
        if self.anchors.observe(origin, anchor, now_us) {
            return;
        }
        self.effects.events.push(SessionEvent::ClockSet);
        let there = self.holds.iter().filter(|(_, held)| held.source == origin.source);
        for owner in there.map(|(owner, _)| *owner).collect::<BTreeSet<_>>() {
            self.lose(now_us, owner, LossCause::ClockSet);
        }
    }
}

/// What one acquire knows of the engine's clocks before it can have been granted. It chooses the [`Anchor`]
/// that turns a wake-up's deadline into local time.
///
/// Nobody knows how long a wake-up was under way, and the engine's clock may have been set meanwhile. If the
/// clock was set back, the newest anchor makes the grant too long, and two clients would hold; an anchor
/// older than the grant makes it shorter. If the clock was set forward before the grant, it is the other way
/// round. So both are used, and the shorter result counts.
///
/// An answer needs none of this, unless it tells of a grant that another server made: the one that a replica
/// has replaced. That server may have ended the grant by its own clock and granted the lock to another
/// client, and the replica may have missed it. So the clocks of earlier servers count too.
#[derive(Clone, Debug, Default)]
pub(super) struct WakeAnchor {
    before: Option<(Origin, Anchor)>,
    asked: bool,
    /// Asked more than once: it may have been granted before without knowing, and wait anew.
    again: bool,
    /// The last origin that is known not to have found it granted already: whatever it is granted there was
    /// granted there.
    home: Option<Origin>,
    /// The last origin at which it asked or waited, and the newest anchor there.
    latest: Option<(Origin, Anchor)>,
    /// The same of origins before it. Most acquires know one, and need no memory for this.
    earlier: Vec<(Origin, Anchor)>,
}

impl WakeAnchor {
    /// The acquire is about to be sent. An anchor known by then predates any grant, but only the first time.
    pub(super) fn handle_asking(&mut self, known: Option<(Origin, Anchor)>) {
        if let Some((origin, anchor)) = known {
            self.note_clock(origin, anchor);
        }
        if self.asked {
            (self.again, self.before) = (true, None);
        } else {
            (self.asked, self.before) = (true, known);
        }
    }

    /// The engine said that it has nothing of the acquire, which was sent once: it starts as if never sent.
    pub(super) fn handle_turned_away(&mut self) {
        self.asked &= self.again;
    }

    /// The engine said that it waits: it was not granted before that.
    pub(super) fn handle_waiting(&mut self, origin: Origin, anchor: Anchor) {
        self.note_clock(origin, anchor);
        self.home = Some(origin);
        if !self.again {
            self.before = Some((origin, anchor));
        }
    }

    /// A wake-up granted it the lock: it is sent when the grant is made. One of unknown origin says nothing of
    /// where that was.
    pub(super) fn handle_wake(&mut self, origin: Origin) {
        let is_old = |home: Origin| home.source == origin.source && home.epoch > origin.epoch;
        if origin != Origin::UNKNOWN && !self.home.is_some_and(is_old) {
            self.home = Some(origin);
        }
    }

    /// An acquire was answered that it is granted. The first one that was sent can't have been before.
    pub(super) fn handle_answered(&mut self, origin: Origin) {
        if !self.again {
            self.home = Some(origin);
        }
    }

    /// May a grant that this origin tells of have been made by another, which has perhaps ended it since?
    pub(super) fn is_from_elsewhere(&self, origin: Origin) -> bool {
        self.home != Some(origin) && self.elsewhere(origin).next().is_some()
    }

    /// Returns the anchor that judges a grant until `deadline_ms`, if an answer of that origin told of it: `told` is
    /// that answer's own anchor.
    pub(super) fn shortest(&self, origin: Origin, told: Anchor, deadline_ms: u64) -> Anchor {
        let elsewhere = self.elsewhere(origin).filter(|_| self.is_from_elsewhere(origin));
        elsewhere.fold(told, |shortest, anchor| {
            let [one, other] = [shortest, anchor].map(|anchor| anchor.valid_until_us(deadline_ms));
            if other < one { anchor } else { shortest }
        })
    }

    fn elsewhere(&self, origin: Origin) -> impl Iterator<Item = Anchor> {
        let clocks = self.latest.iter().chain(&self.earlier);
        clocks.filter(move |(of, _)| *of != origin).map(|(_, anchor)| *anchor)
    }

    fn note_clock(&mut self, origin: Origin, anchor: Anchor) {
        let mut clocks = self.latest.iter_mut().chain(&mut self.earlier);
        if let Some((_, newest)) = clocks.find(|(of, _)| *of == origin) {
            if newest.sent_us < anchor.sent_us {
                *newest = anchor;
            }
            return;
        }
        if let Some(latest) = self.latest.replace((origin, anchor)) {
            if self.earlier.len() == EARLIER_MAX {
                self.earlier.remove(0);
            }
            self.earlier.push(latest);
        }
    }

    /// Returns the anchor for a wake-up of that origin that grants until `deadline_ms`; `newest` is the newest
    /// anchor known now. With `None` the client has to ask how long the grant is good for.
    pub(super) fn anchor(
        &self,
        origin: Origin,
        newest: Option<(Origin, Anchor)>,
        deadline_ms: u64,
    ) -> Option<Anchor> {
        let of_origin = |known: Option<(Origin, Anchor)>| {
            known.filter(|(of, _)| *of == origin).map(|(_, anchor)| anchor)
        };
        let both = [of_origin(self.before)?, of_origin(newest)?];
        both.into_iter().min_by_key(|anchor| anchor.valid_until_us(deadline_ms))
    }
}

#[cfg(test)]
mod tests;
