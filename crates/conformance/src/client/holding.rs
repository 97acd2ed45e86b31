//! Guards: renewed while they live, and lost for good once lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use taketurns::blocking::Wait;
use taketurns::{ErrorKind, Handle, LossCause};

use super::{has_waiters, is_known, is_left_alone, is_renewed, soon, token_of};
use crate::Fixture;

/// Renewed every second, so that a test can wait for it, with two seconds to spare for a busy machine.
const LEASE: Duration = Duration::from_secs(3);

/// Shorter than the work that is done under it.
const BRIEF_HOLD: Duration = Duration::from_millis(250);

/// It needs no call for that, and keeps its token.
pub async fn a_guard_renews_itself(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let guard = locks.mutex("l").acquire().lease(LEASE).await.expect("free");
    let token = token_of(&locks, &guard);
    for _ in 0..3 {
        is_renewed(&locks, "l").await;
        assert_eq!(token_of(&locks, &guard), token);
        assert!(guard.left() <= guard.span());
    }
    guard.release().await.expect("it was held to the end");
}

/// The guard ends one hundredth of the lease earlier, for clocks that differ, and two milliseconds, for rounding.
pub async fn a_guard_is_relied_on_for_less_than_its_lease(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let lease = Duration::from_secs(60);
    let guard = locks.mutex("l").acquire().lease(lease).await.expect("free");
    assert!(guard.span() <= lease * 99 / 100 - Duration::from_millis(2), "{:?}", guard.span());
    guard.release().await.expect("held");
}

/// Between clients that share nothing but the store.
pub async fn a_released_lock_goes_to_the_next_client(fixture: &dyn Fixture) {
    let (one, other) = (fixture.connect().await, fixture.connect().await);
    let guard = one.mutex("l").acquire().await.expect("free");
    let token = token_of(&one, &guard);
    let next = tokio::spawn(async move { other.mutex("l").acquire().await });
    has_waiters(&one, "l", 1).await;
    guard.release().await.expect("held");
    let next = soon("the next one holds", next).await.expect("no panic").expect("handed over");
    let next = token_of(&one, &next);
    assert!(next > token || (next, token) == (None, None));
}

/// First come, first served within one client too.
pub async fn tasks_of_one_client_take_turns_in_order(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let stores = fixture.stores().await;
    let guard = locks.mutex("l").acquire().why("the first").await.expect("free");
    is_known(&stores, "l", "the first").await;
    let (order, mut ordered) = tokio::sync::mpsc::unbounded_channel();
    for turn in 0..20 {
        let (waiter, order, why) = (locks.clone(), order.clone(), format!("turn {turn}"));
        let acquire = waiter.mutex("l").acquire().why(&why);
        tokio::spawn(async move {
            let guard = acquire.await.expect("handed over");
            order.send(turn).expect("the test listens");
            guard.release().await.expect("held");
        });
        is_known(&stores, "l", &why).await;
    }
    guard.release().await.expect("held");
    for turn in 0..20 {
        assert_eq!(soon("everyone has a turn", ordered.recv()).await, Some(turn));
    }
}

/// `break --now`: the lock is gone, and `lost`, `check` and `is_held` all say so for good.
pub async fn a_broken_lock_is_lost_and_its_holder_is_told(fixture: &dyn Fixture) {
    let (locks, other) = (fixture.connect().await, fixture.connect().await);
    let guard = locks.mutex("l").acquire().await.expect("free");
    assert_eq!(other.break_lock("l").at_once().await.expect("it is held"), 1);
    assert_eq!(soon("it is told", guard.lost()).await, LossCause::Revoked);
    assert!(!guard.is_held());
    assert_eq!(guard.check().expect_err("lost").kind(), ErrorKind::Lost);
    assert_eq!(guard.left(), Duration::ZERO);
    assert_eq!(soon("it stays lost", guard.lost()).await, LossCause::Revoked);
    assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
    assert_eq!(other.break_lock("l").await.expect("nobody holds it"), 0);
}

/// A plain break lets nobody in while the old holder may still rely on the lock.
pub async fn a_revoked_guard_is_lost_before_the_next_one_holds(fixture: &dyn Fixture) {
    let (locks, other) = (fixture.connect().await, fixture.connect().await);
    let guard = locks.mutex("l").acquire().lease(LEASE).await.expect("free");
    let waits = {
        let other = other.clone();
        tokio::spawn(async move { other.mutex("l").acquire().await })
    };
    has_waiters(&other, "l", 1).await;
    let asked = Instant::now();
    let view = other.inspect("l").await.expect("the store answers").expect("it is held");
    let left = view.holders[0].left;
    assert_eq!(other.break_lock("l").await.expect("it is held"), 1);
    let next = soon("the next one holds", waits).await.expect("no panic").expect("passed on");
    // The lease had that long to go at least when it was asked about.
    let margin = Duration::from_millis(5);
    assert!(asked.elapsed() + margin >= left, "it passed on before its deadline");
    assert!(!guard.is_held());
    assert!(next.is_held());
}

