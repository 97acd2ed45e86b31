//! A held lock as its client sees it: when to renew, and from when on it counts as lost.
//!
//! ```text
//!   granted          renew at a third                       lost, for good
//!   ├────────────────────┼────────────────────────────────────────┤ · · · ┤ engine's deadline
//!                        └─ fails: again and again, with pauses ──►
//! ```

use super::{Anchor, Backoff};
use crate::limits;

/// A renewal comes early by no more than this part of what is left.
const EARLY_PART: u64 = 16;

/// Why a lock counts as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LossCause {
    /// The lease ran out before it could be renewed.
    #[error("its lease ran out before it could be renewed")]
    Expired,
    /// The engine no longer knows of the grant.
    #[error("the store no longer knows of it")]
    Gone,
    /// Somebody broke the lock.
    #[error("somebody broke it")]
    Revoked,
    /// It was held for as long as it was allowed to.
    #[error("it was held for as long as max_hold allows")]
    MaxHold,
    /// The store's clock was set forward, so its lease may have ended early.
    #[error("the clock of the store was set forward, so its lease may be over")]
    ClockSet,
    /// The runtime that renewed it has ended.
    #[error("the runtime that renewed it has ended")]
    Unattended,
}

/// What a hold needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing until this local time.
    Wait {
        /// When to ask again.
        until_us: u64,
    },
    /// Send a renewal for this long. Until it is answered nothing else is due but being lost.
    Renew {
        /// How long.
        lease_ms: u64,
    },
    /// It is over.
    Lost(LossCause),
}

/// One held lock. Lost is final: nothing that comes later brings it back.
#[derive(Clone, Debug)]
pub struct Hold {
    lease_ms: u64,
    valid_until_us: u64,
    renew_at_us: u64,
    end_us: Option<u64>,
    backoff: Backoff,
    lost: Option<LossCause>,
}

impl Hold {
    /// A grant that is valid until a local time, taken at `now_us`. With `max_hold_us` it is not
    /// renewed past that time from now.
    pub fn new(now_us: u64, valid_until_us: u64, lease_ms: u64, max_hold_us: Option<u64>) -> Self {
        let mut hold = Self {
            lease_ms,
            valid_until_us,
            renew_at_us: 0,
            end_us: max_hold_us.map(|max_hold_us| now_us.saturating_add(max_hold_us)),
            backoff: Backoff::default(),
            lost: None,
        };
        hold.extend(now_us, valid_until_us);
        hold
    }

    /// Is it lost, and why? From its local deadline on it is, whatever else happens.
    pub fn lost(&mut self, now_us: u64) -> Option<LossCause> {
        if self.lost.is_none() && now_us >= self.valid_until_us {
            let at_end = self.end_us.is_some_and(|end_us| self.valid_until_us >= end_us);
            self.lost = Some(if at_end { LossCause::MaxHold } else { LossCause::Expired });
        }
        self.lost
    }

    /// The local time at which it counts as lost unless it is renewed.
    pub fn valid_until_us(&self) -> u64 {
        self.valid_until_us
    }

    /// What is due now?
    pub fn poll(&mut self, now_us: u64) -> Due {
        self.poll_early(now_us, 0)
    }

    /// The same, but a renewal that is due within `by_us` is due now, unless that is much of what is
    /// left: so that many can be renewed together.
    pub fn poll_early(&mut self, now_us: u64, by_us: u64) -> Due {
        if let Some(cause) = self.lost(now_us) {
            return Due::Lost(cause);
        }
        let left_us = self.valid_until_us - now_us;
        let by_us = by_us.min(left_us / EARLY_PART);
        if self.renew_at_us > now_us + by_us || self.renew_at_us >= self.valid_until_us {
            return Due::Wait { until_us: self.renew_at_us.min(self.valid_until_us) };
        }
        Due::Renew { lease_ms: self.lease_from(now_us) }
    }

    /// A renewal sent at `anchor.sent_us` was granted. False if it came too late: the lock is lost
    /// already, and has to be released.
    pub fn handle_renewed(&mut self, now_us: u64, anchor: Anchor, deadline_ms: u64) -> bool {
        if self.lost(now_us).is_some() {
            return false;
        }
        self.backoff.reset();
        // An answer to an older renewal says less than what is known.
        let valid_until_us = anchor.valid_until_us(deadline_ms).max(self.valid_until_us);
        self.extend(now_us, valid_until_us);
        true
    }

    /// A renewal could not be sent, or its outcome is unknown: again after a pause.
    pub fn handle_failure(&mut self, now_us: u64, random: u64) {
        self.renew_at_us = now_us.saturating_add(self.backoff.pause_us(random));
    }

    /// The engine said that it is over.
    pub fn handle_loss(&mut self, now_us: u64, cause: LossCause) {
        if self.lost(now_us).is_none() {
            self.lost = Some(cause);
        }
    }

