//! A stored lock that was damaged must not be restored as a lock.

use super::*;
use crate::{
    AcquireRequest, Ask, AttemptEnd, Label, Now, OnceTerms, Refusal, Reply, Request, Token,
};

const NOW: Now = Now { ms: 1_000, wall_us: 5 };

fn acquire(lock: &mut Lock, bits: u64, ask: Ask) {
    let acquire = AcquireRequest {
        owner: Owner::from_bits(bits.into()),
        client: ClientId::from_bits(bits),
        ask,
        at_least_ms: 0,
        lease_ms: 1_000,
        waiter_lease_ms: Some(500),
        not_after_ms: u64::MAX,
        ballot: None,
        label: Label::default(),
    };
    lock.apply(NOW, &Request::Acquire(acquire));
}

fn release(lock: &mut Lock, bits: u128, bury_until_ms: u64) {
    let owner = Owner::from_bits(bits);
    lock.apply(NOW, &Request::Release { owner, bury_until_ms, last_used: None });
}

fn member(name: &str) -> Member {
    Member::new(name).unwrap()
}

/// Owner 2 was handed the lock, owners 3 and 4 wait, owner 9 has a tombstone.
fn mutex() -> Lock {
    let mut lock = Lock::new();
    (1..=4).for_each(|bits| acquire(&mut lock, bits, Ask::Mutex));
    release(&mut lock, 1, 0);
    release(&mut lock, 9, 9_000);
    lock
}

/// Owners 1 and 2 have `a` and `b`, `c` and `d` are free, owner 3 waits for `a`.
fn pool() -> Lock {
    let mut lock = Lock::new();
    for name in ["a", "b", "c", "d"] {
        lock.apply(NOW, &Request::PoolAdd { member: member(name) });
    }
    for (bits, name) in [(1, "a"), (2, "b"), (3, "a")] {
        acquire(&mut lock, bits, Ask::Member(member(name)));
    }
    lock
}

/// Owners 1 and 2 read.
fn read() -> Lock {
    let mut lock = Lock::new();
    (1..=2).for_each(|bits| acquire(&mut lock, bits, Ask::Read));
    lock
}

fn damaged(lock: fn() -> Lock, damage: fn(&mut Snapshot)) -> Result<Lock, CorruptSnapshot> {
    let mut snapshot = lock().snapshot();
    damage(&mut snapshot);
    Lock::restore(snapshot)
}

#[test]
fn what_was_stored_is_read_back() {
    for lock in [mutex, pool, read] {
        assert_eq!(damaged(lock, |_| {}), Ok(lock()));
    }
}

