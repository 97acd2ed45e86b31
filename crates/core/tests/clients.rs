//! What a lock says without a step, for the engine that keeps it.

use taketurns_core::{Acquire, Ask, ClientId, Label, Lock, Member, Now, Owner, Request};

const AT: Now = Now { ms: 1_000, wall_us: 1_000_000 };

fn acquire(lock: &mut Lock, number: u64) -> ClientId {
    let client = ClientId::from_bits(number);
    let request = Acquire {
        owner: Owner::from_bits(number.into()),
        client,
        ask: Ask::Mutex,
        lease_ms: 30_000,
        waiter_lease_ms: Some(3_000),
        not_after_ms: 11_000,
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

    lock.apply(AT, &Request::Release { owner: Owner::from_bits(1), bury_until_ms: 0 });
    assert!(!lock.is_waited_for_by(waiter) && lock.has_handed_to(waiter));

    let owner = Owner::from_bits(2);
    lock.apply(AT, &Request::Renew { owner, client: waiter, lease_ms: 30_000 });
    assert!(!lock.is_waited_for_by(waiter) && !lock.has_handed_to(waiter));
}

#[test]
fn a_lock_is_blank_until_there_is_something_to_remember() {
    let release = |bury_until_ms| Request::Release { owner: Owner::from_bits(1), bury_until_ms };
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
