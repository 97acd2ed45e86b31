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

#[cfg(test)]
mod tests {
    use super::*;

    const ANCHOR: Anchor = Anchor { sent_us: 5_000_000, engine_ms: 700 };

    #[test]
    fn a_grant_is_valid_from_the_sending_less_one_percent_and_two_milliseconds() {
        assert_eq!(ANCHOR.valid_until_us(10_700), 5_000_000 + 10_000_000 - 100_000 - 2_000);
    }

    #[test]
    fn a_deadline_in_the_past_was_never_valid() {
        assert_eq!(ANCHOR.valid_until_us(600), ANCHOR.sent_us);
        assert_eq!(ANCHOR.valid_until_us(701), ANCHOR.sent_us);
    }

    #[test]
    fn absurd_deadlines_do_not_overflow() {
        assert!(ANCHOR.valid_until_us(u64::MAX) > ANCHOR.sent_us);
        assert_eq!(ANCHOR.surely_passed_us(1, u64::MAX), u64::MAX);
    }

    #[test]
    fn a_time_has_surely_passed_a_margin_after_the_reply() {
        assert_eq!(
            ANCHOR.surely_passed_us(5_001_000, 1_700),
            5_001_000 + 1_000_000 + 10_000 + 2_000
        );
        assert_eq!(ANCHOR.surely_passed_us(5_001_000, 0), 5_003_000);
    }

    #[test]
    fn the_engines_time_is_guessed_from_the_anchor() {
        assert_eq!(ANCHOR.engine_ms_at(5_250_000), 950);
        assert_eq!(ANCHOR.engine_ms_at(0), 700);
    }

    #[test]
    fn only_the_newest_of_the_same_origin_counts() {
        let at = |sent_us| Anchor { sent_us, engine_ms: 1 };
        let origin = |source, epoch| Origin { source, epoch };
        let mut anchors = Anchors::default();
        let mut observe = |source, epoch, sent_us| {
            assert!(anchors.observe(origin(source, epoch), at(sent_us), 100));
            anchors.clone()
        };
        observe(0, 1, 10);
        assert_eq!(observe(0, 1, 5).newest(0), Some((origin(0, 1), at(10))));
        let anchors = observe(0, 1, 11);
        assert_eq!(anchors.newest(0), Some((origin(0, 1), at(11))));
        assert_eq!((anchors.newest(1), anchors.latest(1)), (None, Some(at(11))));
        assert_eq!(Anchors::default().latest(1), None);
        let anchors = observe(0, 2, 3);
        assert_eq!(anchors.newest(0), Some((origin(0, 2), at(3))));
        let anchors = observe(0, 1, 99);
        let newest = Some((origin(0, 2), at(3)));
        assert_eq!(anchors.newest(0), newest, "an older epoch does not come back");
        let anchors = observe(7, 1, 50);
        assert_eq!((anchors.latest(0), anchors.latest(7)), (Some(at(3)), Some(at(50))));
    }

    #[test]
    fn a_clock_that_goes_further_than_time_was_set() {
        let origin = Origin::default();
        let observe = |received_us, engine_ms| {
            let mut anchors = Anchors::default();
            assert!(anchors.observe(origin, ANCHOR, 0));
            let sent_us = received_us - 1;
            anchors.observe(origin, Anchor { sent_us, engine_ms }, received_us)
        };
        // 10 s later by our clock, and 1 % and 2 ms more by the engine's: no more than it may.
        assert!(observe(15_000_000, 700 + 10_000 + 100 + 2));
        assert!(!observe(15_000_000, 700 + 10_000 + 100 + 3));
        assert!(observe(15_000_000, 1), "set back costs nobody its lease");
        let mut anchors = Anchors::default();
        anchors.observe(origin, ANCHOR, 0);
        let elsewhere = Origin { epoch: 1, ..origin };
        let far = Anchor { sent_us: ANCHOR.sent_us, engine_ms: 99_999_999 };
        assert!(anchors.observe(elsewhere, far, ANCHOR.sent_us), "another run, another clock");
    }
}
