//! One candidate, fed with inputs.

use super::*;
use crate::session::Anchor;
use crate::{Grant, Place, Reply, Token, Vote, WakeEvent};

const LEASE_MS: u64 = 30_000;

fn candidate(nodes: usize) -> Candidate {
    Candidate::new(nodes, LEASE_MS, Some(3_000))
}

fn anchor(sent_us: u64) -> Anchor {
    Anchor { sent_us, engine_ms: sent_us / 1_000 }
}

fn grant(number: u64, token: u64, deadline_ms: u64, inquired: bool) -> Grant {
    let vote = Some(Vote { number, ticket: 30, inquired });
    Grant {
        token: Some(Token::from_raw(token)),
        tokens: 1,
        wanted: false,
        deadline_ms,
        member: None,
        vote,
    }
}

fn granted(token: u64) -> Reply {
    let vote = Some(Vote { number: token, ticket: token, inquired: false });
    Reply::Granted(Grant { vote, ..grant(token, token, LEASE_MS, false) })
}

fn revoked(number: u64) -> WakeEvent {
    WakeEvent::Revoked { token: Some(Token::from_raw(number)) }
}

fn queued(number: u64) -> Reply {
    let place = Place { number, front: number, recheck_ms: None, quarantined_until_ms: None };
    Reply::Queued(place)
}

fn ask(node: usize, ticket: Option<u64>, yields: Option<u64>) -> NodeRequest {
    NodeRequest { node, kind: NodeRequestKind::Ask { ticket, yields, waits: true, known: None } }
}

fn confirm(node: usize, number: u64, token: u64) -> NodeRequest {
    let write_back = WriteBack { number, token };
    NodeRequest { node, kind: NodeRequestKind::Renew { write_back, lease_ms: LEASE_MS, round: 0 } }
}

fn renew(node: usize, number: u64, token: u64) -> NodeRequest {
    let write_back = WriteBack { number, token };
    NodeRequest { node, kind: NodeRequestKind::Renew { write_back, lease_ms: LEASE_MS, round: 1 } }
}

/// Feeds the candidate the reply to the first request.
fn hear(candidate: &mut Candidate, node: usize, reply: Reply) -> Vec<NodeRequest> {
    candidate.handle_reply(1_000, ask(node, None, None), Ok((reply, anchor(0))))
}

#[test]
fn all_are_asked_at_once_and_a_majority_that_agrees_is_enough() {
    let mut candidate = candidate(5);
    assert_eq!(candidate.ask(), [0, 1, 2, 3, 4].map(|node| ask(node, None, None)));
    assert!(candidate.ask().is_empty(), "once");
    assert!(hear(&mut candidate, 3, granted(70)).is_empty());
    assert!(hear(&mut candidate, 0, granted(70)).is_empty());
    assert_eq!(candidate.verdict(1_000), QuorumVerdict::Open);
    assert!(hear(&mut candidate, 4, granted(70)).is_empty());
    let until_us = anchor(0).valid_until_us(LEASE_MS);
    assert_eq!(candidate.verdict(1_000), QuorumVerdict::Held { token: 70, until_us });
    assert_eq!(candidate.verdict(until_us), QuorumVerdict::Lost);
    assert_eq!(candidate.verdict(1_000), QuorumVerdict::Lost, "for good");
}

#[test]
fn a_finder_that_hears_of_one_grant_and_of_a_place_does_not_wait_for_more() {
    for is_down in [false, true] {
        let mut finder = Candidate::finder(3, LEASE_MS);
        finder.ask();
        hear(&mut finder, 0, granted(70));
        hear(&mut finder, 1, queued(70));
        assert_eq!(finder.verdict(1_000), QuorumVerdict::Open, "the last may have granted it too");
        if is_down {
            finder.handle_reply(1_000, ask(2, None, None), Err("it is down".to_owned()));
            assert_eq!(finder.verdict(1_000), QuorumVerdict::NoQuorum, "nobody knows");
        } else {
            // It is being released, and one node has processed that.
            for _ in 0..2 {
                hear(&mut finder, 2, Reply::Refused(Refusal::TooLate));
            }
            assert_eq!(finder.verdict(1_000), QuorumVerdict::Busy, "it is not held");
        }
    }
}

