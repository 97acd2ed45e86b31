use taketurns_core::Ask;

use super::*;

const LOCK: u64 = 7;

fn words(lease_ms: u64, ask: Ask) -> AcquireWords {
    AcquireWords { lease_ms, at_least_ms: 0, wait_ms: None, ask, label: None, bound: false }
}

/// Connections that ask for one lock, which is held.
struct Desk {
    polls: Polls,
    words: AcquireWords,
    somebody_waits: bool,
    /// The secret of the next place.
    fresh: u64,
}

impl Desk {
    fn new() -> Self {
        let words = words(30_000, Ask::Mutex);
        Self { polls: Polls::default(), words, somebody_waits: true, fresh: 1 }
    }

    fn asker(&mut self, connection: u64, now_ms: u64) -> Option<PollAsker> {
        let target = PollTarget { connection, record: LOCK, words: &self.words };
        let fresh = || (ClientId::of_connection(self.fresh, false), self.fresh);
        let asker = self.polls.ask(target, now_ms, self.somebody_waits, fresh);
        self.fresh += u64::from(asker.is_some());
        asker
    }

    /// Asks, and is refused. Returns the identity if it has a place now.
    #[track_caller]
    fn ask(&mut self, connection: u64, now_ms: u64) -> Option<PollAsker> {
        let asker = self.asker(connection, now_ms);
        let target = PollTarget { connection, record: LOCK, words: &self.words };
        match asker {
            Some(asker) => self.polls.queued(target, asker, now_ms),
            None if self.somebody_waits => self.polls.refused(target, now_ms),
            None => {}
        }
        self.audit();
        asker
    }

    /// Asks at all of these times and is refused; the last refusal gives a place. Returns how long
    /// it lasts.
    #[track_caller]
    fn waiter_lease_ms(&mut self, connection: u64, times_ms: &[u64]) -> u64 {
        let askers: Vec<_> = times_ms.iter().map(|ms| self.ask(connection, *ms)).collect();
        askers.last().copied().flatten().expect("a place").waiter_lease_ms
    }

    #[track_caller]
    fn lapse(&mut self, now_ms: u64) -> Vec<(u64, Owner)> {
        let lapsed = self.polls.lapse(now_ms);
        self.audit();
        lapsed
    }

    /// Asserts that the counts match the places.
    #[track_caller]
    fn audit(&self) {
        let polls = || self.polls.by_connection.values().flatten();
        let places = || polls().filter_map(|poll| poll.place.as_ref());
        let offered = places().filter(|place| place.is_offered).count();
        let queued = places().count() - offered;
        let tally = PollTally { queued, offered };
        let expected = (tally != PollTally::default()).then_some(&tally);
        assert_eq!(self.polls.tallies.get(&LOCK), expected);
        assert_eq!(self.polls.len(), queued + offered);
        assert!(
            self.polls.by_connection.values().all(|polls| (1..=POLLS_MAX).contains(&polls.len()))
        );
    }
}

#[test]
fn only_the_second_refusal_within_a_second_makes_a_place() {
    let mut desk = Desk::new();
    assert!(desk.ask(1, 5_000).is_none());
    assert!(desk.ask(2, 5_001).is_none(), "another connection");
    assert!(desk.ask(1, 6_000).is_some());
    assert!(desk.ask(2, 6_002).is_none(), "more than a second later it tries once more");
    assert!(desk.ask(2, 6_003).is_some());
    assert_eq!(desk.polls.queued_in(LOCK), 2);
}

#[test]
fn a_poll_is_the_same_words_for_the_same_lock() {
    let mut desk = Desk::new();
    desk.ask(1, 5_000);
    for other in [words(30_000, Ask::Read), words(29_000, Ask::Mutex)] {
        let target = PollTarget { connection: 1, record: LOCK, words: &other };
        let asker = desk.polls.ask(target, 5_010, true, || (ClientId::NOBODY, 9));
        assert!(asker.is_none(), "{other:?}");
    }
    let target = PollTarget { connection: 1, record: LOCK + 1, words: &desk.words };
    assert!(desk.polls.ask(target, 5_010, true, || (ClientId::NOBODY, 9)).is_none());
    assert!(desk.ask(1, 5_010).is_some());
}

#[test]
fn each_poll_keeps_the_place_that_it_has() {
    let mut desk = Desk::new();
    desk.ask(1, 5_000);
    let first = desk.ask(1, 5_010).expect("a place");
    // Whether anybody waits matters only to a connection without a place.
    desk.somebody_waits = false;
    for ms in (5_020..6_500).step_by(30) {
        assert!(desk.lapse(ms).is_empty());
        let again = desk.ask(1, ms).expect("a place");
        assert_eq!((again.client, again.secret), (first.client, first.secret));
    }
    assert_eq!(desk.polls.len(), 1);
}

#[test]
fn who_polls_where_nobody_waits_takes_no_place() {
    let mut desk = Desk::new();
    desk.ask(1, 5_000);
    desk.somebody_waits = false;
    assert!((5_010..6_000).step_by(10).all(|ms| desk.ask(1, ms).is_none()));
    desk.lapse(6_001);
    assert!(!desk.polls.is_known(1), "nor is it remembered");
}

