use std::time::Duration;

use taketurns::{Ask, ClientId, Completion, Kind, Label, Token, WorkView};

use super::*;

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn holder(token: u64, held_ms: u64) -> HolderView {
    let label = Label::new("host:1 sh", "nightly").unwrap();
    let mut holder = HolderView::new(label, ClientId::from_bits(1), Ask::Mutex);
    holder.token = Some(Token::from_raw(token));
    holder.held_for = Duration::from_millis(held_ms);
    holder.left = Duration::from_secs(30);
    holder
}

pub(crate) fn held(token: u64, held_ms: u64) -> View {
    let mut view = View::default();
    view.holders = vec![holder(token, held_ms)];
    view
}

/// Work that was done `ago_s` seconds ago, and is remembered for 100 seconds.
pub(crate) fn done(ago_s: u64) -> View {
    let by = Label::new("host:1 sh", "nightly").unwrap();
    let done = Completion::new(by, Token::from_raw(7), 1_794_796_267_000, 1_794_796_367_000);
    let mut view = View::default();
    view.kind = Kind::Once;
    view.work = Some(WorkView::new(0, Duration::from_secs(100 - ago_s), Some(done)));
    view
}

/// Work that is not done after this number of attempts.
pub(crate) fn failed(attempts: u32) -> View {
    let mut view = View::default();
    view.kind = Kind::Once;
    view.work = Some(WorkView::new(attempts, Duration::from_secs(9), None));
    view
}

fn waiter(client: u64, waited_ms: u64) -> WaiterView {
    let label = Label::new("host:1 sh", "nightly").unwrap();
    let waited_for = Duration::from_millis(waited_ms);
    WaiterView::new(label, ClientId::from_bits(client), Ask::Mutex, waited_for)
}

fn held_and_waited_for(token: u64, held_ms: u64, waiters: Vec<WaiterView>) -> View {
    let mut view = held(token, held_ms);
    (view.waiting, view.waiters) = (waiters.len(), waiters);
    view
}

/// How many waits were counted.
fn counted(watch: &LockHistory) -> u64 {
    watch.waits().counts.iter().sum()
}

fn ends(watch: &LockHistory) -> Vec<(u64, u64, Option<u64>)> {
    let turn = |turn: &&ObservedTurn| (turn.token.unwrap().raw(), turn.from_ms, turn.to_ms);
    watch.turns(&Filter::default(), None, 100).iter().map(turn).collect()
}

#[test]
fn a_turn_is_followed_from_its_grant_to_its_end() {
    let mut watch = LockHistory::default();
    watch.see(10_000, vec![]);
    watch.see(10_500, vec![(name("a"), held(7, 200))]);
    watch.see(11_000, vec![(name("a"), held(7, 700))]);
    assert_eq!(ends(&watch), [(7, 10_300, None)], "one turn, however often it is seen");
    // The next one has had it for 100 ms: by then the first was gone.
    watch.see(11_500, vec![(name("a"), held(8, 100))]);
    assert_eq!(ends(&watch), [(8, 11_400, None), (7, 10_300, Some(11_400))]);
    // Free, and then forgotten.
    watch.see(12_000, vec![(name("a"), View::default())]);
    watch.see(12_500, vec![]);
    assert_eq!(ends(&watch), [(8, 11_400, Some(12_000)), (7, 10_300, Some(11_400))]);
    assert_eq!(watch.grants(), 2);
}

#[test]
fn only_what_is_new_is_told_again() {
    let mut watch = LockHistory::default();
    watch.see(1_000, vec![(name("a"), held(1, 0)), (name("b"), held(2, 0))]);
    watch.see(2_000, vec![(name("a"), held(1, 1_000)), (name("b"), View::default())]);
    let new = |watch: &LockHistory, after_ms, filter: &str| -> Vec<String> {
        watch
            .turns(&Filter::new(filter), after_ms, 9)
            .iter()
            .map(|turn| turn.lock.to_string())
            .collect()
    };
    assert_eq!(new(&watch, None, ""), ["a", "b"]);
    assert_eq!(new(&watch, Some(1), ""), ["b"]);
    assert_eq!(new(&watch, None, "A"), ["a"]);
    let mut broken = held(1, 2_000);
    broken.holders[0].revoked = true;
    watch.see(3_000, vec![(name("a"), broken)]);
    assert_eq!(new(&watch, Some(2), ""), ["a"], "it was broken meanwhile");
    watch.see(500, vec![]);
    assert_eq!(new(&watch, Some(3), ""), ["a"], "also if the clock was set back");
    assert!(watch.turns(&Filter::new("a"), None, 1)[0].broken);
}

