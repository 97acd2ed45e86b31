//! Locks with several holders: readers and writers, permits, pools, several locks together.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use taketurns::{Error, ErrorKind, Locks, LossCause};

use super::{has_waiters, is_left_alone, soon, token_of};
use crate::Fixture;

/// Readers come and go without a gap between them, and yet the writer gets its turn. Readers that come after the writer
/// wait for it.
pub async fn a_waiting_writer_is_not_starved_by_readers(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let done = Arc::new(AtomicBool::new(false));
    let mut readers = Vec::new();
    for _ in 0..4 {
        let (locks, done) = (locks.clone(), done.clone());
        readers.push(tokio::spawn(async move {
            while !done.load(Ordering::SeqCst) {
                let guard = locks.rwlock("l").read().await.expect("shared");
                tokio::time::sleep(Duration::from_millis(3)).await;
                guard.release().await.expect("held");
            }
        }));
    }
    for _ in 0..5 {
        let writer = soon("the writer has its turn", locks.rwlock("l").write());
        let writer = writer.await.expect("alone");
        let view = locks.inspect("l").await.expect("the store answers").expect("it is held");
        assert_eq!(view.holders.len(), 1, "a writer holds alone");
        writer.release().await.expect("held");
    }
    done.store(true, Ordering::SeqCst);
    for reader in readers {
        soon("the readers end", reader).await.expect("no panic");
    }
    is_left_alone(&locks, "l").await;
}

/// Ten clients share four permits, and each takes one or two.
pub async fn a_semaphore_never_gives_more_than_it_has(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let out = Arc::new(AtomicU32::new(0));
    let mut takers = Vec::new();
    for taker in 0..10_u32 {
        let (locks, out) = (locks.clone(), out.clone());
        takers.push(tokio::spawn(async move {
            let take = 1 + taker % 2;
            for _ in 0..5 {
                let acquire = locks.semaphore("s", 4).acquire_many(take);
                let guard = soon("everyone has its turns", acquire).await.expect("a turn");
                assert!(out.fetch_add(take, Ordering::SeqCst) + take <= 4);
                tokio::time::sleep(Duration::from_millis(1)).await;
                out.fetch_sub(take, Ordering::SeqCst);
                guard.release().await.expect("held");
            }
        }));
    }
    for taker in takers {
        taker.await.expect("no panic");
    }
}

/// No member has two holders, and a client that waits for a busy named member delays no client that takes any.
pub async fn a_pool_of_three_serves_ten_takers(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let pool = locks.pool("p");
    for member in ["a", "b", "c"] {
        assert!(pool.add(member).await.expect("the store answers"));
    }
    let named = pool.member("a").await.expect("free");
    let waits_for_a = {
        let pool = pool.clone();
        tokio::spawn(async move { pool.member("a").await.expect("a turn") })
    };
    has_waiters(&locks, "p", 1).await;
    let busy = Arc::new(Mutex::new(BTreeSet::new()));
    let mut takers = Vec::new();
    for _ in 0..10 {
        let (pool, busy) = (pool.clone(), busy.clone());
        takers.push(tokio::spawn(async move {
            for _ in 0..5 {
                let guard = soon("takers of any are not held up", pool.any()).await;
                let guard = guard.expect("a turn");
                let member = guard.member().expect("a pool gives a member").clone();
                assert!(busy.lock().expect("no panic").insert(member.clone()), "two on {member}");
                tokio::time::sleep(Duration::from_millis(1)).await;
                busy.lock().expect("no panic").remove(&member);
                guard.release().await.expect("held");
            }
        }));
    }
    for taker in takers {
        taker.await.expect("no panic");
    }
    assert!(!waits_for_a.is_finished(), "a is held all the while");
    named.release().await.expect("held");
    let guard = soon("the named one has its turn", waits_for_a).await.expect("no panic");
    assert_eq!(guard.member().map(taketurns::Member::as_str), Some("a"));
}

