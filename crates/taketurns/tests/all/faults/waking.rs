//! Wake-ups that are lost, early, late, or say something else than a grant.

use std::sync::Arc;
use std::time::Duration;

use taketurns::blocking::Wait;
use taketurns::engine::{Grant, Open, Owner, Refusal, Request, WakeEvent, Wakes};
use taketurns::{Connect, LossCause, Token};

use super::faulty::Faults;
use super::{SHORT, connect, connect_for, has_waiters, soon, store};

#[tokio::test]
async fn without_a_single_wake_up_everyone_still_gets_its_turn() {
    let store = store();
    let faults = Arc::new(Faults::default());
    faults.drop_wakes(true);
    let locks = connect(&store, &faults).await;
    let guard = locks.mutex("l").acquire().await.expect("free");
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let locks = locks.clone();
        waiting.push(tokio::spawn(async move {
            let guard = locks.mutex("l").acquire().await.expect("a turn");
            guard.release().await.expect("held");
        }));
    }
    guard.release().await.expect("held");
    for task in waiting {
        soon("the re-check finds the grant", task).await.expect("no panic");
    }
}

#[tokio::test]
async fn a_wake_up_that_comes_before_the_reply_finds_its_waiter() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let long = Duration::from_secs(60);
    let locks = connect_for(long, &store, &faults).await;
    let other = connect(&store, &Arc::default()).await;
    let guard = other.mutex("l").acquire().await.expect("free");
    faults.keep_replies(true);
    let waits = tokio::spawn(async move { locks.mutex("l").acquire().await.expect("a turn") });
    has_waiters(&other, 1).await;
    guard.release().await.expect("held");
    let guard = soon("the wake-up is enough", waits).await.expect("no panic");
    assert!(guard.is_held());
}

#[tokio::test]
async fn a_wake_up_that_was_long_under_way_gives_nobody_a_turn() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let (locks, other) =
        (connect_for(SHORT, &store, &faults).await, connect(&store, &Arc::default()).await);
    let guard = other.mutex("l").acquire().await.expect("free");
    let waits = tokio::spawn(locks.mutex("l").acquire().into_future());
    has_waiters(&other, 1).await;
    faults.hold_up_wakes(true);
    faults.down(true);
    guard.release().await.expect("held");
    let next = soon("the hand-over lapses", other.mutex("l").acquire()).await.expect("a turn");
    faults.hold_up_wakes(false);
    faults.deliver_wakes();
    faults.down(false);
    has_waiters(&other, 1).await;
    assert!(next.is_held());
    let before = next.token();
    next.release().await.expect("held");
    let waited = soon("its turn", waits).await.expect("no panic").expect("a turn");
    assert!(waited.token() > before, "it took the one that was somebody else's by then");
}

#[tokio::test]
async fn a_crowd_of_readers_is_let_in_without_waiting_for_a_refresh() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let (readers, long) = (300, Duration::from_secs(60));
    let locks = connect_for(long, &store, &faults).await;
    let other = connect_for(long, &store, &faults).await;
    for dies in [false, true] {
        let lease = Duration::from_secs(if dies { 2 } else { 30 });
        let writer = soon("nobody reads", other.rwlock("l").write().lease(lease)).await;
        let mut writer = Some(writer.expect("free"));
        if dies {
            // Nobody renews a handle.
            let _handle = writer.take().expect("there").into_handle().await.expect("held");
        }
        // One is needed to see that the lease of a dead one is over. No other can let anybody in.
        faults.lose_refreshes_after(u32::from(dies));
        let mut reading = Vec::new();
        for _ in 0..readers {
            // What is handed over is renewed no sooner than a place is refreshed.
            let read = locks.rwlock("l").read().lease(long);
            reading.push(tokio::spawn(async move { read.await.expect("shared") }));
        }
        if let Some(writer) = writer {
            has_waiters(&other, readers).await;
            writer.release().await.expect("held");
        }
        // One step lets in 64, and nobody takes a step of its own while it reads.
        let mut guards = Vec::new();
        for task in reading {
            guards.push(soon("all of them read", task).await.expect("no panic"));
        }
    }
}

#[tokio::test]
async fn a_waiter_that_can_never_be_served_is_told_without_a_refresh() {
    let (store, faults, long) = (store(), Arc::new(Faults::default()), Duration::from_secs(60));
    let locks = connect_for(long, &store, &faults).await;
    let _guard = locks.semaphore("l", 4).acquire().await.expect("free");
    faults.lose_refreshes_after(0);
    let waits = locks.semaphore("l", 4).acquire_many(4);
    let waits = tokio::spawn(async move { waits.await });
    has_waiters(&locks, 1).await;
    assert!(locks.semaphore("l", 2).resize().await.expect("memory answers"));
    let refused = soon("it is told", waits).await.expect("no panic");
    refused.expect_err("there are only two");
}

#[tokio::test]
async fn a_lock_broken_right_after_its_hand_over_is_lost() {
    let store = store();
    let other = connect(&store, &Arc::default()).await;
    // On this runtime, so that both wake-ups are there before any task of it looks.
    let runtime = tokio::runtime::Handle::current();
    let waiter = Connect::engine(store.clone()).open_on(runtime).await.expect("memory");
    let _guard = other.mutex("l").acquire().await.expect("free");
    let waits = tokio::spawn(async move { waiter.mutex("l").acquire().await.expect("a turn") });
    while other.inspect("l").await.expect("memory answers").expect("held").waiting == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for _ in 0..2 {
        assert_eq!(other.break_lock("l").at_once().wait().expect("memory answers"), 1);
    }
    let guard = soon("it was granted", waits).await.expect("no panic");
    assert_eq!(soon("it is told", guard.lost()).await, LossCause::Revoked);
}

