//! A lock that is lost, for several reasons at a time, while several threads ask about it. Once anybody
//! was told that it is lost, nobody is told that it is held, and all are told the same cause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use shuttle::thread;
use taketurns::engine::{Clock, ManualClock, MemoryStore};
use taketurns::{Error, Guard, LossCause};

use crate::{connect, in_many_orders, store, with_store};

/// Asks a few times. What was said before it asked still goes.
fn ask(guard: &Guard, is_lost: &AtomicBool) -> Option<LossCause> {
    for _ in 0..4 {
        let was_lost = is_lost.load(Ordering::SeqCst);
        match guard.check() {
            Ok(_) => assert!(!was_lost, "lost, and then held"),
            Err(Error::Lost { cause, .. }) => {
                is_lost.store(true, Ordering::SeqCst);
                return Some(cause);
            }
            Err(error) => panic!("{error}"),
        }
    }
    None
}

#[test]
fn once_anybody_was_told_that_a_lock_is_lost_nobody_is_told_that_it_is_held() {
    in_many_orders(|| {
        with_store(async {
            let manual = ManualClock::new();
            let store = MemoryStore::new(Clock::Manual(manual.clone()));
            let (one, two) = (connect(&store).await, connect(&store).await);
            let guard = Arc::new(one.mutex("l").acquire().await.expect("free"));
            let is_lost = Arc::new(AtomicBool::new(false));
            let ask_on = |guard: &Arc<Guard>| {
                let (guard, is_lost) = (guard.clone(), is_lost.clone());
                thread::spawn(move || ask(&guard, &is_lost))
            };
            let mut threads = vec![ask_on(&guard), ask_on(&guard)];
            // Told by the engine, in a task of the driver.
            let breaks = two.clone();
            threads.push(thread::spawn(move || {
                shuttle::future::block_on(breaks.break_lock("l").into_future()).expect("an answer");
                None
            }));
            // The next task that gets a reply notices it, on its own thread.
            let asks = one.clone();
            threads.push(thread::spawn(move || {
                manual.advance(Duration::from_secs(3600));
                shuttle::future::block_on(asks.pool("p").add("m")).expect("an answer");
                None
            }));
            let cause = guard.lost().await;
            is_lost.store(true, Ordering::SeqCst);
            assert_eq!(ask(&guard, &is_lost), Some(cause));
            for thread in threads {
                let told = thread.join().expect("no panic");
                assert!(told.is_none_or(|told| told == cause), "{told:?} and {cause:?}");
            }
            drop(guard);
            one.close().await;
            two.close().await;
        });
    });
}

#[test]
fn a_lock_that_is_broken_as_its_guard_is_made_is_lost() {
    in_many_orders(|| {
        with_store(async {
            let store = store();
            let (one, two) = (connect(&store).await, connect(&store).await);
            let breaks = two.clone();
            let broken = thread::spawn(move || {
                shuttle::future::block_on(breaks.break_lock("l").into_future()).expect("an answer")
            });
            let guard = one.mutex("l").acquire().await.expect("free");
            broken.join().expect("no panic");
            let view = two.inspect("l").await.expect("an answer").expect("it was used");
            match &view.holders[..] {
                // If nobody says so now, nobody ever does: time stands still.
                [holder] if holder.revoked => assert_eq!(guard.lost().await, LossCause::Revoked),
                // It was broken before anybody knew of it, and had once more.
                [_] => assert!(guard.is_held()),
                _ => panic!("one holds it: {view:?}"),
            }
            drop(guard);
            one.close().await;
            two.close().await;
        });
    });
}
