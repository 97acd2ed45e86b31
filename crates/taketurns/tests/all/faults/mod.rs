//! The client over a store that fails: requests and replies that are lost, bytes that come late,
//! wake-ups that never come, a store that is down. What was promised holds all the same.

mod clock;
mod faulty;
mod late;
mod refusing;
mod waking;

use std::sync::Arc;
use std::time::{Duration, Instant};

use faulty::{Faults, FaultyHooks};
use taketurns::blocking::Wait;
use taketurns::engine::{Clock, MemoryStore};
use taketurns::{Connect, ErrorKind, Locks, LossCause};
use taketurns_conformance::hooks::HookedStore;

use crate::support::history::{History, Turn};
use crate::support::patience::soon;

/// For clients whose places have to end, or whose losses do no harm.
const SHORT: Duration = Duration::from_millis(300);

async fn connect(store: &MemoryStore, faults: &Arc<Faults>) -> Locks {
    connect_for(Duration::from_secs(3), store, faults).await
}

/// A client whose places and hand-overs last for that long.
async fn connect_for(waiter_lease: Duration, store: &MemoryStore, faults: &Arc<Faults>) -> Locks {
    let faulty = FaultyHooks { store: store.clone(), faults: faults.clone() };
    let connect = Connect::engine(HookedStore(faulty)).waiter_lease(waiter_lease);
    connect.open().await.expect("faults start after the connection is made")
}

fn store() -> MemoryStore {
    MemoryStore::new(Clock::System)
}

/// Waits until the store has neither holder nor waiter.
async fn is_left_alone(store: &MemoryStore, lock: &str) {
    let locks = connect(store, &Arc::default()).await;
    soon("nothing is left behind", async {
        loop {
            match locks.inspect(lock).await.expect("memory answers") {
                Some(view) if view.holders.len() + view.waiting > 0 => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                _ => return,
            }
        }
    })
    .await;
}

/// Waits until the lock `l` has this number of waiters.
async fn has_waiters(locks: &Locks, waiting: usize) {
    soon("they queue up", async {
        while locks.inspect("l").await.expect("memory answers").expect("held").waiting < waiting {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_lost_on_the_way_turns_do_not_overlap_and_all_get_theirs() {
    for seed in 0..4 {
        let store = store();
        let history = Arc::new(History::default());
        let mut tasks = Vec::new();
        for client in 0..4 {
            let faults = Arc::new(Faults::seeded(seed * 10 + client));
            let locks = connect_for(SHORT, &store, &faults).await;
            faults.set_percent(15);
            for _ in 0..3 {
                let (locks, history) = (locks.clone(), history.clone());
                tasks.push(tokio::spawn(async move {
                    for _ in 0..6 {
                        let lease = Duration::from_millis(400);
                        let guard = locks.mutex("l").acquire().lease(lease).await.expect("a turn");
                        let (token, from) = (guard.token(), Instant::now());
                        let mut until = from;
                        for _ in 0..4 {
                            tokio::time::sleep(Duration::from_millis(1)).await;
                            // The instant is taken first: it was held then.
                            let now = Instant::now();
                            if guard.check().is_err() {
                                break;
                            }
                            until = now;
                        }
                        history.add(Turn { lock: "l".to_owned(), token, from, until });
                        // It may be lost by now, or its release's reply may be.
                        let _ = guard.release().await;
                    }
                }));
            }
        }
        for task in tasks {
            soon("everyone gets its turns", task).await.expect("no panic");
        }
        assert_eq!(history.turns().len(), 4 * 3 * 6);
        history.check();
        is_left_alone(&store, "l").await;
    }
}

#[tokio::test]
async fn a_grant_whose_reply_was_lost_is_found_by_the_retry() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let locks = connect(&store, &faults).await;
    faults.lose_replies(1);
    let guard = soon("the retry", locks.mutex("l").acquire()).await.expect("granted once");
    let view = locks.inspect("l").await.expect("memory answers").expect("held");
    assert_eq!(view.holders.len(), 1);
    assert_eq!(view.holders[0].token, Some(guard.token()));
    assert_eq!(view.waiting, 0);
}

#[tokio::test]
async fn a_lock_whose_store_is_gone_is_lost_before_its_lease_ends() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let (locks, other) = (connect(&store, &faults).await, connect(&store, &Arc::default()).await);
    let lease = Duration::from_millis(600);
    let guard = locks.mutex("l").acquire().lease(lease).await.expect("free");
    let waits = tokio::spawn(async move {
        let next = other.mutex("l").acquire().await.expect("a turn");
        (next, Instant::now())
    });
    faults.down(true);
    // Nothing renews it, so it is lost this long from now at the latest.
    let (asked, left) = (Instant::now(), guard.left());
    assert_eq!(soon("it is lost", guard.lost()).await, LossCause::Expired);
    let (next, granted) = soon("the next one holds", waits).await.expect("no panic");
    assert!(granted >= asked + left, "it was granted while the first could still check");
    faults.down(false);
    tokio::time::sleep(lease / 2).await;
    assert_eq!(guard.check().expect_err("for good").kind(), ErrorKind::Lost);
    assert!(next.is_held(), "what the first one does afterwards does not touch the second");
    assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
    assert!(next.is_held());
}

#[tokio::test]
async fn a_store_that_is_down_is_unreachable_and_not_contended() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let locks = connect(&store, &faults).await;
    faults.down(true);
    let within = Duration::from_millis(50);
    let error = locks.mutex("l").acquire().within(within).await.expect_err("down");
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    let error = locks.mutex("l").try_acquire().await.expect_err("down");
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    let patient = tokio::spawn(async move { locks.mutex("l").acquire().await });
    tokio::time::sleep(within).await;
    faults.down(false);
    let guard = soon("it waits through the outage", patient).await.expect("no panic");
    guard.expect("granted").release().await.expect("held");
    is_left_alone(&store, "l").await;
}

#[tokio::test]
async fn a_place_that_lapsed_is_taken_again_at_the_tail() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let (locks, other) =
        (connect_for(SHORT, &store, &faults).await, connect(&store, &Arc::default()).await);
    let guard = other.mutex("l").acquire().await.expect("free");
    let first = tokio::spawn(async move { locks.mutex("l").acquire().await.expect("a turn") });
    while other.inspect("l").await.expect("memory answers").expect("held").waiting == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    faults.down(true);
    while other.inspect("l").await.expect("memory answers").expect("held").waiting == 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let second = tokio::spawn(async move {
        let guard = other.mutex("l").acquire().await.expect("a turn");
        guard.release().await.expect("held");
    });
    guard.release().await.expect("held");
    soon("the dead place is skipped", second).await.expect("no panic");
    faults.down(false);
    let guard = soon("the first one comes back", first).await.expect("no panic");
    assert!(guard.is_held());
}