#[test]
fn a_candidate_whose_votes_are_broken_gives_them_back_and_asks_again() {
    let mut candidate = candidate(5);
    candidate.ask();
    for node in [0, 1] {
        hear(&mut candidate, node, granted(70));
    }
    for node in [0, 1] {
        let sends = candidate.handle_wake(1_000, node, &revoked(70));
        assert_eq!(sends, [ask(node, None, Some(70))]);
    }
    // The other three are a majority on their own; the two broken votes never were one.
    for node in [2, 3, 4] {
        hear(&mut candidate, node, granted(70));
    }
    assert!(matches!(candidate.verdict(1_000), QuorumVerdict::Held { token: 70, .. }));
    let sends = candidate.handle_wake(1_000, 2, &revoked(70));
    assert!(sends.is_empty(), "a holder does not try to have back what was broken");
}

#[test]
fn a_try_whose_votes_are_broken_is_over() {
    let mut candidate = Candidate::new(3, LEASE_MS, None);
    candidate.ask();
    hear(&mut candidate, 0, granted(70));
    assert!(candidate.handle_wake(1_000, 0, &revoked(70)).is_empty());
    hear(&mut candidate, 1, Reply::Busy);
    hear(&mut candidate, 2, granted(71));
    assert_eq!(candidate.verdict(1_000), QuorumVerdict::Busy);
}

#[test]
fn tokens_that_differ_are_written_back() {
    let mut candidate = candidate(3);
    candidate.ask();
    hear(&mut candidate, 0, granted(70));
    assert_eq!(hear(&mut candidate, 1, granted(72)), [confirm(0, 70, 72)]);
    assert_eq!(candidate.verdict(1_000), QuorumVerdict::Open);
    let renewed = Reply::Renewed(grant(70, 72, LEASE_MS, false));
    candidate.handle_reply(2_000, confirm(0, 70, 72), Ok((renewed, anchor(1_000))));
    assert!(matches!(candidate.verdict(2_000), QuorumVerdict::Held { token: 72, .. }));
}

#[test]
fn a_larger_token_than_ours_starts_the_round_anew() {
    let mut candidate = candidate(3);
    candidate.ask();
    hear(&mut candidate, 0, granted(70));
    hear(&mut candidate, 1, granted(72));
    let larger = Reply::Renewed(grant(70, 80, LEASE_MS, false));
    let sends = candidate.handle_reply(2_000, confirm(0, 70, 72), Ok((larger, anchor(1_000))));
    assert_eq!(sends, [confirm(1, 72, 80)]);
}

#[test]
fn the_largest_of_the_first_majority_is_the_ticket_everywhere() {
    let mut candidate = candidate(5);
    candidate.ask();
    hear(&mut candidate, 0, queued(10));
    hear(&mut candidate, 1, granted(30));
    let sends = hear(&mut candidate, 2, queued(20));
    assert_eq!(sends, [ask(0, Some(30), None), ask(2, Some(30), None)]);
    assert_eq!(candidate.verdict(1_000), QuorumVerdict::Waiting { ticket: 30 });
    // A node that answers later is moved too, even if it has us further back.
    assert_eq!(hear(&mut candidate, 3, queued(40)), [ask(3, Some(30), None)]);
    let placed = Ok((queued(30), anchor(0)));
    assert!(candidate.handle_reply(1_000, ask(3, Some(30), None), placed).is_empty());
    assert_eq!(candidate.verdict(1_000), QuorumVerdict::Waiting { ticket: 30 });
}

/// A candidate at ticket 30 that waits on three nodes and has the vote of the first.
fn waiting() -> Candidate {
    let mut candidate = candidate(3);
    candidate.ask();
    hear(&mut candidate, 0, granted(30));
    hear(&mut candidate, 1, queued(30));
    hear(&mut candidate, 2, queued(30));
    candidate
}

fn wake(number: u64) -> WakeEvent {
    WakeEvent::Granted(grant(number, number, 4_000, false))
}

#[test]
fn a_waiter_holds_by_confirmation_only() {
    let mut candidate = waiting();
    let sends = candidate.handle_wake(2_000, 1, &wake(40));
    assert_eq!(sends, [confirm(0, 30, 40), confirm(1, 40, 40)]);
    let renewed = |number| Reply::Renewed(grant(number, 40, 40_000, false));
    let reply = Ok((renewed(40), anchor(3_000)));
    candidate.handle_reply(4_000, confirm(1, 40, 40), reply);
    assert_eq!(candidate.verdict(4_000), QuorumVerdict::Waiting { ticket: 30 });
    let reply = Ok((renewed(30), anchor(3_500)));
    candidate.handle_reply(4_000, confirm(0, 30, 40), reply);
    let until_us = anchor(3_000).valid_until_us(40_000);
    assert_eq!(candidate.verdict(4_000), QuorumVerdict::Held { token: 40, until_us });
}