/// A holder that hangs can't keep the lock for ever.
pub async fn max_hold_ends_renewal(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let guard =
        locks.mutex("l").acquire().lease(LEASE).max_hold(LEASE * 3 / 2).await.expect("free");
    // It is renewed until then.
    is_renewed(&locks, "l").await;
    assert_eq!(soon("it ends", guard.lost()).await, LossCause::MaxHold);
    is_left_alone(&locks, "l").await;
}

/// The lease may be much longer than `max_hold`, and nobody has to wait for its end.
pub async fn a_lock_held_for_its_max_hold_is_released(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let long = Duration::from_secs(60);
    let guard = locks.mutex("l").acquire().lease(long).max_hold(BRIEF_HOLD).await.expect("free");
    assert_eq!(soon("it ends", guard.lost()).await, LossCause::MaxHold);
    is_left_alone(&locks, "l").await;
}

/// `run` stops polling the work when the lock is lost.
pub async fn work_under_a_lost_lock_is_stopped(fixture: &dyn Fixture) {
    struct SaysWhenDropped(Arc<AtomicBool>);
    impl Drop for SaysWhenDropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let locks = fixture.connect().await;
    let dropped = Arc::new(AtomicBool::new(false));
    let work = {
        let (says, other) = (SaysWhenDropped(dropped.clone()), locks.clone());
        async move |_token| {
            let _says = says;
            other.break_lock("l").at_once().await.expect("it is held");
            std::future::pending::<()>().await;
        }
    };
    let result = soon("it is stopped", locks.mutex("l").run(work)).await;
    assert_eq!(result.expect_err("lost").kind(), ErrorKind::Lost);
    assert!(dropped.load(Ordering::SeqCst));
}

/// If the work ends by itself after the lock was lost, its result is discarded.
pub async fn work_that_outlasts_its_lock_was_not_done_under_it(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let acquire = || locks.mutex("l").acquire().max_hold(BRIEF_HOLD);
    let result = acquire().run(async |_token| std::thread::sleep(BRIEF_HOLD * 2)).await;
    assert_eq!(result.expect_err("lost").kind(), ErrorKind::Lost);
    is_left_alone(&locks, "l").await;
    let result = acquire().run(async |_token| std::thread::sleep(BRIEF_HOLD * 2)).wait();
    assert_eq!(result.expect_err("lost").kind(), ErrorKind::Lost);
}

/// Otherwise `run` returns the result of the work.
pub async fn work_under_a_lock_gives_its_result_and_releases(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let token = locks.mutex("l").run(async |token| token).await.expect("free");
    assert_eq!(token.is_fenced(), locks.guarantees().fenced);
    is_left_alone(&locks, "l").await;
}

/// A held lock goes to another process as text, and is renewed there.
pub async fn a_handle_travels_to_another_client(fixture: &dyn Fixture) {
    let (locks, other) = (fixture.connect().await, fixture.connect().await);
    let guard = locks.mutex("l").acquire().lease(LEASE).await.expect("free");
    let token = guard.token();
    let text = guard.into_handle().await.expect("held").expose();
    drop(locks);
    let adopted = other.adopt(Handle::parse(&text).expect("its own form")).await.expect("held");
    assert_eq!(adopted.token(), token);
    is_renewed(&other, "l").await;
    assert!(adopted.is_held());
    adopted.release().await.expect("held");
}

/// This holds even if the hand-over itself was brief.
pub async fn a_handle_made_after_a_hand_over_has_a_full_lease(fixture: &dyn Fixture) {
    let (locks, other) = (fixture.connect().await, fixture.connect().await);
    let guard = locks.mutex("l").acquire().await.expect("free");
    let waits = tokio::spawn(async move {
        let guard = other.mutex("l").acquire().await.expect("handed over");
        guard.into_handle().await.expect("held")
    });
    has_waiters(&locks, "l", 1).await;
    guard.release().await.expect("held");
    let handle = soon("it is handed over", waits).await.expect("no panic");
    let view = locks.inspect("l").await.expect("the store answers").expect("it is held");
    let left = view.holders[0].left;
    assert!(left > Duration::from_secs(10), "no more than {left:?}");
    locks.release(&handle).await.expect("held");
}

/// Token and lease are part of the text; the other client may ask for another lease.
pub async fn a_handle_keeps_its_token_and_its_lease(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let lease = LEASE * 3;
    let guard = locks.mutex("l").acquire().lease(lease).await.expect("free");
    let token = guard.token();
    let text = guard.into_handle().await.expect("held").expose();
    let handle = Handle::parse(&text).expect("its own form");
    assert_eq!(handle.token(), token);
    assert!(locks.renew(&handle, None).await.expect("held") <= lease);
    assert!(locks.renew(&handle, Some(lease * 5)).await.expect("held") > lease);
    locks.release(&handle).await.expect("held");
}