#[tokio::test]
async fn a_place_that_lapsed_is_taken_again_however_often_that_failed_before() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let (locks, other) = (
        connect_for(Duration::from_millis(60), &store, &faults).await,
        connect(&store, &Arc::default()).await,
    );
    let guard = other.mutex("l").acquire().await.expect("free");
    let waits = tokio::spawn(async move { locks.mutex("l").acquire().await.expect("a turn") });
    has_waiters(&other, 1).await;
    faults.down(true);
    while other.inspect("l").await.expect("memory answers").expect("held").waiting == 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // By then the pauses between two tries are longer than those between two refreshes, each of
    // which says again that there is no place.
    faults.break_acquires(6);
    faults.down(false);
    guard.release().await.expect("held");
    assert!(soon("the seventh try is made", waits).await.expect("no panic").is_held());
}

#[tokio::test]
async fn a_release_whose_reply_is_lost_is_repeated() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let locks = connect(&store, &faults).await;
    let guard = locks.mutex("l").acquire().await.expect("free");
    faults.lose_replies(1);
    let error = guard.release().await.expect_err("whether the first try did it is not known");
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    is_left_alone(&store, "l").await;
}

#[tokio::test]
async fn closing_waits_for_a_release_that_must_be_retried() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let other = connect(&store, &Arc::default()).await;
    for blocking in [false, true] {
        let locks = connect(&store, &faults).await;
        let guard = soon("it is free", locks.mutex("l").acquire()).await.expect("free");
        faults.down(true);
        drop(guard);
        let up_again = faults.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            up_again.down(false);
        });
        if blocking {
            tokio::task::spawn_blocking(move || locks.close().wait()).await.expect("no panic");
        } else {
            locks.close().await;
        }
        let view = other.inspect("l").await.expect("memory answers").expect("remembered");
        assert!(view.holders.is_empty(), "closed before it was released");
    }
}

#[tokio::test]
async fn what_a_failed_acquire_was_granted_is_not_kept_alive_by_its_siblings() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let (locks, other) = (connect(&store, &faults).await, connect(&store, &Arc::default()).await);
    let guard = other.mutex("l").acquire().await.expect("free");
    let mut waiting = Vec::new();
    for waiters in 1..=2 {
        let locks = locks.clone();
        // No test waits for a lease as long as that.
        let acquire = locks.mutex("l").acquire().lease(Duration::from_secs(3_600));
        waiting.push(tokio::spawn(async move { acquire.await.map(drop) }));
        while other.inspect("l").await.expect("memory answers").expect("held").waiting < waiters {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    // The first is granted by a wake-up that it has to ask about, and can't.
    faults.strange_wakes(true);
    faults.break_renewals(1);
    guard.release().await.expect("held");
    let mut results = Vec::new();
    for task in waiting {
        results.push(soon("the second has its turn", task).await.expect("no panic"));
    }
    assert_eq!(results[0].as_ref().expect_err("it could not ask").kind(), ErrorKind::Store);
    assert!(results[1].is_ok());
    is_left_alone(&store, "l").await;
}

#[tokio::test]
async fn work_that_is_done_is_not_undone_by_a_failing_release() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let locks = connect(&store, &faults).await;
    let acquire = locks.mutex("l").acquire().lease(Duration::from_secs(3));
    let work = acquire.run(async |_token| {
        faults.break_releases(true);
        "the card was charged"
    });
    assert_eq!(soon("it ends", work).await.expect("done"), "the card was charged");
}

#[tokio::test]
async fn a_release_that_a_full_disk_refused_is_repeated_once_there_is_room() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let locks = connect(&store, &faults).await;
    let guard = locks.mutex("l").acquire().await.expect("free");
    faults.break_releases(true);
    let releasing = guard.release();
    tokio::time::sleep(Duration::from_millis(30)).await;
    faults.break_releases(false);
    soon("it is tried again", releasing).await.expect("released");
    is_left_alone(&store, "l").await;
}

#[tokio::test]
async fn a_guard_says_why_it_could_not_be_renewed_until_it_is() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let locks = connect(&store, &faults).await;
    let guard = locks.mutex("l").acquire().lease(Duration::from_secs(6)).await.expect("free");
    assert_eq!(guard.trouble(), None);
    faults.break_renewals(u32::MAX);
    let has = async |trouble: bool| {
        while guard.trouble().is_some() != trouble {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    soon("a renewal fails", has(true)).await;
    assert!(guard.trouble().is_some_and(|why| why.contains("broken")));
    faults.break_renewals(0);
    soon("the next one does not", has(false)).await;
    assert!(guard.is_held());
}
