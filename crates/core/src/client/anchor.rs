//! From the engine's clock to the local one.
//!
//! ```text
//!   local    s ─── request ───►         reply
//!   engine            n: "it is n now, your deadline is D"
//!
//!   The engine said n no earlier than s, so at local s + (D − n) its clock shows at most D.
//! ```

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

    /// The engine's time at a local one, as far as it can be known. For `not_after`, where a few
    /// milliseconds do not matter.
    pub fn engine_ms_at(&self, local_us: u64) -> u64 {
        self.engine_ms.saturating_add(local_us.saturating_sub(self.sent_us) / 1_000)
    }
}

/// The newest anchor of the present connection and server run. A wake-up is never one: how long it
/// was under way can't be known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Anchors {
    newest: Option<(u64, Anchor)>,
}

impl Anchors {
    /// Takes a reply into account. `epoch` changes whenever the connection or the server's run does.
    pub fn observe(&mut self, epoch: u64, anchor: Anchor) {
        match self.newest {
            Some((known, newest)) if known == epoch && newest.sent_us >= anchor.sent_us => {}
            Some((known, _)) if known > epoch => {}
            _ => self.newest = Some((epoch, anchor)),
        }
    }

    /// The newest anchor, if it is of this epoch.
    pub fn newest(&self, epoch: u64) -> Option<Anchor> {
        self.newest.filter(|(known, _)| *known == epoch).map(|(_, anchor)| anchor)
    }

    /// The newest anchor, whichever its epoch.
    pub fn latest(&self) -> Option<Anchor> {
        self.newest.map(|(_, anchor)| anchor)
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
    fn only_the_newest_of_the_same_epoch_counts() {
        let at = |sent_us| Anchor { sent_us, engine_ms: 1 };
        let mut anchors = Anchors::default();
        assert_eq!(anchors.latest(), None);
        anchors.observe(1, at(10));
        anchors.observe(1, at(5));
        assert_eq!(anchors.newest(1), Some(at(10)));
        anchors.observe(1, at(11));
        assert_eq!(anchors.newest(1), Some(at(11)));
        assert_eq!(anchors.newest(2), None);
        anchors.observe(2, at(3));
        assert_eq!(anchors.newest(2), Some(at(3)));
        assert_eq!(anchors.newest(1), None);
        anchors.observe(1, at(99));
        assert_eq!(anchors.newest(2), Some(at(3)), "an older epoch does not come back");
        assert_eq!(anchors.latest(), Some(at(3)));
    }
}