/// After its release a handle can be neither adopted nor released again.
pub async fn a_released_handle_is_worth_nothing(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let guard = locks.mutex("l").acquire().await.expect("free");
    let handle = guard.into_handle().await.expect("held");
    assert!(locks.renew(&handle, None).await.expect("held") > Duration::ZERO);
    locks.release(&handle).await.expect("held");
    assert_eq!(locks.release(&handle).await.expect_err("gone").kind(), ErrorKind::NotHeld);
    assert_eq!(locks.renew(&handle, None).await.expect_err("gone").kind(), ErrorKind::NotHeld);
    assert_eq!(locks.adopt(handle).await.expect_err("gone").kind(), ErrorKind::NotHeld);
}

/// Renewal does not depend on the user's runtime.
pub async fn a_blocked_runtime_keeps_its_locks(fixture: &dyn Fixture) {
    let (locks, other) = (fixture.connect().await, fixture.connect().await);
    let (held, is_held) = tokio::sync::oneshot::channel();
    let (seen, is_seen) = std::sync::mpsc::channel();
    let blocked = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let guard = locks.mutex("l").acquire().lease(LEASE).await.expect("free");
            held.send(()).expect("the test listens");
            // Blocks the runtime.
            is_seen.recv().expect("it was renewed");
            guard.release().await.expect("held");
        });
    });
    is_held.await.expect("it is free");
    is_renewed(&other, "l").await;
    is_renewed(&other, "l").await;
    seen.send(()).expect("it waits for that");
    tokio::task::spawn_blocking(|| blocked.join()).await.expect("no panic").expect("no panic");
}

/// It blocks only its own thread.
pub async fn the_blocking_api_works_inside_async_code(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let guard = locks.mutex("l").acquire().wait().expect("free");
    assert!(locks.mutex("l").try_acquire().await.expect("the store answers").is_none());
    assert!(guard.is_held());
    guard.release().wait().expect("held");
    assert!(locks.mutex("l").try_acquire().wait().expect("the store answers").is_some());
}

/// Others see the label and the reason, and never the secret.
pub async fn labels_are_seen_by_others(fixture: &dyn Fixture) {
    let (locks, other) = (fixture.connect().await, fixture.connect().await);
    let guard = locks.mutex("l").acquire().why("nightly backup").await.expect("free");
    let view = other.inspect("l").await.expect("the store answers").expect("it is held");
    assert_eq!(view.holders[0].label.why(), "nightly backup");
    assert_eq!(view.holders[0].client, locks.client_id());
    let listed = other.list("l*").await.expect("the store answers");
    assert_eq!(listed.len(), 1);
    drop(guard);
}

/// The number of locks does not matter.
pub async fn a_listing_of_several_pages_is_whole(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    for number in 0..501 {
        locks.pool(format!("p/{number:03}")).add("m").await.expect("the store answers");
    }
    let listed = locks.list("p/*").await.expect("the store answers");
    let names = listed.iter().map(|(name, _)| name.to_string());
    assert!(names.eq((0..501).map(|number| format!("p/{number:03}"))), "{}", listed.len());
}

/// Invalid input is an error that names it, and nothing is held or queued.
pub async fn names_and_leases_are_checked_before_anything_is_sent(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let year = Duration::from_secs(365 * 24 * 60 * 60);
    let long = "x".repeat(513);
    for name in ["", "a\nb", &long] {
        let error = locks.mutex(name).acquire().await.expect_err("not a name");
        assert_eq!(error.kind(), ErrorKind::InvalidName);
    }
    for lease in [Duration::ZERO, Duration::from_millis(9), year * 10, Duration::MAX] {
        let error = locks.mutex("l").acquire().lease(lease).await.expect_err("not a lease");
        assert_eq!(error.kind(), ErrorKind::InvalidLease);
    }
    let error = locks.mutex("l").acquire().max_hold(Duration::ZERO).await.expect_err("no time");
    assert_eq!(error.kind(), ErrorKind::InvalidMaxHold);
    let error = locks.mutex("l").acquire().why("x".repeat(300)).await.expect_err("not a label");
    assert_eq!(error.kind(), ErrorKind::InvalidLabel);
    for (permits, of) in [(5, 4), (0, 4), (1, 0)] {
        let error = locks.semaphore("l", of).acquire_many(permits).await.expect_err("no");
        assert_eq!(error.kind(), ErrorKind::InvalidPermits);
    }
    assert!(locks.inspect("l").await.expect("the store answers").is_none());
}
