//! Acquires and guards that are dropped on one thread while the driver, or another client, is about to do
//! something with them.

use std::pin::Pin;
use std::task::{Context, Waker};

use shuttle::thread;
use taketurns::AcquireFuture;

use crate::{connect, in_many_orders, is_left_alone, store, with_store};

/// Polls the acquire `polls` times, and drops it together with a guard that it may have got.
pub(crate) fn drop_after(polls: usize, mut acquire: AcquireFuture) {
    for _ in 0..polls {
        if Pin::new(&mut acquire).poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
        thread::yield_now();
    }
}

#[test]
fn an_acquire_that_is_dropped_as_it_is_granted_leaves_the_lock_to_others() {
    in_many_orders(|| {
        with_store(async {
            let store = store();
            let (one, two) = (connect(&store).await, connect(&store).await);
            let acquire = one.mutex("l").acquire().into_future();
            let dropped = thread::spawn(move || drop_after(1, acquire));
            let guard = two.mutex("l").acquire().await.expect("it comes free");
            guard.release().await.expect("held");
            dropped.join().expect("no panic");
            one.close().await;
            is_left_alone(&two, "l").await;
            two.close().await;
        });
    });
}

#[test]
fn an_acquire_that_is_dropped_as_the_lock_is_handed_to_it_hands_it_on() {
    in_many_orders(|| {
        with_store(async {
            let store = store();
            let (one, two) = (connect(&store).await, connect(&store).await);
            let held = two.mutex("l").acquire().await.expect("free");
            let acquire = one.mutex("l").acquire().into_future();
            let next = two.mutex("l").acquire().into_future();
            let dropped = thread::spawn(move || drop_after(2, acquire));
            let released = thread::spawn(move || drop(held));
            let guard = next.await.expect("it comes free");
            guard.release().await.expect("held");
            dropped.join().expect("no panic");
            released.join().expect("no panic");
            one.close().await;
            is_left_alone(&two, "l").await;
            two.close().await;
        });
    });
}

#[test]
fn a_client_whose_last_handles_are_dropped_together_ends_after_what_they_give_back() {
    in_many_orders(|| {
        with_store(async {
            let store = store();
            let (goes, stays) = (connect(&store).await, connect(&store).await);
            let held = goes.mutex("held").acquire().await.expect("free");
            let released = goes.mutex("released").acquire().await.expect("free");
            let kept = stays.mutex("kept").acquire().await.expect("free");
            let waits = goes.mutex("kept").acquire().into_future();
            let acquire = goes.mutex("free").acquire().into_future();
            let threads = [
                thread::spawn(move || drop(goes)),
                thread::spawn(move || drop(held)),
                thread::spawn(move || drop(released.release())),
                thread::spawn(move || drop_after(1, waits)),
                thread::spawn(move || drop_after(1, acquire)),
            ];
            for thread in threads {
                thread.join().expect("no panic");
            }
            // A place of the one that went would be in the way.
            kept.release().await.expect("held");
            for lock in ["held", "released", "kept", "free"] {
                let guard = stays.mutex(lock).acquire().await.expect("it comes free");
                guard.release().await.expect("held");
                is_left_alone(&stays, lock).await;
            }
            stays.close().await;
        });
    });
}
