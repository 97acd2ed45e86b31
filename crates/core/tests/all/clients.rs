//! What a lock says without a step, for the engine that keeps it.

use taketurns_core::{AcquireRequest, Ask, ClientId, Label, Lock, Member, Now, Owner, Request};

const AT: Now = Now { ms: 1_000, wall_us: 1_000_000 };

fn acquire(lock: &mut Lock, number: u64) -> ClientId {
    let client = ClientId::from_bits(number);
    let request = AcquireRequest {
        owner: Owner::from_bits(number.into()),
        client,
        ask: Ask::Mutex,
        at_least_ms: 0,
        lease_ms: 30_000,
        waiter_lease_ms: Some(3_000),
        not_after_ms: 11_000,
        ballot: None,
        label: Label::default(),
    };
    lock.apply(AT, &Request::Acquire(request));
    client
}

#[test]
fn a_client_waits_then_was_handed_the_lock_and_then_has_answered() {
    let mut lock = Lock::new();
    let (holder, waiter) = (acquire(&mut lock, 1), acquire(&mut lock, 2));
    assert!(!lock.is_waited_for_by(holder) && !lock.has_handed_to(holder));
    assert!(lock.is_waited_for_by(waiter) && !lock.has_handed_to(waiter));

    lock.apply(
        AT,
        &Request::Release { owner: Owner::from_bits(1), bury_until_ms: 0, last_used: None },
    );
    assert!(!lock.is_waited_for_by(waiter) && lock.has_handed_to(waiter));

    let owner = Owner::from_bits(2);
    lock.apply(AT, &Request::Renew { owner, client: waiter, lease_ms: 30_000, write_back: None });
    assert!(!lock.is_waited_for_by(waiter) && !lock.has_handed_to(waiter));
}

#[test]
fn a_lock_is_blank_until_there_is_something_to_remember() {
    let release = |bury_until_ms| Request::Release {
        owner: Owner::from_bits(1),
        bury_until_ms,
        last_used: None,
    };
    let mut lock = Lock::new();
    lock.apply(AT, &release(0));
    assert!(lock.is_blank(), "nothing was ever given out");
    lock.apply(AT, &release(AT.ms + 10));
    assert!(!lock.is_blank(), "a cancelled owner is remembered");
    lock.apply(Now { ms: AT.ms + 10, ..AT }, &Request::Tick);
    assert!(lock.is_blank(), "and forgotten");

    acquire(&mut lock, 1);
    assert!(!lock.is_blank());
    lock.apply(AT, &release(0));
    assert!(!lock.is_blank(), "the last token is remembered");

    let mut pool = Lock::new();
    pool.apply(AT, &Request::PoolAdd { member: Member::new("m").unwrap() });
    assert!(!pool.is_blank(), "members are remembered");
}

#[test]
fn a_tick_is_due_when_a_head_that_asks_for_too_much_lapses() {
    let mut lock = Lock::new();
    let mut ask = |number: u64, ask, waiter_lease_ms| {
        let request = AcquireRequest {
            owner: Owner::from_bits(number.into()),
            client: ClientId::from_bits(number),
            ask,
            at_least_ms: 0,
            lease_ms: 30_000,
            waiter_lease_ms: Some(waiter_lease_ms),
            not_after_ms: 11_000,
            ballot: None,
            label: Label::default(),
        };
        lock.apply(AT, &Request::Acquire(request));
        lock.due_ms()
    };
    assert_eq!(ask(1, Ask::Read, 3_000), None, "nobody waits");
    assert_eq!(ask(2, Ask::Write, 3_000), Some(4_000), "the writer lapses before the reader ends");
    assert_eq!(ask(3, Ask::Read, 60_000), Some(4_000));
    let step = lock.apply(Now { ms: 4_000, wall_us: 4_000_000 }, &Request::Tick);
    assert_eq!(step.wakes.len(), 1, "the second reader reads beside the first");

    // A request for the whole capacity waits for the holder.
    let mut mutex = Lock::new();
    acquire(&mut mutex, 1);
    acquire(&mut mutex, 2);
    assert_eq!(mutex.due_ms(), Some(31_000));
}
