//! What a contender concludes from its inputs, moment by moment.

use super::*;
use crate::session::Anchor;
use crate::{Grant, Reply};

const SENT_US: u64 = 1_000_000;
const LEASE_MS: u64 = 10_000;
/// The lease, less 1 % and 2 ms, from the sending.
const UNTIL_US: u64 = SENT_US + 10_000_000 - 100_000 - 2_000;

fn anchor() -> Anchor {
    Anchor { sent_us: SENT_US, engine_ms: 500 }
}

fn grant(lease_ms: u64) -> Grant {
    Grant {
        token: None,
        tokens: 1,
        wanted: false,
        deadline_ms: 500 + lease_ms,
        member: None,
        vote: None,
    }
}

type NodeResult = Result<(Reply, Anchor), NodeFailure>;

fn granted(lease_ms: u64) -> NodeResult {
    Ok((Reply::Granted(grant(lease_ms)), anchor()))
}

fn busy() -> NodeResult {
    Ok((Reply::Busy, anchor()))
}

fn refused(refusal: Refusal) -> NodeResult {
    Ok((Reply::Refused(refusal), anchor()))
}

fn unanswered(unknown: bool) -> NodeResult {
    Err(NodeFailure { why: "it is down".to_owned(), unknown })
}

/// Feeds the nodes' replies of the first round, in order. Nodes not named have not answered.
fn after(nodes: usize, heard: Vec<NodeResult>) -> Contender {
    let mut contender = Contender::new(nodes);
    assert_eq!(contender.ask(SENT_US), (1, (0..nodes).collect()));
    for (node, heard) in heard.into_iter().enumerate() {
        assert!(!contender.handle_acquire_reply(SENT_US, node, 1, heard));
    }
    contender
}

fn verdict(nodes: usize, heard: Vec<NodeResult>) -> RedlockVerdict {
    after(nodes, heard).verdict(SENT_US)
}

fn held(nodes: usize) -> Contender {
    let mut contender = after(nodes, vec![granted(LEASE_MS); nodes]);
    assert_eq!(contender.verdict(SENT_US), RedlockVerdict::Held { until_us: UNTIL_US });
    contender
}

#[test]
fn the_slow_are_not_waited_for() {
    let held = RedlockVerdict::Held { until_us: UNTIL_US };
    assert_eq!(verdict(3, vec![granted(LEASE_MS)]), RedlockVerdict::Open);
    assert_eq!(verdict(3, vec![granted(LEASE_MS); 2]), held);
    assert_eq!(verdict(5, vec![busy(), busy(), busy()]), RedlockVerdict::Busy);
    assert_eq!(verdict(5, vec![busy(), busy(), granted(LEASE_MS)]), RedlockVerdict::Open);
}

#[test]
fn what_was_won_is_not_kept_from_others_while_the_slow_are_waited_for() {
    let mut contender = after(5, vec![granted(LEASE_MS), granted(LEASE_MS)]);
    assert_eq!(contender.patience_until_us(), None);
    contender.handle_acquire_reply(SENT_US + 10_000, 2, 1, busy());
    let until_us = SENT_US + 60_000;
    assert_eq!(contender.patience_until_us(), Some(until_us));
    assert_eq!(contender.verdict(until_us - 1), RedlockVerdict::Open);
    let mut won = contender.clone();
    won.handle_acquire_reply(until_us - 1, 3, 1, granted(LEASE_MS));
    assert!(matches!(won.verdict(until_us), RedlockVerdict::Held { .. }));
    assert_eq!(contender.verdict(until_us), RedlockVerdict::Busy);
    // If every reply is slow, the last one may be too.
    let mut contender = after(3, vec![granted(LEASE_MS)]);
    contender.handle_acquire_reply(SENT_US + 200_000, 1, 1, busy());
    assert_eq!(contender.patience_until_us(), Some(SENT_US + 400_000));
    contender.roll_back();
    contender.ask(SENT_US + 500_000);
    assert_eq!(contender.patience_until_us(), None, "each round has its own");
}

#[test]
fn one_that_tries_just_once_is_more_patient() {
    let mut contender = Contender::of_one_try(3);
    contender.ask(SENT_US);
    contender.handle_acquire_reply(SENT_US, 0, 1, granted(LEASE_MS));
    contender.handle_acquire_reply(SENT_US, 1, 1, busy());
    assert_eq!(contender.verdict(SENT_US + 999_999), RedlockVerdict::Open);
    assert_eq!(contender.verdict(SENT_US + 1_000_000), RedlockVerdict::Busy);
}

#[test]
fn a_quorum_with_one_node_down_is_a_success() {
    let held = RedlockVerdict::Held { until_us: UNTIL_US };
    assert_eq!(verdict(3, vec![unanswered(true), granted(LEASE_MS), granted(LEASE_MS)]), held);
    assert_eq!(verdict(3, vec![granted(LEASE_MS), unanswered(false), granted(LEASE_MS)]), held);
}

