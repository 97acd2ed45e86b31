//! Work that was done elsewhere, in a transaction of a user: a lock takes it over.

use taketurns_core::{
    AcquireRequest, Ask, ClientId, Label, Lock, Note, Now, OnceTerms, Owner, Reply, Request, Token,
    WakeEvent,
};

const START_MS: u64 = 1_790_000_000_000;
const LEASE_MS: u64 = 30_000;
const KEEP_MS: u64 = 60_000;

fn at(ms: u64) -> Now {
    Now { ms, wall_us: (START_MS + ms) * 1_000 }
}

fn acquire(lock: &mut Lock, now: Now, number: u64, ask: Ask) -> Reply {
    let request = Request::Acquire(AcquireRequest {
        owner: Owner::from_bits(number.into()),
        client: ClientId::from_bits(number),
        ask,
        at_least_ms: 0,
        lease_ms: LEASE_MS,
        waiter_lease_ms: Some(LEASE_MS),
        not_after_ms: u64::MAX,
        ballot: None,
        label: Label::new("worker", "a test").expect("a label"),
    });
    lock.apply(now, &request).reply
}

fn begin(lock: &mut Lock, now: Now, number: u64) -> Reply {
    let terms = OnceTerms { keep_ms: KEEP_MS, offset_ms: None, attempts: 0, pause_ms: 0 };
    acquire(lock, now, number, Ask::Once(terms))
}

fn attempted() -> (Lock, Token) {
    let mut lock = Lock::new();
    assert!(matches!(begin(&mut lock, at(0), 1), Reply::Granted(_)));
    let token = lock.attempt().expect("an attempt");
    (lock, token)
}

fn note() -> Note {
    Note::new("3 rows").expect("a note")
}

#[test]
fn those_who_wait_and_those_who_ask_are_told_though_the_lease_has_ended_since() {
    let (mut lock, token) = attempted();
    assert!(matches!(begin(&mut lock, at(1), 2), Reply::Queued(_)));
    let now = at(LEASE_MS + 5);
    assert!(lock.take_over_done(now, token, START_MS + 10, &note()));
    lock.audit().expect("sound");
    assert_eq!((lock.attempt(), lock.done_by()), (None, Some(token)));
    let step = lock.apply(now, &Request::Tick);
    let [wake] = &step.wakes[..] else { panic!("one waits: {step:?}") };
    let WakeEvent::DoneBefore(done) = &wake.event else { panic!("it is done: {wake:?}") };
    assert_eq!((done.token, done.at_ms, done.failed), (token, START_MS + 10, 0));
    assert_eq!((done.until_ms, done.result.as_str()), (START_MS + 10 + KEEP_MS, "3 rows"));
    assert_eq!(done.by.who(), "worker");
    assert!(matches!(begin(&mut lock, now, 3), Reply::DoneBefore(_)));
    lock.audit().expect("sound");
}

#[test]
fn another_attempt_and_another_kind_are_left_alone() {
    let (mut lock, token) = attempted();
    let before = lock.clone();
    let other = Token::from_raw(token.raw() - 1);
    assert!(!lock.take_over_done(at(1), other, START_MS, &note()));
    assert_eq!(lock, before);
    let mut mutex = Lock::new();
    assert!(matches!(acquire(&mut mutex, at(0), 1, Ask::Mutex), Reply::Granted(_)));
    assert_eq!(mutex.attempt(), None);
    let token = mutex.last_token().expect("a token");
    assert!(!mutex.take_over_done(at(1), token, START_MS, &note()));
}

#[test]
fn work_whose_time_is_over_is_forgotten_and_can_be_done_again() {
    let (mut lock, token) = attempted();
    let now = at(KEEP_MS + 20);
    assert!(lock.take_over_done(now, token, START_MS + 10, &note()));
    lock.audit().expect("sound");
    assert_eq!((lock.attempt(), lock.done_by()), (None, None));
    assert!(matches!(begin(&mut lock, now, 2), Reply::Granted(_)));
    assert!(lock.attempt().is_some_and(|next| next > token));
}