#[test]
fn what_can_not_be_a_lock_is_refused() {
    type Case = (fn() -> Lock, fn(&mut Snapshot), &'static str);
    let cases: &[Case] = &[
        (mutex, |s| s.holders.push(s.holders[0].clone()), "one owner holds twice"),
        (mutex, |s| s.places.push(s.places[0].clone()), "one place is taken twice"),
        (mutex, |s| s.places[0].1.owner = s.places[1].1.owner, "one owner waits twice"),
        (mutex, |s| s.places[0].1.owner = s.holders[0].owner, "one owner both holds and waits"),
        (mutex, |s| s.places[1].0 = s.next_place, "a place was never given out"),
        (
            mutex,
            |s| s.places[1].1.client = ClientId::from_bits(99),
            "a client's places are miscounted",
        ),
        (mutex, |s| s.clients.retain(|(_, client)| client.waiting == 0), "a waiter has no client"),
        (mutex, |s| s.clients[0].1.handed.clear(), "a client is remembered for nothing"),
        (
            mutex,
            |s| s.clients[1].1.handed = s.clients[0].1.handed.clone(),
            "a hand-over has no holder",
        ),
        (mutex, |s| s.holders[0].handed = false, "a hand-over has no holder"),
        (mutex, |s| drop(s.clients.remove(0)), "a hand-over has no client"),
        (mutex, |s| s.places[0].1.ask = Ask::Read, "a waiter is of another kind than its lock"),
        (mutex, |s| s.kind = Kind::RwLock, "a holder is of another kind than its lock"),
        (mutex, |s| s.last_token -= 1, "a holder's token was never given out"),
        (mutex, |s| s.last_token = limits::COUNTED_MAX + 1, "the last token is past the largest"),
        (mutex, |s| s.next_place = u64::MAX, "a place or an era is past the largest"),
        (mutex, |s| s.era.number = u64::MAX, "a place or an era is past the largest"),
        (pool, |s| s.next_free = u64::MAX, "a member is freed past the largest moment"),
        (read, |s| s.ends.first_ms += 1, "a lease ends outside the bounds of all"),
        (read, |s| s.ends.last_ms -= 1, "a lease ends outside the bounds of all"),
        (
            mutex,
            |s| s.sweep_at = Some((s.next_place, Owner::from_bits(1))),
            "the sweep goes on at a place that is not there",
        ),
        (mutex, |s| s.clients[0].1.era = 1, "a client is of an era to come"),
        (read, |s| s.holders[0].token = s.holders[1].token, "two holders have one token"),
        (read, |s| s.holders[0].ask = Ask::Write, "more is held than there is"),
        (pool, |s| s.members.push(s.members[0].clone()), "one member is there twice"),
        (pool, |s| s.members[2].1 = s.members[3].1, "two members are free since the same moment"),
        (pool, |s| s.holders[0].member = s.holders[1].member.clone(), "one member has two holders"),
        (pool, |s| s.holders[0].member = None, "a holder of the pool has no member"),
        (
            pool,
            |s| s.members[0].1 = MemberState::Free(0),
            "a member's state is not that of its holder",
        ),
        (
            pool,
            |s| s.members[2].1 = MemberState::Held { leaving: false },
            "a member's state is not that of its holder",
        ),
        (pool, |s| s.offered += 1, "a member was offered before it was freed"),
        (
            pool,
            |s| (s.next_free, s.offered) = (s.next_free - 1, 0),
            "a member is free since a moment to come",
        ),
        (pool, |s| s.places[0].1.ask = Ask::Any, "a member is free while somebody waits for it"),
        (
            pool,
            |s| s.places[0].1.ask = Ask::Member(member("d")),
            "a member is free while somebody waits for it",
        ),
        (
            pool,
            |s| {
                (s.kind, s.holders, s.places, s.clients) = (Kind::Mutex, vec![], vec![], vec![]);
            },
            "there are members, but it is no pool",
        ),
    ];
    for (lock, damage, message) in cases {
        assert_eq!(damaged(*lock, *damage), Err(CorruptSnapshot(message)));
    }
}

#[test]
fn a_semaphore_made_smaller_may_hold_more_than_it_has() {
    let mut lock = Lock::new();
    acquire(&mut lock, 1, Ask::Permits { take: 3, of: 3 });
    lock.apply(NOW, &Request::Resize { permits: 1 });
    assert_eq!(Lock::restore(lock.snapshot()), Ok(lock));
}

#[test]
fn the_largest_last_token_is_one() {
    assert!(damaged(mutex, |s| s.last_token = limits::COUNTED_MAX).is_ok());
}

/// It would be granted once more, and could then never be restored.
#[test]
fn a_lock_that_has_no_token_left_to_give_is_refused() {
    let refused = damaged(mutex, |s| s.last_token = limits::TOKEN_MAX);
    assert_eq!(refused, Err(CorruptSnapshot("the last token is past the largest")));
}

#[test]
fn no_stored_lock_is_past_a_limit() {
    let mut lock = Lock::new();
    (1..=limits::HOLDERS_MAX as u64)
        .for_each(|bits| acquire(&mut lock, bits, Ask::Permits { take: 1, of: 9_999 }));
    let mut snapshot = lock.snapshot();
    assert_eq!(Lock::restore(snapshot.clone()), Ok(lock));
    let mut one_more = snapshot.holders[0].clone();
    one_more.owner = Owner::from_bits(0);
    one_more.token = Token::from_raw(1);
    snapshot.holders.push(one_more);
    assert_eq!(Lock::restore(snapshot), Err(CorruptSnapshot("too many holders")));

    let mut lock = Lock::new();
    for n in 0..limits::MEMBERS_MAX {
        lock.apply(NOW, &Request::PoolAdd { member: member(&n.to_string()) });
    }
    let mut snapshot = lock.snapshot();
    assert_eq!(Lock::restore(snapshot.clone()), Ok(lock));
    snapshot.members.push((member("one more"), MemberState::Free(snapshot.next_free)));
    assert_eq!(Lock::restore(snapshot), Err(CorruptSnapshot("too many members")));

    let mut snapshot = mutex().snapshot();
    let (_, waiter) = snapshot.places[1].clone();
    let more = limits::QUEUE_MAX - snapshot.places.len();
    for n in 0..more as u64 {
        let owner = Owner::from_bits(u128::from(n) + 100);
        snapshot.places.push((snapshot.next_place + n, Waiter { owner, ..waiter.clone() }));
    }
    snapshot.clients[2].1.waiting += more as u32;
    snapshot.next_place += more as u64;
    assert!(Lock::restore(snapshot.clone()).is_ok());
    let owner = Owner::from_bits(99);
    snapshot.places.push((snapshot.next_place, Waiter { owner, ..waiter }));
    assert_eq!(Lock::restore(snapshot), Err(CorruptSnapshot("too many waiters")));
}

#[test]
fn on_another_clock_a_holder_keeps_what_was_left_of_its_lease() {
    for now_ms in [50, 1_000, 900_000] {
        let lock = Lock::restore(mutex().snapshot().on_another_clock(now_ms)).unwrap();
        let left_ms = |lock: &Lock, now_ms| {
            let view = lock.view(Now { ms: now_ms, wall_us: 5 }, 10);
            view.holders.iter().map(|holder| holder.left.as_millis()).collect::<Vec<_>>()
        };
        assert_eq!(left_ms(&lock, now_ms), left_ms(&mutex(), NOW.ms), "{now_ms}");
        assert_eq!(left_ms(&lock, now_ms + 499).len(), 1);
        assert!(left_ms(&lock, now_ms + 500).is_empty(), "a hand-over lasts a waiter lease");
        assert_eq!(lock.seen_ms(), now_ms);
    }
}

/// Does a client that waits count as dead now?
fn has_lapsed_waiters(lock: &Lock, now: Now) -> bool {
    let lapses_ms = |id| lock.queue.client_lapses_ms(id);
    let mut clients = lock.queue.clients().filter(|(_, client)| client.waiting > 0);
    clients.any(|(id, _)| lapses_ms(id).is_some_and(|at_ms| at_ms <= now.ms))
}

#[test]
fn on_another_clock_a_waiter_has_a_full_waiter_lease() {
    let lapsed = Now { ms: NOW.ms + 500, ..NOW };
    assert!(has_lapsed_waiters(&mutex(), lapsed) && !has_lapsed_waiters(&mutex(), NOW));
    let moved = Lock::restore(mutex().snapshot().on_another_clock(900_000)).unwrap();
    assert!(!has_lapsed_waiters(&moved, Now { ms: 900_499, wall_us: 5 }));
    assert!(has_lapsed_waiters(&moved, Now { ms: 900_500, wall_us: 5 }));
}

#[test]
fn a_refresh_that_was_stored_elsewhere_keeps_a_place_alive() {
    let (mut lock, later) = (mutex(), Now { ms: NOW.ms + 600, ..NOW });
    let seen = Now { ms: NOW.ms + 400, ..NOW };
    lock.record_refresh(ClientId::from_bits(3), 500, seen);
    assert!(has_lapsed_waiters(&lock, later), "the other client's place");
    lock.record_refresh(ClientId::from_bits(4), 500, seen);
    assert!(!has_lapsed_waiters(&lock, later));
}

#[test]
fn on_another_clock_tombstones_and_quarantine_move_too() {
    let mut lock = mutex();
    lock.quarantine(5_000);
    let mut moved = Lock::restore(lock.snapshot().on_another_clock(900_000)).unwrap();
    assert_eq!(moved.quarantine_until_ms(), 904_000);
    let at = |ms| Now { ms, wall_us: 5 };
    let try_nine = |lock: &mut Lock, now| {
        let acquire = AcquireRequest {
            owner: Owner::from_bits(9),
            client: ClientId::from_bits(9),
            ask: Ask::Mutex,
            at_least_ms: 0,
            lease_ms: 1_000,
            waiter_lease_ms: None,
            not_after_ms: u64::MAX,
            ballot: None,
            label: Label::default(),
        };
        lock.apply(now, &Request::Acquire(acquire)).reply
    };
    assert_eq!(try_nine(&mut moved, at(907_999)), Reply::Refused(Refusal::Cancelled));
    assert_ne!(try_nine(&mut moved, at(908_000)), Reply::Refused(Refusal::Cancelled));
}

#[test]
fn only_holders_of_a_mutex_a_writer_and_those_of_a_pool_hold_alone() {
    let one = Owner::from_bits(1);
    let with = |ask: Ask| {
        let mut lock = Lock::new();
        acquire(&mut lock, 1, ask);
        lock.is_held_alone_by(one)
    };
    assert!(with(Ask::Mutex) && with(Ask::Write) && with(Ask::Turns { tokens: 3 }));
    assert!(!with(Ask::Read) && !with(Ask::Permits { take: 1, of: 1 }));
    assert!(pool().is_held_alone_by(one) && !pool().is_held_alone_by(Owner::from_bits(3)));
}

#[test]
fn on_another_clock_a_failed_attempt_is_remembered_and_its_pause_is_as_long() {
    let terms = OnceTerms { keep_ms: 60_000, offset_ms: None, attempts: 0, pause_ms: 7_000 };
    let mut lock = Lock::new();
    acquire(&mut lock, 1, Ask::Once(terms));
    let token = lock.last_token().unwrap();
    let failed = Request::Finish {
        owner: Owner::from_bits(1),
        token,
        end: AttemptEnd::Failed,
        bury_until_ms: 0,
    };
    assert_eq!(lock.apply(NOW, &failed).reply, Reply::Released);
    acquire(&mut lock, 2, Ask::Once(terms));
    let mut moved = Lock::restore(lock.snapshot().on_another_clock(900_000)).unwrap();
    let mut holders_at = |ms| {
        let now = Now { ms, wall_us: 6 };
        let client = ClientId::from_bits(2);
        moved.apply(now, &Request::Refresh { client, waiter_lease_ms: 60_000 });
        moved.view(now, 0)
    };
    holders_at(900_400);
    let paused = holders_at(906_999);
    assert_eq!((paused.holders.len(), paused.work.map(|work| work.failed)), (0, Some(1)));
    assert_eq!(holders_at(907_000).holders.len(), 1);
}