#[test]
fn with_less_than_a_majority_an_inquired_vote_is_given_up_and_never_counts_again() {
    let mut candidate = waiting();
    let inquired = WakeEvent::Inquired { number: 30 };
    assert!(candidate.handle_wake(2_000, 0, &WakeEvent::Inquired { number: 29 }).is_empty());
    assert_eq!(candidate.handle_wake(2_000, 0, &inquired), [ask(0, Some(30), Some(30))]);
    assert!(candidate.handle_wake(2_000, 0, &inquired).is_empty(), "once");
    // A stale reply: the yield is repeated, and the vote does not count.
    let late = grant(30, 30, LEASE_MS, false);
    assert!(candidate.handle_refreshed_grant(2_000, 0, &late, anchor(1_000)).is_empty());
    let queued = Ok((queued(30), anchor(0)));
    candidate.handle_reply(2_000, ask(0, Some(30), Some(30)), queued);
    candidate.handle_refreshed_grant(2_000, 0, &late, anchor(1_000));
    assert_eq!(candidate.handle_tick(3_000), [ask(0, Some(30), Some(30))]);
    assert!(candidate.handle_wake(2_000, 1, &wake(40)).is_empty(), "one vote is no majority");
    // Another grant is treated on its own.
    assert!(!candidate.handle_wake(2_000, 0, &wake(31)).is_empty());
}

#[test]
fn with_a_majority_an_inquiry_waits_until_the_round_is_decided() {
    let mut candidate = waiting();
    candidate.handle_wake(2_000, 1, &wake(40));
    assert!(candidate.handle_wake(2_000, 0, &WakeEvent::Inquired { number: 30 }).is_empty());
    let gone = Ok((Reply::NotHeld, anchor(2_000)));
    let sends = candidate.handle_reply(3_000, confirm(1, 40, 40), gone);
    assert_eq!(sends, [ask(0, Some(30), Some(30)), ask(1, Some(30), None)]);
}

#[test]
fn a_node_that_does_not_answer_keeps_nobody_waiting() {
    let mut candidate = waiting();
    candidate.handle_wake(2_000, 1, &wake(40));
    let renewed = Reply::Renewed(grant(30, 40, LEASE_MS, true));
    let reply = Ok((renewed, anchor(2_000)));
    assert!(candidate.handle_reply(3_000, confirm(0, 30, 40), reply).is_empty());
    let kept = WriteBack { number: 30, token: 0 };
    let keep = NodeRequest {
        node: 0,
        kind: NodeRequestKind::Renew { write_back: kept, lease_ms: 3_000, round: 0 },
    };
    assert_eq!(candidate.handle_tick(1_001_000), [keep]);
    let sends = candidate.handle_tick(1_002_000);
    assert_eq!(sends, [ask(0, Some(30), Some(30))]);
}

#[test]
fn one_who_does_not_wait_is_told_what_stands_in_the_way() {
    let try_ = |replies: [Result<Reply, &str>; 3]| {
        let mut candidate = Candidate::new(3, LEASE_MS, None);
        for (send, reply) in candidate.ask().into_iter().zip(replies) {
            let reply = reply.map(|reply| (reply, anchor(0))).map_err(str::to_owned);
            candidate.handle_reply(1_000, send, reply);
        }
        candidate.verdict(1_000)
    };
    let full = Reply::Refused(Refusal::QueueFull);
    assert_eq!(try_([Ok(granted(7)), Ok(granted(8)), Err("down")]), QuorumVerdict::Open);
    assert!(matches!(
        try_([Ok(granted(7)), Ok(granted(7)), Ok(Reply::Busy)]),
        QuorumVerdict::Held { .. }
    ));
    assert_eq!(try_([Ok(granted(7)), Ok(Reply::Busy), Ok(Reply::Busy)]), QuorumVerdict::Busy);
    assert_eq!(try_([Ok(granted(7)), Ok(Reply::Busy), Err("down")]), QuorumVerdict::Busy);
    assert_eq!(try_([Ok(granted(7)), Err("down"), Err("down")]), QuorumVerdict::NoQuorum);
    assert_eq!(try_([Ok(Reply::Busy), Err("down"), Err("down")]), QuorumVerdict::NoQuorum);
    let refused = QuorumVerdict::Refused(Refusal::QueueFull);
    assert_eq!(try_([Ok(Reply::Busy), Ok(full), Err("down")]), refused);
}

#[test]
fn a_node_whose_clock_was_not_known_is_asked_again_once() {
    let mut candidate = candidate(3);
    candidate.ask();
    let late = || Reply::Refused(Refusal::TooLate);
    assert_eq!(hear(&mut candidate, 0, late()), [ask(0, None, None)]);
    assert!(hear(&mut candidate, 0, late()).is_empty());
    assert_eq!(candidate.troubles()[0].1, Refusal::TooLate.to_string());
}