/// The order in which a client names them does not matter.
pub async fn all_of_several_locks_without_deadlock(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let mut tasks = Vec::new();
    for task in 0..8 {
        let locks = locks.clone();
        tasks.push(tokio::spawn(async move {
            let names = if task % 2 == 0 { ["a", "b", "a"] } else { ["b", "a", "b"] };
            for _ in 0..10 {
                let guard = soon("nobody deadlocks", locks.all(names).acquire()).await;
                let guard = guard.expect("both");
                assert!(guard.is_held());
                let guards = guard.into_guards();
                assert_eq!(guards.len(), 2, "duplicates are taken once");
                for guard in guards {
                    token_of(&locks, &guard);
                    guard.release().await.expect("held");
                }
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
}

/// Asks for several locks while `b` is held, with a timeout long enough to reach `b` and run out there. Returns the
/// timeout, and how much of it was left for `b`. On a busy machine a short timeout may run out at the first lock: that
/// is an error too, and says nothing about the rest.
async fn time_runs_out_at_b(locks: &Locks, names: &[&str]) -> (Duration, Duration) {
    let asks = async {
        let mut given = Duration::from_millis(100);
        loop {
            match locks.all(names).acquire().within(given).await.expect_err("b is held") {
                Error::Timeout { lock, within } if lock.as_str() == "b" => return (given, within),
                Error::Timeout { .. } | Error::Unreachable(_) | Error::NoQuorum(_) => given *= 2,
                error => panic!("{error}"),
            }
        }
    };
    soon("there is time enough for the first", asks).await
}

/// A part of the locks is worth nothing.
pub async fn all_gives_up_everything_when_one_times_out(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let guard = locks.mutex("b").acquire().await.expect("free");
    time_runs_out_at_b(&locks, &["a", "b", "c"]).await;
    is_left_alone(&locks, "a").await;
    assert!(guard.is_held());
}

/// The timeout is for all of them together, not for each.
pub async fn all_has_one_time_to_wait_for_all(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let _guard = locks.mutex("b").acquire().await.expect("free");
    let (given, within) = time_runs_out_at_b(&locks, &["a", "b"]).await;
    assert!(within < given, "what a took was not taken off: {within:?}");
}

/// Each lock shows the reason.
pub async fn all_say_why_they_are_wanted(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let guard = locks.all(["a", "b"]).acquire().why("both sides").await.expect("free");
    for lock in ["a", "b"] {
        let view = locks.inspect(lock).await.expect("the store answers").expect("it is held");
        assert_eq!(view.holders[0].label.why(), "both sides");
    }
    guard.release().await.expect("held");
}

/// The first lock may be lost while the client waits for the last. The timing is generous: since different servers may
/// have the locks, news of the break may arrive after the last is handed over.
pub async fn all_is_not_had_if_one_was_lost_meanwhile(fixture: &dyn Fixture) {
    let (locks, other) = (fixture.connect().await, fixture.connect().await);
    let guard = other.mutex("b").acquire().await.expect("free");
    let max_hold = Duration::from_secs(2);
    let waits =
        tokio::spawn(async move { locks.all(["a", "b"]).acquire().max_hold(max_hold).await });
    // The client asks for `b` once it holds `a`.
    has_waiters(&other, "b", 1).await;
    is_left_alone(&other, "a").await;
    guard.release().await.expect("held");
    let all = soon("b is handed over", waits).await.expect("no panic");
    assert_eq!(all.expect_err("a was lost").kind(), ErrorKind::Lost);
    is_left_alone(&other, "b").await;
}

/// It does not matter which one is lost.
pub async fn losing_one_of_all_is_losing_all(fixture: &dyn Fixture) {
    let (locks, other) = (fixture.connect().await, fixture.connect().await);
    for lost in ["a", "b", "c"] {
        let guard = soon("they are free", locks.all(["a", "b", "c"]).acquire());
        let guard = guard.await.expect("free");
        assert_eq!(other.break_lock(lost).at_once().await.expect("it is held"), 1);
        let (name, cause) = soon("it is told", guard.lost()).await;
        assert_eq!((name.as_str(), cause), (lost, LossCause::Revoked));
        assert!(!guard.is_held());
        assert_eq!(guard.check().expect_err("lost").kind(), ErrorKind::Lost);
        assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
    }
}

/// Each turn reads, adds and writes, and only the lock protects that.
pub async fn counting_under_the_lock_counts_right(fixture: &dyn Fixture) {
    let count = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let locks = fixture.connect().await;
        for _ in 0..5 {
            let (locks, count) = (locks.clone(), count.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..10 {
                    let guard = soon("everyone has its turns", locks.mutex("l").acquire()).await;
                    let guard = guard.expect("a turn");
                    let read = count.load(Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    count.store(read + 1, Ordering::Relaxed);
                    guard.release().await.expect("held");
                }
            }));
        }
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    assert_eq!(count.load(Ordering::Relaxed), 200);
}