#[test]
fn of_every_set_of_nodes_a_majority_is_needed_and_enough() {
    for nodes in 3..=7_usize {
        for free in 0..1_usize << nodes {
            let answer =
                |node: usize| if free & (1 << node) > 0 { granted(LEASE_MS) } else { busy() };
            let is_held = free.count_ones() as usize > nodes / 2;
            let expected = if is_held {
                RedlockVerdict::Held { until_us: UNTIL_US }
            } else {
                RedlockVerdict::Busy
            };
            assert_eq!(verdict(nodes, (0..nodes).map(answer).collect()), expected);
        }
    }
}

#[test]
fn it_is_valid_until_the_first_of_the_last_majority_ends() {
    let leases = [30_000, 10_000, 20_000, 1_000];
    let mut contender = after(5, leases.into_iter().map(granted).collect());
    assert_eq!(contender.verdict(SENT_US), RedlockVerdict::Held { until_us: UNTIL_US });
}

#[test]
fn a_validity_of_nothing_is_a_failure() {
    let mut contender = after(3, vec![granted(LEASE_MS); 2]);
    assert_eq!(contender.verdict(UNTIL_US), RedlockVerdict::Over);
    let everyone = [(0, true), (1, true), (2, false)];
    assert_eq!(contender.roll_back(), everyone, "also the one that never answered");
    let mut contender = after(3, vec![granted(LEASE_MS); 2]);
    assert!(matches!(contender.verdict(UNTIL_US - 1), RedlockVerdict::Held { .. }));
    assert_eq!(contender.verdict(UNTIL_US), RedlockVerdict::Lost);
    assert_eq!(contender.verdict(SENT_US), RedlockVerdict::Lost, "that is final");
}

#[test]
fn who_fails_says_why() {
    let quarantined = Refusal::Quarantined { until_ms: 2_500 };
    let locally = Refusal::Quarantined { until_ms: 3_000 };
    assert_eq!(
        verdict(3, vec![busy(), unanswered(false), granted(LEASE_MS)]),
        RedlockVerdict::Busy
    );
    assert_eq!(verdict(3, vec![busy(), unanswered(false)]), RedlockVerdict::Open);
    assert_eq!(
        verdict(3, vec![busy(), unanswered(false), unanswered(true)]),
        RedlockVerdict::NoQuorum
    );
    let mut contender = after(3, vec![refused(quarantined), refused(quarantined), busy()]);
    assert_eq!(contender.verdict(SENT_US), RedlockVerdict::Refused(locally));
    assert_eq!(contender.quarantined_until_us(SENT_US), Some(3_000_000));
    assert_eq!(contender.quarantined_until_us(3_000_000), None);
    let contender = after(3, vec![busy(), unanswered(false)]);
    let troubles = [(0, "somebody else holds it there".into()), (1, "it is down".into())];
    assert_eq!(contender.troubles(), troubles);
}

#[test]
fn what_was_won_in_vain_is_given_back_on_all_nodes_that_may_have_it() {
    let heard = vec![granted(LEASE_MS), busy(), busy(), unanswered(true)];
    let mut contender = after(5, heard);
    assert_eq!(contender.roll_back(), [(0, true), (3, false), (4, false)]);
    assert_eq!(contender.verdict(SENT_US), RedlockVerdict::Idle);
}

#[test]
fn a_node_is_asked_again_once_nothing_is_under_way_there() {
    let mut contender = after(3, vec![granted(LEASE_MS), busy()]);
    assert_eq!(contender.roll_back(), [(0, true), (2, false)]);
    assert_eq!(contender.ask(SENT_US), (2, vec![1]));
    contender.handle_release_reply(0);
    // The node has processed the early release, but not the acquire.
    contender.handle_release_reply(2);
    contender.handle_acquire_reply(SENT_US, 1, 2, busy());
    contender.roll_back();
    assert_eq!(contender.ask(SENT_US), (3, vec![0, 1]));
    // Granted too late: it doesn't count, and is given back.
    assert!(contender.handle_acquire_reply(SENT_US, 2, 1, granted(LEASE_MS)));
    contender.handle_acquire_reply(SENT_US, 0, 3, granted(LEASE_MS));
    contender.handle_acquire_reply(SENT_US, 1, 3, busy());
    assert_eq!(contender.verdict(SENT_US), RedlockVerdict::Busy);
    assert_eq!(contender.roll_back(), [(0, true)]);
    contender.handle_release_reply(0);
    contender.handle_release_reply(2);
    assert_eq!(contender.ask(SENT_US), (4, vec![0, 1, 2]));
}