#[test]
fn a_held_lock_is_renewed_by_a_majority_and_lost_without_one() {
    let mut candidate = candidate(3);
    candidate.ask();
    hear(&mut candidate, 0, granted(7));
    hear(&mut candidate, 1, granted(7));
    let down = candidate.handle_reply(1_000, ask(2, None, None), Err("down".into()));
    assert!(down.is_empty());
    let sends = candidate.renew(10_000_000, LEASE_MS);
    let again = NodeRequest {
        node: 2,
        kind: NodeRequestKind::Ask { ticket: None, yields: None, waits: false, known: None },
    };
    assert_eq!(sends, [renew(0, 7, 7), renew(1, 7, 7), again]);
    assert_eq!((candidate.round(), candidate.renewed(1)), (1, None));
    let renewed = || Ok((Reply::Renewed(grant(7, 7, 40_000, false)), anchor(10_000_000)));
    candidate.handle_reply(10_001_000, renew(0, 7, 7), renewed());
    let before = anchor(0).valid_until_us(LEASE_MS);
    assert_eq!(candidate.verdict(10_001_000), QuorumVerdict::Held { token: 7, until_us: before });
    assert_eq!(candidate.renewed(1), None);
    candidate.handle_reply(10_001_000, renew(1, 7, 7), renewed());
    assert_eq!(candidate.renewed(1), Some(true));
    let after = anchor(10_000_000).valid_until_us(40_000);
    assert_eq!(candidate.verdict(10_001_000), QuorumVerdict::Held { token: 7, until_us: after });
    let gone = Ok((Reply::NotHeld, anchor(11_000_000)));
    candidate.handle_reply(11_001_000, confirm(1, 7, 7), gone);
    assert_eq!(candidate.verdict(11_001_000), QuorumVerdict::Lost);
}

#[test]
fn a_vote_that_is_gained_while_holding_counts_once_it_has_the_token() {
    let mut candidate = candidate(3);
    candidate.ask();
    hear(&mut candidate, 0, granted(7));
    hear(&mut candidate, 1, granted(7));
    assert_eq!(hear(&mut candidate, 2, granted(5)), [confirm(2, 5, 7)]);
    let gone = Ok((Reply::NotHeld, anchor(2_000)));
    let mut without = candidate.clone();
    without.handle_reply(3_000, confirm(1, 7, 7), gone.clone());
    assert_eq!(without.verdict(3_000), QuorumVerdict::Lost);
    let renewed = Ok((Reply::Renewed(grant(5, 7, 40_000, false)), anchor(2_000)));
    candidate.handle_reply(3_000, confirm(2, 5, 7), renewed);
    candidate.handle_reply(3_000, confirm(1, 7, 7), gone);
    assert!(matches!(candidate.verdict(3_000), QuorumVerdict::Held { .. }));
}

#[test]
fn whatever_there_is_is_given_back_everywhere() {
    let mut candidate = candidate(3);
    candidate.ask();
    hear(&mut candidate, 0, granted(7));
    let release = |node, bury| NodeRequest { node, kind: NodeRequestKind::Release { bury } };
    assert_eq!(candidate.give_up(), [release(0, false), release(1, true), release(2, true)]);
    assert!(hear(&mut candidate, 1, granted(7)).is_empty(), "it is over");
}

#[test]
fn a_break_counts_when_no_majority_is_left_unbroken() {
    let mut candidate = candidate(3);
    candidate.ask();
    for node in 0..3 {
        hear(&mut candidate, node, granted(7));
    }
    candidate.handle_wake(2_000, 0, &revoked(7));
    assert!(matches!(candidate.verdict(2_000), QuorumVerdict::Held { .. }));
    candidate.handle_wake(2_000, 1, &revoked(7));
    assert_eq!(candidate.verdict(2_000), QuorumVerdict::Revoked);
    assert!(candidate.renew(2_000, LEASE_MS).is_empty());
}

#[test]
fn news_that_another_vote_was_broken_changes_nothing() {
    for holds in [false, true] {
        let mut candidate = candidate(3);
        candidate.ask();
        for node in 0..if holds { 3 } else { 1 } {
            hear(&mut candidate, node, granted(70));
        }
        let verdict = candidate.verdict(1_000);
        for node in 0..3 {
            // From an earlier incarnation of the node, or about a vote that was given up since.
            assert!(candidate.handle_wake(1_000, node, &revoked(60)).is_empty());
            assert!(candidate.handle_wake(1_000, node, &revoked(80)).is_empty());
            let late = confirm(node, 60, 60);
            candidate.handle_reply(1_000, late, Ok((Reply::Revoked, anchor(1_000))));
        }
        assert_eq!(candidate.verdict(1_000), verdict);
        candidate.handle_wake(1_000, 0, &revoked(70));
        candidate.handle_wake(1_000, 1, &revoked(70));
        assert_eq!(candidate.verdict(1_000) == QuorumVerdict::Revoked, holds);
    }
}

