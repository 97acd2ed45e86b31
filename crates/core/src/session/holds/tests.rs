use super::super::{Anchor, HoldTerms, LossCause};
use super::*;
use crate::{Grant, Name, Owner};

const SECOND_US: u64 = 1_000_000;

/// A held lock, and what is asked of it in short.
struct Tested(HeldLock);

impl Tested {
    fn new(now_us: u64, valid_until_us: u64, lease_ms: u64, max_hold_us: Option<u64>) -> Self {
        let (lock, owner) = (Name::new("l").unwrap(), Owner::from_bits(1));
        let terms = HoldTerms { lock, owner, lease_ms, max_hold_us, bury_until_ms: 0 };
        let grant = Grant {
            token: None,
            tokens: 1,
            wanted: false,
            deadline_ms: 0,
            member: None,
            vote: None,
        };
        // The engine said at this very time that the lease was over: no span, and no margin.
        let anchor = Anchor { sent_us: valid_until_us, engine_ms: 0 };
        let hold = Hold::new(now_us, terms, grant, anchor).expect("a lease");
        Self(HeldLock::new(now_us, Arc::new(hold), 0, None))
    }

    fn poll(&self, now_us: u64) -> HoldAction {
        self.poll_early(now_us, 0)
    }

    fn poll_early(&self, now_us: u64, by_us: u64) -> HoldAction {
        self.0.need(now_us, by_us)
    }

    fn lost(&self, now_us: u64) -> Option<LossCause> {
        self.0.hold.loss(now_us).map(|loss| loss.cause)
    }

    fn valid_until_us(&self) -> u64 {
        self.0.hold.valid_until_us()
    }

    fn renewed(&mut self, now_us: u64, anchor: Anchor, deadline_ms: u64) -> bool {
        self.0.handle_renewed(now_us, anchor.valid_until_us(deadline_ms)).is_none()
    }
}

fn is_lost(need: HoldAction, cause: LossCause) -> bool {
    matches!(need, HoldAction::Lost(loss) if loss.cause == cause)
}

/// Granted at local 0 for 30 s, as if there were no margin.
fn hold(max_hold_us: Option<u64>) -> Tested {
    Tested::new(0, 30 * SECOND_US, 30_000, max_hold_us)
}

/// A renewal sent at `sent_us` and answered with a lease of 30 s is valid until here.
const RENEWED_FOR_US: u64 = 30 * SECOND_US - 302_000;

fn renewed(hold: &mut Tested, sent_us: u64, now_us: u64) -> bool {
    hold.renewed(now_us, Anchor { sent_us, engine_ms: 100 }, 30_100)
}

#[test]
fn a_renewal_is_due_at_a_third_of_what_was_granted() {
    let mut hold = hold(None);
    assert_eq!(hold.poll(0), HoldAction::Wait { until_us: 10 * SECOND_US });
    assert_eq!(hold.poll(10 * SECOND_US - 1), HoldAction::Wait { until_us: 10 * SECOND_US });
    assert_eq!(hold.poll(10 * SECOND_US), HoldAction::Renew { lease_ms: 30_000 });
    assert!(renewed(&mut hold, 10 * SECOND_US, 11 * SECOND_US));
    let valid_until_us = 10 * SECOND_US + RENEWED_FOR_US;
    assert_eq!(hold.valid_until_us(), valid_until_us);
    let third_us = (valid_until_us - 11 * SECOND_US) / 3;
    assert_eq!(hold.poll(11 * SECOND_US), HoldAction::Wait { until_us: 11 * SECOND_US + third_us });
}

#[test]
fn a_renewal_that_is_due_soon_can_go_along_with_others_unless_that_is_too_early() {
    let hold = hold(None);
    let soon_us = 10 * SECOND_US - 250_000;
    assert_eq!(hold.poll_early(soon_us, 250_000), HoldAction::Renew { lease_ms: 30_000 });
    assert_eq!(
        hold.poll_early(soon_us - 1, 250_000),
        HoldAction::Wait { until_us: 10 * SECOND_US }
    );
    // A sixteenth of the 20 s and more that are left.
    let soon_us = 10 * SECOND_US - 1_200_000;
    assert_eq!(hold.poll_early(soon_us, SECOND_US * 9), HoldAction::Renew { lease_ms: 30_000 });
    let early_us = 10 * SECOND_US - 1_400_000;
    let wait = HoldAction::Wait { until_us: 10 * SECOND_US };
    assert_eq!(hold.poll_early(early_us, SECOND_US * 9), wait);
}

#[test]
fn a_hand_over_is_renewed_at_a_third_of_the_waiter_lease_and_for_the_full_lease() {
    let hold = Tested::new(0, 3 * SECOND_US, 30_000, None);
    assert_eq!(hold.poll(0), HoldAction::Wait { until_us: SECOND_US });
    assert_eq!(hold.poll(SECOND_US), HoldAction::Renew { lease_ms: 30_000 });
}

