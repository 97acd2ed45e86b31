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
    assert_eq!(ANCHOR.surely_passed_us(5_001_000, 1_700), 5_001_000 + 1_000_000 + 10_000 + 2_000);
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

const HERE: Origin = Origin { source: 0, epoch: 1 };

fn at(sent_us: u64, engine_ms: u64) -> Anchor {
    Anchor { sent_us, engine_ms }
}

/// By what a grant until 5 s is judged, if this was heard last.
fn judged_by(wake_anchor: &WakeAnchor, newest: Anchor) -> Option<Anchor> {
    wake_anchor.anchor(HERE, Some((HERE, newest)), 5_000)
}

fn waiting_since(sent_us: u64, engine_ms: u64) -> WakeAnchor {
    let mut wake_anchor = WakeAnchor::default();
    wake_anchor.handle_asking(None);
    wake_anchor.handle_waiting(HERE, at(sent_us, engine_ms));
    wake_anchor
}

#[test]
fn what_was_known_before_it_asked_counts_until_it_is_known_to_wait() {
    let mut wake_anchor = WakeAnchor::default();
    let newest = at(9_000, 1_000);
    assert_eq!(judged_by(&wake_anchor, newest), None);
    wake_anchor.handle_asking(Some((HERE, at(1_000, 1_000))));
    assert_eq!(
        judged_by(&wake_anchor, newest),
        Some(at(1_000, 1_000)),
        "a wake-up before the reply"
    );
    wake_anchor.handle_waiting(HERE, at(2_000, 1_000));
    assert_eq!(judged_by(&wake_anchor, newest), Some(at(2_000, 1_000)));
}

#[test]
fn a_clock_that_was_set_back_since_makes_no_grant_longer() {
    let wake_anchor = waiting_since(1_000_000, 4_000);
    // Two seconds later its clock shows one less.
    assert_eq!(judged_by(&wake_anchor, at(3_000_000, 3_000)), Some(at(1_000_000, 4_000)));
}

#[test]
fn a_clock_that_was_set_forward_before_makes_no_grant_longer() {
    let wake_anchor = waiting_since(1_000_000, 1_000);
    assert_eq!(judged_by(&wake_anchor, at(2_000_000, 4_000)), Some(at(2_000_000, 4_000)));
}

#[test]
fn another_run_or_connection_is_another_clock() {
    let (wake_anchor, elsewhere) = (waiting_since(1, 1), Origin { epoch: 2, ..HERE });
    assert_eq!(wake_anchor.anchor(elsewhere, Some((elsewhere, at(2, 2))), 5_000), None);
    assert_eq!(wake_anchor.anchor(HERE, Some((elsewhere, at(2, 2))), 5_000), None);
    assert_eq!(wake_anchor.anchor(HERE, None, 5_000), None);
}

#[test]
fn who_asks_again_may_have_been_granted_before() {
    let mut wake_anchor = waiting_since(1, 1);
    wake_anchor.handle_asking(Some((HERE, at(3, 3))));
    assert_eq!(judged_by(&wake_anchor, at(4, 4)), None);
    wake_anchor.handle_waiting(HERE, at(4, 4));
    assert_eq!(judged_by(&wake_anchor, at(4, 4)), None, "an old wake-up may still be under way");
}

const REPLICA: Origin = Origin { epoch: 2, ..HERE };

#[test]
fn a_grant_of_the_server_before_is_judged_by_its_clock_too() {
    let mut wake_anchor = waiting_since(1_000_000, 2_000);
    // The replica's clock shows a second less.
    let told = at(3_000_000, 3_000);
    assert!(wake_anchor.is_from_elsewhere(REPLICA));
    assert_eq!(wake_anchor.shortest(REPLICA, told, 5_000), at(1_000_000, 2_000));
    assert_eq!(wake_anchor.shortest(HERE, told, 5_000), told, "what it was granted here");
    wake_anchor.handle_waiting(REPLICA, told);
    assert!(!wake_anchor.is_from_elsewhere(REPLICA));
    assert_eq!(wake_anchor.shortest(REPLICA, told, 5_000), told, "it waited there first");
    let next = Origin { epoch: 3, ..HERE };
    let told = at(4_000_000, 3_500);
    assert_eq!(
        wake_anchor.shortest(next, told, 5_000),
        at(1_000_000, 2_000),
        "the shortest of all"
    );
}

#[test]
fn what_the_first_request_or_a_wake_up_is_granted_is_granted_there() {
    let mut wake_anchor = WakeAnchor::default();
    wake_anchor.handle_asking(Some((HERE, at(1, 1))));
    wake_anchor.handle_answered(REPLICA);
    assert!(!wake_anchor.is_from_elsewhere(REPLICA));
    let mut wake_anchor = waiting_since(1, 1);
    wake_anchor.handle_asking(None);
    wake_anchor.handle_answered(REPLICA);
    assert!(wake_anchor.is_from_elsewhere(REPLICA), "the second may have been granted before");
    wake_anchor.handle_wake(REPLICA);
    wake_anchor.handle_wake(HERE);
    assert!(!wake_anchor.is_from_elsewhere(REPLICA), "an old wake-up changes nothing");
}

#[test]
fn a_wake_up_of_unknown_origin_does_not_move_it_elsewhere() {
    let mut wake_anchor = waiting_since(1, 1);
    wake_anchor.handle_waiting(REPLICA, at(2, 2));
    wake_anchor.handle_wake(Origin::UNKNOWN);
    assert!(!wake_anchor.is_from_elsewhere(REPLICA));
}

#[test]
fn only_so_many_servers_are_remembered() {
    let mut wake_anchor = waiting_since(0, 0);
    for epoch in 2..100 {
        wake_anchor.handle_waiting(Origin { epoch, ..HERE }, at(epoch, epoch));
    }
    assert_eq!(wake_anchor.earlier.len(), EARLIER_MAX);
    assert_eq!(wake_anchor.latest.map(|(origin, _)| origin.epoch), Some(99));
}