#[tokio::test]
async fn a_lock_broken_before_its_grant_was_heard_is_not_taken_for_held() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let (locks, other) = (connect(&store, &faults).await, connect(&store, &Arc::default()).await);
    faults.keep_replies(true);
    let acquires = tokio::spawn(locks.mutex("l").acquire().into_future());
    soon("it is granted", async {
        while other.inspect("l").await.expect("memory answers").is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    // Whatever it asks when it hears of the break is answered.
    faults.keep_replies(false);
    assert_eq!(other.break_lock("l").await.expect("memory answers"), 1);
    let guard = soon("it has another", acquires).await.expect("no panic").expect("free again");
    let view = other.inspect("l").await.expect("memory answers").expect("held");
    assert!(guard.is_held() && !view.holders[0].revoked, "it does not know that it was broken");
}

#[tokio::test]
async fn news_that_another_grant_was_broken_costs_a_waiter_nothing() {
    let (store, faults, long) = (store(), Arc::new(Faults::default()), Duration::from_secs(60));
    let locks = connect_for(long, &store, &faults).await;
    let other = connect(&store, &Arc::default()).await;
    let guard = other.mutex("l").acquire().await.expect("free");
    let first = tokio::spawn(locks.mutex("l").acquire().into_future());
    has_waiters(&other, 1).await;
    let second = tokio::spawn(other.mutex("l").acquire().into_future());
    has_waiters(&other, 2).await;
    let owner = faults.acquired_by()[0];
    // Of an earlier life of the store: the grant, in which order ever, and that it was broken.
    let token = Some(Token::from_raw(7));
    let granted =
        Grant { token, tokens: 1, wanted: false, deadline_ms: u64::MAX, member: None, vote: None };
    let granted = WakeEvent::Granted(granted);
    for (times, event) in [WakeEvent::Revoked { token }, granted].into_iter().enumerate() {
        faults.wake("l", owner, event);
        soon("it asks again", async {
            while faults.acquired_by().len() < 2 + times {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        assert_eq!(faults.acquired_by().last(), Some(&owner), "it asks as the one that it is");
    }
    let view = other.inspect("l").await.expect("memory answers").expect("held");
    assert_eq!(view.waiting, 2);
    guard.release().await.expect("held");
    let first = soon("it is the first still", first).await.expect("no panic").expect("a turn");
    assert!(first.is_held());
    first.release().await.expect("held");
    let second = soon("the second comes after it", second).await.expect("no panic");
    second.expect("a turn").release().await.expect("held");
}

#[tokio::test]
async fn a_lock_is_lost_when_its_own_grant_was_broken_and_not_when_another_was() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let locks = connect(&store, &faults).await;
    for named in [true, false] {
        let guard = locks.mutex("l").acquire().await.expect("free");
        let owner = *faults.acquired_by().last().expect("it was acquired");
        let token = guard.token();
        for other in [token.raw() - 1, token.raw() + 1].map(Token::from_raw) {
            faults.wake("l", owner, WakeEvent::Revoked { token: Some(other) });
        }
        // What was told before is heard before what comes after it.
        let behind = locks.mutex("l").acquire();
        let behind = tokio::spawn(behind.into_future());
        has_waiters(&locks, 1).await;
        let waits = *faults.acquired_by().last().expect("it was acquired");
        faults.wake("l", waits, WakeEvent::Refused(Refusal::QueueFull));
        soon("it is refused", behind).await.expect("no panic").expect_err("refused");
        assert!(guard.is_held(), "it is not the grant that was broken");
        faults.wake("l", owner, WakeEvent::Revoked { token: named.then_some(token) });
        assert_eq!(soon("it is told", guard.lost()).await, LossCause::Revoked);
        assert_eq!(locks.break_lock("l").at_once().await.expect("memory answers"), 1);
    }
}

#[tokio::test]
async fn a_place_that_the_client_knows_nothing_of_does_not_hold_up_the_others() {
    let (store, hour) = (store(), Duration::from_secs(3_600));
    let (one, two) =
        (connect(&store, &Arc::default()).await, connect(&store, &Arc::default()).await);
    let guard = one.mutex("l").acquire().lease(hour).await.expect("free");
    let behind = two.mutex("other").acquire().await.expect("free");
    let view = one.inspect("other").await.expect("memory answers").expect("held");
    // As after a fail-over to a server that did not hear that it was given up.
    let (wakes, _woken) = Wakes::channel();
    let engine = Box::new(store.clone()).open(view.holders[0].client, wakes).await;
    let forgotten = Request::Acquire(taketurns::engine::AcquireRequest {
        owner: Owner::from_bits(7),
        client: view.holders[0].client,
        ask: taketurns::Ask::Mutex,
        at_least_ms: 0,
        lease_ms: 3_600_000,
        waiter_lease_ms: Some(300),
        not_after_ms: u64::MAX,
        ballot: None,
        label: taketurns::Label::new("nobody", "").expect("a label"),
    });
    let name = taketurns::Name::new("l").expect("a name");
    engine.expect("memory").call(&name, forgotten).await.expect("memory answers");
    let waits = tokio::spawn(async move { two.mutex("l").acquire().await.map(drop) });
    has_waiters(&one, 2).await;
    guard.release().await.expect("held");
    soon("the one that is there has its turn", waits).await.expect("no panic").expect("a turn");
    drop(behind);
}