#[test]
fn a_failed_renewal_is_tried_again_after_pauses_that_double() {
    let mut hold = hold(None);
    let mut now_us = 10 * SECOND_US;
    for pause_us in [5_000, 10_000, 20_000] {
        assert_eq!(hold.poll(now_us), HoldAction::Renew { lease_ms: 30_000 });
        hold.0.handle_failure(now_us, 0);
        assert_eq!(hold.poll(now_us), HoldAction::Wait { until_us: now_us + pause_us });
        now_us += pause_us;
    }
    assert!(renewed(&mut hold, now_us, now_us));
    hold.0.handle_failure(now_us, 0);
    let until_us = now_us + 5_000;
    assert_eq!(hold.poll(now_us), HoldAction::Wait { until_us }, "a success starts them over");
}

#[test]
fn a_pause_never_hides_the_deadline() {
    let mut hold = hold(None);
    hold.0.handle_failure(30 * SECOND_US - 1_000, 0);
    let deadline_us = 30 * SECOND_US;
    assert_eq!(hold.poll(deadline_us - 1), HoldAction::Wait { until_us: deadline_us });
    assert!(is_lost(hold.poll(deadline_us), LossCause::Expired));
}

#[test]
fn from_its_deadline_on_it_is_lost_for_good() {
    let mut hold = hold(None);
    assert_eq!(hold.lost(30 * SECOND_US - 1), None);
    assert_eq!(hold.lost(30 * SECOND_US), Some(LossCause::Expired));
    assert!(!renewed(&mut hold, 29 * SECOND_US, 30 * SECOND_US), "came too late");
    assert_eq!(hold.valid_until_us(), 0);
    assert_eq!(hold.lost(0), Some(LossCause::Expired), "whatever the clock says");
    assert!(is_lost(hold.poll(0), LossCause::Expired));
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
    assert_eq!(hold.poll(20 * SECOND_US), HoldAction::Renew { lease_ms: 25_000 + 2_500 + 10 });
    assert!(renewed(&mut hold, 20 * SECOND_US, 20 * SECOND_US));
    assert_eq!(hold.valid_until_us(), end_us);
    assert_eq!(hold.poll(end_us - 1), HoldAction::Wait { until_us: end_us }, "no more renewals");
    assert!(is_lost(hold.poll(end_us), LossCause::MaxHold));
}

#[test]
fn far_from_the_end_of_max_hold_the_full_lease_is_renewed() {
    let hold = hold(Some(60 * SECOND_US));
    assert_eq!(hold.poll(10 * SECOND_US), HoldAction::Renew { lease_ms: 30_000 });
    assert_eq!(hold.lost(30 * SECOND_US), Some(LossCause::Expired), "not renewed in time");
}

#[test]
fn a_max_hold_within_the_first_lease_is_never_renewed() {
    let hold = Tested::new(7, 30 * SECOND_US, 30_000, Some(SECOND_US));
    assert_eq!(hold.valid_until_us(), SECOND_US + 7);
    assert_eq!(hold.poll(SECOND_US / 2), HoldAction::Wait { until_us: SECOND_US + 7 });
    assert_eq!(hold.lost(SECOND_US + 7), Some(LossCause::MaxHold));
}

#[test]
fn the_renewals_near_the_end_of_max_hold_reach_it_in_spite_of_the_margin() {
    let end_us = 30 * SECOND_US + 50_000;
    let mut hold = hold(Some(end_us));
    let now_us = 29 * SECOND_US;
    let HoldAction::Renew { lease_ms } = hold.poll(now_us) else { panic!("a renewal is due") };
    let anchor = Anchor { sent_us: now_us, engine_ms: 0 };
    assert!(hold.renewed(now_us, anchor, lease_ms));
    assert_eq!(hold.valid_until_us(), end_us);
}

#[test]
fn a_lease_shorter_than_the_shortest_is_renewed_as_it_is() {
    let hold = Tested::new(0, 4_000, 5, Some(SECOND_US));
    assert_eq!(hold.poll(2_000), HoldAction::Renew { lease_ms: 5 });
}

#[test]
fn what_the_engine_says_is_final_too() {
    for cause in [LossCause::Gone, LossCause::Revoked] {
        let mut hold = hold(None);
        hold.0.hold.lose(SECOND_US, cause);
        assert!(is_lost(hold.poll(SECOND_US), cause));
        assert!(!renewed(&mut hold, SECOND_US, SECOND_US));
        hold.0.hold.lose(SECOND_US, LossCause::MaxHold);
        assert_eq!(hold.lost(60 * SECOND_US), Some(cause), "the first cause stays");
    }
}

#[test]
fn a_loss_that_is_told_after_the_deadline_changes_no_cause() {
    let hold = hold(None);
    hold.0.hold.lose(30 * SECOND_US, LossCause::Revoked);
    assert_eq!(hold.lost(0), Some(LossCause::Expired));
}