#[test]
fn quarantine_counts_when_no_majority_is_out_of_it() {
    let mut candidate = candidate(3);
    candidate.ask();
    let place = |until| Place { quarantined_until_ms: until, ..Place::default() };
    hear(&mut candidate, 0, Reply::Queued(place(Some(50_000))));
    hear(&mut candidate, 1, Reply::Queued(place(None)));
    assert_eq!(candidate.quarantined_until_us(1_000), None);
    hear(&mut candidate, 2, Reply::Queued(place(Some(40_000))));
    assert_eq!(candidate.quarantined_until_us(1_000), Some(40_000_000));
    assert_eq!(candidate.quarantined_until_us(40_000_000), None);
}

#[test]
fn who_is_told_that_it_waits_does_not_hold_what_it_was_granted_before_it_asked() {
    let mut candidate = candidate(3);
    candidate.ask();
    candidate.handle_wake(1_000, 0, &wake(40));
    // A reply to a request from before the grant was known says nothing about it.
    hear(&mut candidate, 0, queued(20));
    assert!(!candidate.waits_on(0));
    hear(&mut candidate, 1, queued(50));
    let known = Some(40);
    let again = NodeRequestKind::Ask { ticket: Some(50), yields: None, waits: true, known };
    let again = NodeRequest { node: 0, kind: again };
    assert!(candidate.handle_reply(1_000, again, Ok((queued(50), anchor(0)))).is_empty());
    assert!(candidate.waits_on(0));
}

#[test]
fn a_vote_that_was_broken_does_not_spoil_the_next_one_of_its_node() {
    let mut candidate = candidate(3);
    candidate.ask();
    for node in 0..3 {
        hear(&mut candidate, node, queued(30));
    }
    for node in 0..2 {
        let first = WakeEvent::Granted(grant(70, 70, LEASE_MS, false));
        candidate.handle_wake(1_000, node, &first);
        candidate.handle_wake(1_000, node, &revoked(70));
        let gone = Ok((Reply::NotHeld, anchor(1_000)));
        candidate.handle_reply(2_000, confirm(node, 70, 70), gone);
    }
    let next = WakeEvent::Granted(grant(80, 80, LEASE_MS, false));
    assert!(candidate.handle_wake(3_000, 0, &next).is_empty());
    let sends = candidate.handle_wake(3_000, 1, &next);
    assert_eq!(sends, [confirm(0, 80, 80), confirm(1, 80, 80)]);
}

#[test]
fn what_a_refresh_tells_of_is_no_hold_before_it_is_confirmed() {
    let mut candidate = candidate(3);
    candidate.ask();
    for node in 0..3 {
        hear(&mut candidate, node, queued(30));
    }
    let told = grant(40, 40, 3_000, false);
    candidate.handle_refreshed_grant(1_000, 0, &told, anchor(0));
    let sends = candidate.handle_refreshed_grant(1_000, 1, &told, anchor(0));
    assert_eq!(sends, [confirm(0, 40, 40), confirm(1, 40, 40)]);
    assert_eq!(candidate.verdict(1_000), QuorumVerdict::Waiting { ticket: 30 });
}

#[test]
fn a_place_that_is_missing_is_asked_for_again_by_who_waits_and_not_by_who_held() {
    let mut candidate = candidate(3);
    candidate.ask();
    hear(&mut candidate, 2, queued(70));
    assert_eq!(candidate.handle_missing(2), [ask(2, None, None)]);
    hear(&mut candidate, 2, queued(70));
    hear(&mut candidate, 0, granted(70));
    hear(&mut candidate, 1, granted(70));
    let QuorumVerdict::Held { until_us, .. } = candidate.verdict(1_000) else { panic!("it holds") };
    // It may have been handed on and released by its new keeper, and its place with it.
    assert!(candidate.waits_on(2), "as far as is known");
    assert_eq!(candidate.handle_missing(2), []);
    assert_eq!(candidate.verdict(until_us), QuorumVerdict::Lost);
    assert!(!candidate.waits_on(2), "not any more");
    assert_eq!(candidate.handle_missing(2), []);
}
