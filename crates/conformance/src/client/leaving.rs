//! Cancel safety: however a wait or a hold ends, it leaves nothing behind.

use std::future::IntoFuture;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use taketurns::ErrorKind;

use super::{has_waiters, is_known, is_left_alone, soon};
use crate::Fixture;

/// The release runs in the background.
pub async fn a_dropped_guard_is_released(fixture: &dyn Fixture) {
    let (locks, other) = (fixture.connect().await, fixture.connect().await);
    let guard = locks.mutex("l").acquire().await.expect("free");
    drop(guard);
    let again = soon("it is released", other.mutex("l").acquire()).await;
    drop(again.expect("free again"));
}

/// The drop happens on a thread without a runtime.
pub async fn a_guard_dropped_outside_a_runtime_is_released(fixture: &dyn Fixture) {
    let (locks, other) = (fixture.connect().await, fixture.connect().await);
    let guard = locks.mutex("l").acquire().await.expect("free");
    drop(locks);
    std::thread::spawn(move || drop(guard)).join().expect("dropping does not panic");
    let again = soon("it is released", other.mutex("l").acquire()).await;
    drop(again.expect("free again"));
}

/// Calling `release` is enough; nobody has to await it.
pub async fn a_release_goes_on_when_its_future_is_dropped(fixture: &dyn Fixture) {
    let (locks, other) = (fixture.connect().await, fixture.connect().await);
    let guard = locks.mutex("l").acquire().await.expect("free");
    drop(guard.release());
    let again = soon("it is released", other.mutex("l").acquire()).await;
    drop(again.expect("free again"));
}

/// The future is dropped before, after, and between each of its polls; on a free lock, on a held one, and on one that
/// is released at that moment.
pub async fn an_acquire_dropped_at_any_point_leaves_nothing(fixture: &dyn Fixture) {
    let (locks, other) = (fixture.connect().await, fixture.connect().await);
    for round in 0..60_u64 {
        let holder = match round % 3 {
            0 => None,
            _ => Some(other.mutex("l").acquire().await.expect("free")),
        };
        let mut acquire = pin!(Some(locks.mutex("l").acquire().into_future()));
        let polls = round / 3 % 5;
        for poll in 0..polls {
            let future = acquire.as_mut().as_pin_mut().expect("not dropped yet");
            if poll_once(future).await.is_some() {
                break;
            }
            // Each round gets a different part of the way: to the driver, to the store, and back.
            tokio::time::sleep(Duration::from_micros(round * 7 % 400)).await;
            if round % 3 == 2 && poll == 1 {
                drop(other.mutex("l").try_acquire().into_future());
            }
        }
        if round % 3 == 2 {
            if let Some(holder) = holder {
                drop(holder.release());
            }
            acquire.set(None);
        } else {
            acquire.set(None);
            drop(holder);
        }
        is_left_alone(&other, "l").await;
    }
}

/// Polls once with a waker that does nothing, and drops a result.
async fn poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<()> {
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(Some(())),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// `within`, on a held lock.
pub async fn an_acquire_that_times_out_leaves_nothing(fixture: &dyn Fixture) {
    let (locks, other) = (fixture.connect().await, fixture.connect().await);
    let guard = other.mutex("l").acquire().await.expect("free");
    for within in [0, 1, 5, 50] {
        let within = Duration::from_millis(within);
        let error = locks.mutex("l").acquire().within(within).await.expect_err("held");
        let expected = [ErrorKind::Timeout, ErrorKind::Unreachable, ErrorKind::NoQuorum];
        assert!(expected.contains(&error.kind()), "{error}");
    }
    has_waiters(&other, "l", 0).await;
    guard.release().await.expect("held");
    is_left_alone(&other, "l").await;
}

/// It leaves neither a place nor a hold.
pub async fn a_try_on_a_held_lock_leaves_nothing(fixture: &dyn Fixture) {
    let (locks, other) = (fixture.connect().await, fixture.connect().await);
    let guard = other.mutex("l").acquire().why("held").await.expect("free");
    // A node of a quorum that does not know the holder yet may vote for the try, which releases that vote after its
    // answer.
    is_known(&fixture.stores().await, "l", "held").await;
    assert!(locks.mutex("l").try_acquire().await.expect("the store answers").is_none());
    let view = other.inspect("l").await.expect("the store answers").expect("it is held");
    assert_eq!(view.waiting, 0);
    guard.release().await.expect("held");
    assert!(locks.mutex("l").try_acquire().await.expect("the store answers").is_some());
}

/// That includes a place that was given up a moment ago.
pub async fn closing_waits_for_acquires_that_were_dropped(fixture: &dyn Fixture) {
    let other = fixture.connect().await;
    let guard = other.mutex("l").acquire().await.expect("free");
    for round in 0..10 {
        let locks = fixture.connect().await;
        let mut acquire = pin!(Some(locks.mutex("l").acquire().into_future()));
        poll_once(acquire.as_mut().as_pin_mut().expect("not dropped yet")).await;
        tokio::time::sleep(Duration::from_millis(round)).await;
        acquire.set(None);
        soon("it closes", locks.close()).await;
        let view = other.inspect("l").await.expect("the store answers").expect("it is held");
        assert_eq!(view.waiting, 0, "a place was left behind");
    }
    drop(guard);
}

/// After `close` everything that was dropped before is released.
pub async fn closing_waits_for_releases(fixture: &dyn Fixture) {
    let (locks, other) = (fixture.connect().await, fixture.connect().await);
    for lock in ["a", "b", "c"] {
        drop(locks.mutex(lock).acquire().await.expect("free"));
    }
    soon("it closes", locks.close()).await;
    for lock in ["a", "b", "c"] {
        let free = other.mutex(lock).try_acquire().await.expect("the store answers");
        assert!(free.is_some(), "{lock} was not released");
    }
}