    fn extend(&mut self, now_us: u64, valid_until_us: u64) {
        self.valid_until_us =
            self.end_us.map_or(valid_until_us, |end_us| valid_until_us.min(end_us));
        self.renew_at_us = match self.end_us {
            Some(end_us) if self.valid_until_us >= end_us => u64::MAX,
            _ => now_us + self.valid_until_us.saturating_sub(now_us) / 3,
        };
    }

    /// The full lease, or less if the end of `max_hold` is nearer.
    fn lease_from(&self, now_us: u64) -> u64 {
        let Some(end_us) = self.end_us else { return self.lease_ms };
        // A tenth more than is left, so that the margin does not end the hold early.
        let left_ms = end_us.saturating_sub(now_us) / 1_000;
        (left_ms + left_ms / 10 + limits::LEASE_MS_MIN).min(self.lease_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: u64 = 1_000_000;

    /// Granted at local 0 for 30 s, as if there were no margin.
    fn hold(max_hold_us: Option<u64>) -> Hold {
        Hold::new(0, 30 * SECOND_US, 30_000, max_hold_us)
    }

    /// A renewal sent at `sent_us` and answered with a lease of 30 s is valid until here.
    const RENEWED_FOR_US: u64 = 30 * SECOND_US - 302_000;

    fn renewed(hold: &mut Hold, sent_us: u64, now_us: u64) -> bool {
        hold.handle_renewed(now_us, Anchor { sent_us, engine_ms: 100 }, 30_100)
    }

    #[test]
    fn a_renewal_is_due_at_a_third_of_what_was_granted() {
        let mut hold = hold(None);
        assert_eq!(hold.poll(0), Due::Wait { until_us: 10 * SECOND_US });
        assert_eq!(hold.poll(10 * SECOND_US - 1), Due::Wait { until_us: 10 * SECOND_US });
        assert_eq!(hold.poll(10 * SECOND_US), Due::Renew { lease_ms: 30_000 });
        assert!(renewed(&mut hold, 10 * SECOND_US, 11 * SECOND_US));
        let valid_until_us = 10 * SECOND_US + RENEWED_FOR_US;
        assert_eq!(hold.valid_until_us(), valid_until_us);
        let third_us = (valid_until_us - 11 * SECOND_US) / 3;
        assert_eq!(hold.poll(11 * SECOND_US), Due::Wait { until_us: 11 * SECOND_US + third_us });
    }

    #[test]
    fn a_renewal_that_is_due_soon_can_go_along_with_others_unless_that_is_too_early() {
        let mut hold = hold(None);
        let soon_us = 10 * SECOND_US - 250_000;
        assert_eq!(hold.poll_early(soon_us, 250_000), Due::Renew { lease_ms: 30_000 });
        assert_eq!(hold.poll_early(soon_us - 1, 250_000), Due::Wait { until_us: 10 * SECOND_US });
        // A sixteenth of the 20 s and more that are left.
        let soon_us = 10 * SECOND_US - 1_200_000;
        assert_eq!(hold.poll_early(soon_us, SECOND_US * 9), Due::Renew { lease_ms: 30_000 });
        let early_us = 10 * SECOND_US - 1_400_000;
        let wait = Due::Wait { until_us: 10 * SECOND_US };
        assert_eq!(hold.poll_early(early_us, SECOND_US * 9), wait);
    }

    #[test]
    fn a_hand_over_is_renewed_at_a_third_of_the_waiter_lease_and_for_the_full_lease() {
        let mut hold = Hold::new(0, 3 * SECOND_US, 30_000, None);
        assert_eq!(hold.poll(0), Due::Wait { until_us: SECOND_US });
        assert_eq!(hold.poll(SECOND_US), Due::Renew { lease_ms: 30_000 });
    }

    #[test]
    fn a_failed_renewal_is_tried_again_after_pauses_that_double() {
        let mut hold = hold(None);
        let mut now_us = 10 * SECOND_US;
        for pause_us in [5_000, 10_000, 20_000] {
            assert_eq!(hold.poll(now_us), Due::Renew { lease_ms: 30_000 });
            hold.handle_failure(now_us, 0);
            assert_eq!(hold.poll(now_us), Due::Wait { until_us: now_us + pause_us });
            now_us += pause_us;
        }
        assert!(renewed(&mut hold, now_us, now_us));
        hold.handle_failure(now_us, 0);
        let until_us = now_us + 5_000;
        assert_eq!(hold.poll(now_us), Due::Wait { until_us }, "a success starts them over");
    }

    #[test]
    fn a_pause_never_hides_the_deadline() {
        let mut hold = hold(None);
        hold.handle_failure(30 * SECOND_US - 1_000, 0);
        let deadline_us = 30 * SECOND_US;
        assert_eq!(hold.poll(deadline_us - 1), Due::Wait { until_us: deadline_us });
        assert_eq!(hold.poll(deadline_us), Due::Lost(LossCause::Expired));
    }

    #[test]
    fn from_its_deadline_on_it_is_lost_for_good() {
        let mut hold = hold(None);
        assert_eq!(hold.lost(30 * SECOND_US - 1), None);
        assert_eq!(hold.lost(30 * SECOND_US), Some(LossCause::Expired));
        assert!(!renewed(&mut hold, 29 * SECOND_US, 30 * SECOND_US), "came too late");
        assert_eq!(hold.valid_until_us(), 30 * SECOND_US);
        assert_eq!(hold.lost(0), Some(LossCause::Expired), "whatever the clock says");
        assert_eq!(hold.poll(0), Due::Lost(LossCause::Expired));
    }

    #[test]
    fn a_renewal_that_is_answered_too_late_is_refused_though_nobody_looked() {
        let mut hold = hold(None);
        assert!(!renewed(&mut hold, 29 * SECOND_US, 30 * SECOND_US));
        assert_eq!(hold.lost(0), Some(LossCause::Expired));
    }

    #[test]
    fn the_answer_to_an_older_renewal_shortens_nothing() {
        let mut hold = hold(None);
        assert!(renewed(&mut hold, 12 * SECOND_US, 13 * SECOND_US));
        assert!(renewed(&mut hold, 10 * SECOND_US, 14 * SECOND_US));
        assert_eq!(hold.valid_until_us(), 12 * SECOND_US + RENEWED_FOR_US);
    }

    #[test]
    fn max_hold_ends_exactly() {
        let end_us = 45 * SECOND_US;
        let mut hold = hold(Some(end_us));
        assert_eq!(hold.poll(20 * SECOND_US), Due::Renew { lease_ms: 25_000 + 2_500 + 10 });
        assert!(renewed(&mut hold, 20 * SECOND_US, 20 * SECOND_US));
        assert_eq!(hold.valid_until_us(), end_us);
        assert_eq!(hold.poll(end_us - 1), Due::Wait { until_us: end_us }, "no more renewals");
        assert_eq!(hold.poll(end_us), Due::Lost(LossCause::MaxHold));
    }

    #[test]
    fn far_from_the_end_of_max_hold_the_full_lease_is_renewed() {
        let mut hold = hold(Some(60 * SECOND_US));
        assert_eq!(hold.poll(10 * SECOND_US), Due::Renew { lease_ms: 30_000 });
        assert_eq!(hold.lost(30 * SECOND_US), Some(LossCause::Expired), "not renewed in time");
    }

    #[test]
    fn a_max_hold_within_the_first_lease_is_never_renewed() {
        let mut hold = Hold::new(7, 30 * SECOND_US, 30_000, Some(SECOND_US));
        assert_eq!(hold.valid_until_us(), SECOND_US + 7);
        assert_eq!(hold.poll(SECOND_US / 2), Due::Wait { until_us: SECOND_US + 7 });
        assert_eq!(hold.lost(SECOND_US + 7), Some(LossCause::MaxHold));
    }

    #[test]
    fn the_renewals_near_the_end_of_max_hold_reach_it_in_spite_of_the_margin() {
        let end_us = 30 * SECOND_US + 50_000;
        let mut hold = hold(Some(end_us));
        let now_us = 29 * SECOND_US;
        let Due::Renew { lease_ms } = hold.poll(now_us) else { panic!("a renewal is due") };
        let anchor = Anchor { sent_us: now_us, engine_ms: 0 };
        assert!(hold.handle_renewed(now_us, anchor, lease_ms));
        assert_eq!(hold.valid_until_us(), end_us);
    }

    #[test]
    fn a_lease_shorter_than_the_shortest_is_renewed_as_it_is() {
        let mut hold = Hold::new(0, 4_000, 5, Some(SECOND_US));
        assert_eq!(hold.poll(2_000), Due::Renew { lease_ms: 5 });
    }

    #[test]
    fn what_the_engine_says_is_final_too() {
        for cause in [LossCause::Gone, LossCause::Revoked] {
            let mut hold = hold(None);
            hold.handle_loss(SECOND_US, cause);
            assert_eq!(hold.poll(SECOND_US), Due::Lost(cause));
            assert!(!renewed(&mut hold, SECOND_US, SECOND_US));
            hold.handle_loss(SECOND_US, LossCause::MaxHold);
            assert_eq!(hold.lost(60 * SECOND_US), Some(cause), "the first cause stays");
        }
    }

    #[test]
    fn a_loss_that_is_told_after_the_deadline_changes_no_cause() {
        let mut hold = hold(None);
        hold.handle_loss(30 * SECOND_US, LossCause::Revoked);
        assert_eq!(hold.lost(0), Some(LossCause::Expired));
    }
}
