//! A step is bounded however many wait. Counted, not timed.

use taketurns_core::{
    AcquireRequest, Ask, ClientId, Label, Lock, Member, Now, Owner, Refusal, Reply, Request, Step,
    limits,
};

const STEP: u64 = limits::STEP_MAX as u64;
const WAITER_LEASE_MS: u64 = 3_000;

fn at(ms: u64) -> Now {
    Now { ms, wall_us: ms * 1_000 }
}

fn acquire(number: u64, client: u64, ask: Ask) -> Request {
    Request::Acquire(AcquireRequest {
        owner: Owner::from_bits(number.into()),
        client: ClientId::from_bits(client),
        ask,
        at_least_ms: 0,
        lease_ms: limits::LEASE_MS_DEFAULT,
        waiter_lease_ms: Some(WAITER_LEASE_MS),
        not_after_ms: u64::MAX,
        ballot: None,
        label: Label::default(),
    })
}

fn release(number: u64) -> Request {
    Request::Release { owner: Owner::from_bits(number.into()), bury_until_ms: 0, last_used: None }
}

/// Held by owner 0 and awaited by as many others as there may be, each of a client of its own.
fn crowded(holder: Ask, waiter: &Ask) -> Lock {
    let mut lock = Lock::new();
    lock.apply(at(0), &acquire(0, 0, holder));
    for number in 1..=limits::QUEUE_MAX as u64 {
        lock.apply(at(0), &acquire(number, number, waiter.clone()));
    }
    lock
}

/// The place at the front, as a refresh tells it.
fn front(step: &Step) -> u64 {
    let Reply::Refreshed { front, .. } = step.reply else { panic!("{:?}", step.reply) };
    front
}

#[test]
fn a_step_skips_a_bounded_number_of_a_hundred_thousand_dead_waiters() {
    let mut lock = crowded(Ask::Mutex, &Ask::Mutex);
    // All have died but the last, which refreshes: each refresh is a step that goes on skipping.
    let count = limits::QUEUE_MAX as u64;
    let refresh =
        Request::Refresh { client: ClientId::from_bits(count), waiter_lease_ms: WAITER_LEASE_MS };
    lock.apply(at(2_000), &refresh);
    let step = lock.apply(at(WAITER_LEASE_MS), &release(0));
    assert!(step.more && step.wakes.is_empty());
    let mut skipped = STEP;
    let last = loop {
        let step = lock.apply(at(WAITER_LEASE_MS), &refresh);
        if !step.more {
            break step;
        }
        skipped += STEP;
        assert_eq!(front(&step), skipped, "a step skips as many as it may, and no more");
    };
    assert!(count - skipped <= STEP);
    assert_eq!(last.wakes.len(), 1);
    assert_eq!(last.wakes[0].owner, Owner::from_bits(count.into()));
    lock.audit().unwrap();
}

#[test]
fn a_step_grants_a_bounded_number_of_a_hundred_thousand_readers() {
    let mut lock = crowded(Ask::Write, &Ask::Read);
    let mut step = lock.apply(at(1), &release(0));
    let mut granted = 0;
    while step.more {
        assert_eq!(step.wakes.len() as u64, STEP);
        granted += STEP;
        step = lock.apply(at(1), &Request::Tick);
    }
    assert_eq!(granted + step.wakes.len() as u64, limits::HOLDERS_MAX as u64);
    lock.audit().unwrap();
}

#[test]
fn who_finds_the_queue_full_has_looked_for_the_dead_everywhere() {
    let mut lock = crowded(Ask::Mutex, &Ask::Mutex);
    let mut replica = lock.clone();
    let mut repeated = |lock: &mut Lock, now: Now, request: &Request| {
        let seen_ms = lock.seen_ms();
        let step = lock.apply(now, request);
        if step.changed {
            replica.see(seen_ms);
            replica.apply(now, request);
        }
        replica.see(now.ms);
        assert!(replica == *lock, "after {request:?}");
        step.reply
    };
    let first = limits::QUEUE_MAX as u64 + 1;
    let full = acquire(first, first, Ask::Mutex);
    assert_eq!(repeated(&mut lock, at(1), &full), Reply::Refused(Refusal::QueueFull));
    // All have died: two places are free that were behind the last look.
    let reply = repeated(&mut lock, at(WAITER_LEASE_MS), &full);
    assert!(matches!(reply, Reply::Queued(_)), "{reply:?}");
}

#[test]
fn a_full_pool_takes_no_further_member_and_hands_out_a_bounded_number_in_one_step() {
    let mut lock = Lock::new();
    let member = |n: usize| Member::new(&format!("m{n}")).unwrap();
    for n in 0..limits::MEMBERS_MAX {
        lock.apply(at(0), &Request::PoolAdd { member: member(n) });
        lock.apply(at(0), &acquire(n as u64, 0, Ask::Any));
    }
    let full = Request::PoolAdd { member: member(limits::MEMBERS_MAX) };
    assert_eq!(lock.apply(at(0), &full).reply, Reply::Refused(Refusal::PoolFull));
    let again = Request::PoolAdd { member: member(0) };
    assert_eq!(lock.apply(at(0), &again).reply, Reply::Changed(false), "what is there is there");

    // All of the holders' leases end at one moment, and twice a step's worth of waiters are alive.
    let end = at(limits::LEASE_MS_DEFAULT);
    for number in 2_000..2_000 + 2 * STEP {
        lock.apply(at(end.ms - 1), &acquire(number, number, Ask::Any));
    }
    let first = lock.apply(end, &Request::Tick);
    assert!(first.more && first.wakes.len() as u64 == STEP);
    let second = lock.apply(end, &Request::Tick);
    assert!(!second.more && second.wakes.len() as u64 == STEP);
    lock.audit().unwrap();
}

#[test]
fn a_step_that_ends_exactly_at_the_bound_has_no_more_to_do() {
    let mut lock = Lock::new();
    lock.apply(at(0), &acquire(0, 0, Ask::Mutex));
    for number in 1..=STEP {
        lock.apply(at(0), &acquire(number, 1, Ask::Mutex));
    }
    let step = lock.apply(at(WAITER_LEASE_MS), &release(0));
    assert!(!step.more, "all {STEP} were skipped in one step");
    let step = lock.apply(at(WAITER_LEASE_MS), &acquire(100, 2, Ask::Mutex));
    assert!(matches!(step.reply, Reply::Granted(_)));
}