#[test]
fn who_was_there_before_the_first_look_is_no_grant_and_no_wait() {
    let mut watch = LockHistory::default();
    watch.see(1_000, vec![(name("a"), held(1, 60_000))]);
    assert_eq!((watch.grants(), counted(&watch)), (0, 0));
}

#[test]
fn a_wait_ends_with_the_grant_of_who_waited() {
    let mut watch = LockHistory::default();
    let line = vec![waiter(1, 4_000), waiter(1, 3_000), waiter(2, 2_000)];
    watch.see(10_000, vec![(name("a"), held_and_waited_for(5, 9_000, line))]);
    // Granted 200 ms after the look, so 4.2 s after it came.
    let line = vec![waiter(1, 3_500), waiter(2, 2_500)];
    watch.see(10_500, vec![(name("a"), held_and_waited_for(6, 300, line))]);
    assert_eq!(watch.waits().sum_ms, 4_200);
    // Somebody who was never seen to wait came after the last look.
    watch.see(11_000, vec![(name("b"), held(9, 100))]);
    assert_eq!((watch.waits().sum_ms, counted(&watch)), (4_200, 2));
}

#[test]
fn a_wait_in_a_line_that_was_not_seen_to_its_end_is_not_guessed() {
    let mut watch = LockHistory::default();
    let mut crowd = held_and_waited_for(5, 9_000, vec![waiter(2, 9_000)]);
    crowd.waiting = 1_000;
    watch.see(10_000, vec![(name("a"), crowd)]);
    watch.see(10_500, vec![(name("a"), held(6, 300))]);
    assert_eq!((watch.grants(), counted(&watch)), (1, 0));
}

#[test]
fn a_wait_between_two_looks_that_are_far_apart_is_not_guessed() {
    let mut watch = LockHistory::default();
    watch.see(10_000, vec![]);
    watch.see(14_000, vec![(name("a"), held(1, 500))]);
    assert_eq!((watch.grants(), counted(&watch)), (1, 0), "it may have waited for 3.5 s");
}

#[test]
fn holders_without_tokens_are_told_apart_by_who_and_since_when() {
    let without = |held_ms| {
        let mut view = held(0, held_ms);
        view.holders[0].token = None;
        view
    };
    let mut watch = LockHistory::default();
    watch.see(10_000, vec![(name("a"), without(2_000))]);
    watch.see(10_500, vec![(name("a"), without(2_480))]);
    assert_eq!(watch.turns(&Filter::default(), None, 9).len(), 1, "the same, seen with some delay");
    watch.see(11_000, vec![(name("a"), without(100))]);
    assert_eq!(watch.turns(&Filter::default(), None, 9).len(), 2);
}

#[test]
fn totals_and_the_busiest() {
    let mut watch = LockHistory::default();
    let mut quarantined = View::default();
    quarantined.quarantine_left = Some(Duration::from_millis(5));
    let locks = vec![
        (name("calm"), held(1, 700)),
        (name("busy"), held_and_waited_for(2, 300, vec![waiter(1, 250), waiter(2, 50)])),
        (name("paused"), quarantined),
        (name("done"), done(70)),
        (name("failed"), failed(2)),
    ];
    watch.see(1_000, locks);
    let totals = Totals {
        locks: 5,
        held: 2,
        waiting: 2,
        quarantined: 1,
        done: 1,
        failed: 1,
        longest_wait_ms: 250,
        longest_hold_ms: 700,
    };
    assert_eq!(watch.totals(), totals);
    let (first, matching) = watch.locks(&Filter::default(), Sort::default(), 1);
    assert_eq!((first[0].0.as_str(), matching), ("busy", 5));
    assert_eq!(watch.done().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["done"]);
    assert_eq!(watch.locks(&Filter::new("alm"), Sort::default(), 9).1, 1);
}