#[test]
fn a_place_lasts_for_three_of_the_longest_interval_from_50_ms_to_a_second() {
    for (times_ms, lease_ms) in [
        (&[5_000, 5_000][..], 50),
        (&[5_000, 5_010], 50),
        (&[5_000, 5_030], 90),
        (&[5_000, 5_030, 5_040, 5_050], 90),
        (&[5_000, 5_010, 5_050], 120),
        (&[5_000, 5_333], 999),
        (&[5_000, 5_334], 1_000),
        (&[5_000, 6_000], 1_000),
        // The clock was set back, and the module has not noticed yet.
        (&[5_000, 100], 50),
    ] {
        assert_eq!(Desk::new().waiter_lease_ms(1, times_ms), lease_ms, "{times_ms:?}");
    }
}

#[test]
fn a_place_that_is_not_kept_lapses_and_its_connection_may_poll_again() {
    let mut desk = Desk::new();
    desk.ask(1, 5_000);
    let first = desk.ask(1, 5_010).expect("a place");
    assert!(desk.lapse(5_059).is_empty());
    assert_eq!(desk.lapse(5_060), [(LOCK, first.owner())]);
    assert_eq!((desk.polls.len(), desk.polls.queued_in(LOCK)), (0, 0));
    // A pause is an interval too: the next place lasts longer.
    let second = desk.ask(1, 5_210).expect("a place");
    assert_eq!((second.secret != first.secret, second.waiter_lease_ms), (true, 600));
    assert_eq!(desk.lapse(5_810), [(LOCK, second.owner())]);
    assert!(desk.lapse(6_210).is_empty() && desk.polls.is_known(1));
    assert!(desk.lapse(6_211).is_empty() && !desk.polls.is_known(1));
}

#[test]
fn a_note_is_gone_after_a_second() {
    let mut desk = Desk::new();
    desk.ask(1, 5_000);
    desk.lapse(6_000);
    assert!(desk.polls.is_known(1));
    assert!(desk.lapse(6_001).is_empty());
    assert!(!desk.polls.is_known(1));
}

#[test]
fn an_offer_waits_for_one_waiter_lease_from_the_hand_over() {
    let mut desk = Desk::new();
    desk.ask(1, 5_000);
    let asker = desk.ask(1, 5_020).expect("a place");
    assert!(!desk.polls.offer(asker.client, LOCK + 1, 5_070), "a double of the lock");
    assert!(!desk.polls.offer(ClientId::of_connection(99, false), LOCK, 5_070), "another's");
    assert!(desk.polls.offer(asker.client, LOCK, 5_070));
    desk.audit();
    assert!(desk.polls.is_offering(LOCK) && desk.polls.queued_in(LOCK) == 0);
    assert!(desk.lapse(5_129).is_empty());
    assert_eq!(desk.asker(1, 5_129).map(|again| again.secret), Some(asker.secret));
    assert_eq!(desk.lapse(5_130), [(LOCK, asker.owner())]);
    assert!(!desk.polls.is_offering(LOCK));
    assert!(!desk.polls.offer(asker.client, LOCK, 5_131), "it is given back");
}

#[test]
fn who_comes_after_its_offer_has_lapsed_is_in_the_queue_again() {
    let mut desk = Desk::new();
    desk.ask(1, 5_000);
    let asker = desk.ask(1, 5_020).expect("a place");
    assert!(desk.polls.offer(asker.client, LOCK, 5_030));
    desk.ask(1, 5_095);
    assert!(!desk.polls.is_offering(LOCK));
    assert_eq!((desk.polls.len(), desk.polls.queued_in(LOCK)), (1, 1));
}

#[test]
fn nothing_is_left_of_a_poll_that_was_granted() {
    let mut desk = Desk::new();
    desk.ask(1, 5_000);
    let asker = desk.ask(1, 5_010).expect("a place");
    desk.polls.offer(asker.client, LOCK, 5_020);
    desk.polls.forget(PollTarget { connection: 1, record: LOCK, words: &desk.words });
    desk.audit();
    assert!(!desk.polls.is_known(1) && desk.polls.len() == 0);
    assert!(desk.polls.close(1).is_empty());
}

#[test]
fn what_a_connection_has_ends_with_it() {
    let mut desk = Desk::new();
    for connection in [1, 2] {
        desk.ask(connection, 5_000);
    }
    let (one, two) = (desk.ask(1, 5_010).expect("a place"), desk.ask(2, 5_010).expect("a place"));
    desk.polls.offer(one.client, LOCK, 5_011);
    assert_eq!(desk.polls.close(1), [(LOCK, one.owner())]);
    desk.audit();
    assert!(desk.polls.close(3).is_empty());
    assert_eq!(desk.polls.clear(), [(LOCK, two.owner())]);
    desk.audit();
}

#[test]
fn a_place_may_be_lost_and_its_connection_may_poll_again() {
    let mut desk = Desk::new();
    desk.ask(1, 5_000);
    let asker = desk.ask(1, 5_010).expect("a place");
    assert!(!desk.polls.drop_place(asker.client, LOCK + 1));
    assert!(desk.polls.drop_place(asker.client, LOCK));
    desk.audit();
    assert!(!desk.polls.drop_place(asker.client, LOCK));
    assert!(desk.ask(1, 5_020).is_some_and(|again| again.secret != asker.secret));
}

#[test]
fn one_connection_polls_for_so_many_locks_and_no_more() {
    let mut desk = Desk::new();
    for lock in 0..100 {
        desk.polls.refused(PollTarget { connection: 1, record: lock, words: &desk.words }, 5_000);
    }
    let asks = |lock: &u64| {
        let target = PollTarget { connection: 1, record: *lock, words: &desk.words };
        desk.polls.ask(target, 5_010, true, || (ClientId::NOBODY, 9)).is_some()
    };
    assert_eq!((0..100).filter(asks).count(), POLLS_MAX);
}
