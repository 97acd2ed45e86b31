//! Turns that are handed on inside a process, between threads of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::thread;
use taketurns::{Keep, Locks};

use crate::acquire::drop_after;
use crate::{connect, in_many_orders, is_left_alone, store, with_store};

/// Takes a turn, and says if it was alone there with a token that nobody had before.
fn take_turn(locks: &Locks, last: &AtomicU64) {
    shuttle::future::block_on(async {
        let guard = locks.mutex("l").acquire().keep(Keep::Turns(2)).await.expect("it comes free");
        let token = guard.check().expect("held").raw();
        assert!(last.swap(token, Ordering::SeqCst) < token, "a token came twice");
        thread::yield_now();
        assert_eq!(last.load(Ordering::SeqCst), token, "two held at once");
        guard.release().await.expect("held");
    });
}

#[test]
fn turns_in_a_process_are_had_by_one_at_a_time_and_none_is_lost() {
    in_many_orders(|| {
        with_store(async {
            let store = store();
            let (one, two) = (connect(&store).await, connect(&store).await);
            let last = Arc::new(AtomicU64::new(0));
            let takes = [&one, &one, &one, &two].map(|locks| {
                let (locks, last) = (locks.clone(), last.clone());
                thread::spawn(move || take_turn(&locks, &last))
            });
            let dropped = one.mutex("l").acquire().keep(Keep::Turns(2)).into_future();
            let dropped = thread::spawn(move || drop_after(1, dropped));
            for take in takes {
                take.join().expect("no panic");
            }
            dropped.join().expect("no panic");
            one.close().await;
            is_left_alone(&two, "l").await;
            two.close().await;
        });
    });
}