#[test]
fn who_has_failed_everywhere_and_heard_so_has_left_nothing() {
    let mut contender = after(3, vec![granted(LEASE_MS), busy(), busy()]);
    assert!(!contender.has_left_nothing());
    contender.roll_back();
    assert!(!contender.has_left_nothing(), "it is being given back");
    contender.handle_release_reply(0);
    assert!(contender.has_left_nothing());
    let mut contender = after(3, vec![busy(), busy(), unanswered(true)]);
    contender.roll_back();
    contender.handle_release_reply(2);
    assert!(!contender.has_left_nothing(), "it may arrive yet");
}

#[test]
fn who_gives_up_buries_what_may_still_arrive() {
    let mut contender = after(4, vec![granted(LEASE_MS), busy(), unanswered(true)]);
    assert_eq!(contender.give_up(), [false, false, true, true]);
    assert!(!contender.handle_acquire_reply(SENT_US, 3, 1, granted(LEASE_MS)), "buried there");
    assert_eq!(contender.verdict(SENT_US), RedlockVerdict::Lost);
}

/// Feeds the nodes' replies to a renewal, in order.
fn renew(contender: &mut Contender, heard: Vec<Result<Reply, String>>) -> Option<RenewalVerdict> {
    let (renewal, asked) = contender.renew();
    for (node, heard) in asked.into_iter().zip(heard) {
        contender.handle_renewal_reply(node, renewal, heard.map(|reply| (reply, anchor())));
    }
    contender.renewed(renewal, SENT_US)
}

fn renewed() -> Result<Reply, String> {
    Ok(Reply::Renewed(grant(2 * LEASE_MS)))
}

#[test]
fn a_majority_renews() {
    let longer = RenewalVerdict::Held { until_us: SENT_US + 20_000_000 - 200_000 - 2_000 };
    assert_eq!(renew(&mut held(3), vec![renewed()]), None);
    assert_eq!(renew(&mut held(3), vec![renewed(), renewed()]), Some(longer));
    assert_eq!(renew(&mut held(3), vec![Ok(Reply::NotHeld), renewed(), renewed()]), Some(longer));
    let down = || Err("it is down".to_owned());
    let mut contender = held(3);
    assert_eq!(
        renew(&mut contender, vec![renewed(), down(), down()]),
        Some(RenewalVerdict::NoQuorum)
    );
    assert_eq!(
        contender.verdict(SENT_US),
        RedlockVerdict::Held { until_us: UNTIL_US },
        "as before"
    );
}

#[test]
fn what_a_majority_has_no_more_is_lost_and_never_brought_back() {
    let mut contender = held(3);
    let heard = vec![renewed(), Ok(Reply::NotHeld), Ok(Reply::NotHeld)];
    assert_eq!(renew(&mut contender, heard), Some(RenewalVerdict::Lost));
    assert_eq!(renew(&mut contender, vec![renewed(); 3]), Some(RenewalVerdict::Lost));
    let mut contender = held(5);
    assert!(renew(&mut contender, vec![Ok(Reply::NotHeld)]).is_none());
    assert_eq!(contender.renew().1, [1, 2, 3, 4], "where it is gone nobody asks again");
}

#[test]
fn what_was_got_elsewhere_is_found_by_renewing_it() {
    let mut contender = Contender::adopted(3);
    assert_eq!(contender.verdict(SENT_US), RedlockVerdict::Open);
    assert!(matches!(renew(&mut contender, vec![renewed(); 2]), Some(RenewalVerdict::Held { .. })));
    let gone = vec![Ok(Reply::NotHeld); 2];
    assert_eq!(renew(&mut Contender::adopted(3), gone), Some(RenewalVerdict::Lost));
    let down = vec![Err("it is down".to_owned()); 2];
    assert_eq!(renew(&mut Contender::adopted(3), down), Some(RenewalVerdict::NoQuorum));
}

#[test]
fn a_lock_that_a_majority_says_was_broken_is() {
    let mut contender = held(3);
    contender.handle_revoked(0);
    assert!(matches!(contender.verdict(SENT_US), RedlockVerdict::Held { .. }));
    contender.handle_revoked(1);
    assert_eq!(contender.verdict(SENT_US), RedlockVerdict::Revoked);
    let revoked = vec![Ok(Reply::Revoked), Ok(Reply::Revoked)];
    assert_eq!(renew(&mut held(3), revoked), Some(RenewalVerdict::Revoked));
}

#[test]
fn the_vote_of_a_node_whose_clock_was_set_counts_no_more_until_it_is_renewed() {
    let mut contender = held(3);
    contender.handle_clock_set(0);
    assert!(matches!(contender.verdict(SENT_US), RedlockVerdict::Held { .. }));
    let mut renewing = contender.clone();
    assert!(matches!(renew(&mut renewing, vec![renewed(); 3]), Some(RenewalVerdict::Held { .. })));
    renewing.handle_clock_set(1);
    assert!(matches!(renewing.verdict(SENT_US), RedlockVerdict::Held { .. }));
    contender.handle_clock_set(1);
    assert_eq!(contender.verdict(SENT_US), RedlockVerdict::Lost);
}
