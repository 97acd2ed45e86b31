//! What comes late: old bytes of connections that broke, and replies that took their time.

use std::sync::Arc;
use std::time::Duration;

use taketurns::engine::{Clock, ManualClock, MemoryStore};

use super::faulty::Faults;
use super::{connect, soon, store};

#[tokio::test]
async fn old_bytes_of_a_cancelled_acquire_take_nothing() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let locks = connect(&store, &faults).await;
    // The request is held up on its way, its sender gives up, and then it arrives.
    faults.hold_up(true);
    let within = Duration::from_millis(30);
    locks.mutex("l").acquire().within(within).await.expect_err("no answer");
    faults.hold_up(false);
    soon("the cancel arrives before it", async {
        while locks.inspect("l").await.expect("memory answers").is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    faults.deliver_held_up().await;
    let view = locks.inspect("l").await.expect("memory answers").expect("buried there");
    assert_eq!(view.holders.len() + view.waiting, 0, "a ghost took the lock");
}

#[tokio::test]
async fn very_old_bytes_take_nothing_though_nobody_called_them_back() {
    let (manual, faults) = (ManualClock::new(), Arc::new(Faults::default()));
    let store = MemoryStore::new(Clock::Manual(manual.clone()));
    let locks = connect(&store, &faults).await;
    let other = connect(&store, &Arc::default()).await;
    faults.hold_up(true);
    let acquire = tokio::spawn(async move { drop(locks.mutex("l").acquire().await) });
    soon("it is sent", async {
        while !faults.holds_something_up() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    faults.down(true);
    acquire.abort();
    manual.advance(Duration::from_secs(60));
    faults.deliver_held_up().await;
    let tried = other.mutex("l").try_acquire().await.expect("memory answers");
    assert!(tried.is_some(), "a ghost took the lock");
}

#[tokio::test]
async fn old_bytes_of_an_acquire_sent_twice_take_nothing_once_it_is_released() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let locks = connect(&store, &faults).await;
    for as_handle in [false, true] {
        // The first request is held up on its way, and the second is granted.
        faults.break_acquires(1);
        let guard = soon("the second", locks.mutex("l").acquire()).await.expect("free");
        if as_handle {
            let handle = guard.into_handle().await.expect("held");
            locks.release(&handle).await.expect("held");
        } else {
            guard.release().await.expect("held");
        }
        faults.deliver_held_up().await;
        let view = locks.inspect("l").await.expect("memory answers").expect("buried there");
        assert_eq!(view.holders.len() + view.waiting, 0, "a ghost took the lock");
    }
}

#[tokio::test]
async fn the_time_that_a_reply_took_is_not_relied_on() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let locks = connect(&store, &faults).await;
    let delay = Duration::from_millis(100);
    faults.delay_replies(delay);
    let lease = Duration::from_secs(10);
    let guard = locks.mutex("l").acquire().lease(lease).await.expect("free");
    assert!(guard.span() <= lease - delay - lease / 100, "{:?}", guard.span());
}
