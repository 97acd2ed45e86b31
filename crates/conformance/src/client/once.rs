//! Work that is done once, as programs use it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use taketurns::{Attempt, Begun, Error, ErrorKind, Locks, Once, OnceOutcome};

use super::{has_waiters, soon};
use crate::Fixture;

async fn attempt(once: &Once) -> Attempt {
    match soon("it is its turn", once.begin()).await.expect("the store answers") {
        Begun::Attempt(attempt) => attempt,
        Begun::DoneBefore(done) => panic!("nobody has done it: {done:?}"),
    }
}

/// Of many clients that would do it at the same time one does, and the others are told.
pub async fn of_many_clients_one_does_the_work(fixture: &dyn Fixture) {
    let (done, mut tasks) = (std::sync::Arc::new(AtomicU32::new(0)), Vec::new());
    for _ in 0..8 {
        let (locks, done): (Locks, _) = (fixture.connect().await, done.clone());
        tasks.push(tokio::spawn(async move {
            let once = locks.once("migrate").why("suite");
            let work = async |_token| Ok::<u32, ()>(done.fetch_add(1, Ordering::Relaxed));
            once.run(work).await.expect("the store answers")
        }));
    }
    let (mut did_it, mut told) = (0, 0);
    for task in tasks {
        match soon("it is done", task).await.expect("no panic") {
            OnceOutcome::DidIt(before) => did_it += 1 + before,
            OnceOutcome::DoneBefore(done) => {
                assert_eq!(done.by.why(), "suite");
                told += 1;
            }
            OnceOutcome::Failed(()) => panic!("nobody failed"),
        }
    }
    assert_eq!((did_it, told, done.load(Ordering::Relaxed)), (1, 7, 1));
}

/// What failed is tried by the next in line: it said so, or was dropped.
pub async fn work_that_failed_is_tried_by_the_next(fixture: &dyn Fixture) {
    let (locks, other) = (fixture.connect().await, fixture.connect().await);
    let (once, next) = (locks.once("l"), other.once("l"));
    let failing = attempt(&once).await;
    let waiting = tokio::spawn({
        let next = next.clone();
        async move { attempt(&next).await }
    });
    has_waiters(&locks, "l", 1).await;
    failing.fail().await.expect("it is ours");
    let dropped = soon("it is its turn", waiting).await.expect("no panic");
    assert!(dropped.check().is_ok());
    drop(dropped);
    let last = attempt(&once).await;
    last.done_with("at last").await.expect("it is ours");
    let done = next.completion().await.expect("the store answers").expect("it is done");
    assert_eq!((done.result.as_str(), done.failed), ("at last", 2));
    assert!(done.at() < done.until());
}

/// As many attempts as it may have fail; then nobody may try until it is undone.
pub async fn work_that_failed_too_often_is_not_tried_again(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let once = locks.once("l").attempts(2);
    for error in ["first", "second"] {
        let failing = async |_token| Err::<(), _>(error);
        let outcome = soon("it is its turn", once.run(failing)).await.expect("the store answers");
        assert_eq!(outcome, OnceOutcome::Failed(error));
    }
    let error = soon("it is refused", once.begin()).await.expect_err("no third time");
    assert!(matches!(error, Error::Exhausted { attempts: 2, .. }), "{error}");
    assert!(once.undo().await.expect("the store answers"));
    attempt(&once).await.done().await.expect("it is ours");
    assert!(once.undo().await.expect("the store answers"));
    assert!(!once.undo().await.expect("the store answers"), "nothing is left to forget");
}

/// Waits for work that somebody else does, and gives up. If the time is over before the store has answered, nothing is
/// known of the work: then it takes more time.
async fn gives_up_in_time(locks: &Locks) {
    let mut within = Duration::from_millis(30);
    loop {
        let error = locks.once("l").within(within).begin().await.expect_err("it takes longer");
        match error.kind() {
            ErrorKind::Timeout => return,
            ErrorKind::Unreachable => within *= 2,
            _ => panic!("{error}"),
        }
    }
}

/// Who would not wait is told at once, and one who waits gives up in time.
pub async fn an_attempt_under_way_keeps_others_from_the_work(fixture: &dyn Fixture) {
    let (locks, other) = (fixture.connect().await, fixture.connect().await);
    let working = attempt(&locks.once("l")).await;
    let tried = other.once("l").try_begin().await.expect("the store answers");
    assert!(tried.is_none(), "somebody works on it");
    soon("an answer", gives_up_in_time(&other)).await;
    // Broken, it is lost, and *done* is not recorded.
    assert_eq!(other.break_lock("l").at_once().await.expect("the store answers"), 1);
    soon("it is told", working.lost()).await;
    let error = working.done().await.expect_err("it is lost");
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(other.once("l").completion().await.expect("the store answers"), None);
}

/// Options that can't be are refused before anything is sent.
pub async fn what_no_once_remembers_is_refused(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let once = || locks.once("l");
    let day = Duration::from_secs(86_400);
    for (once, kind) in [
        (once().remember_for(Duration::from_millis(999)), ErrorKind::InvalidOnce),
        (once().remember_for(31 * day + Duration::from_millis(1)), ErrorKind::InvalidOnce),
        (once().every(day, day), ErrorKind::InvalidOnce),
        (once().attempts(0), ErrorKind::InvalidOnce),
        (once().pause(day + Duration::from_millis(1)), ErrorKind::InvalidOnce),
        (locks.once(""), ErrorKind::InvalidName),
        (once().lease(Duration::from_millis(9)), ErrorKind::InvalidLease),
    ] {
        let error = once.begin().await.expect_err("it can't be");
        assert_eq!(error.kind(), kind, "{error}");
    }
    let working = attempt(&once().every(day, day / 2).pause(day)).await;
    let error = working.done_with("two\nlines").await.expect_err("no result");
    assert_eq!(error.kind(), ErrorKind::InvalidNote);
    assert_eq!(once().completion().await.expect("the store answers"), None);
    for at_least in [Duration::from_millis(9), Duration::from_secs(86_401)] {
        let acquire = locks.mutex("m").acquire().at_least(at_least);
        let error = acquire.await.expect_err("it can't stay taken for so long");
        assert_eq!(error.kind(), ErrorKind::InvalidAtLeast);
    }
}

/// A job that is quick is not repeated by the next machine at once.
pub async fn a_lock_that_was_released_stays_taken(fixture: &dyn Fixture) {
    let (locks, other) = (fixture.connect().await, fixture.connect().await);
    let acquire = locks.mutex("l").acquire().at_least(Duration::from_secs(30));
    acquire.await.expect("free").release().await.expect("held");
    assert!(other.mutex("l").try_acquire().await.expect("the store answers").is_none());
    let view = other.inspect("l").await.expect("the store answers").expect("it is held");
    assert!(view.holders[0].resting, "{view:?}");
    assert_eq!(other.break_lock("l").await.expect("the store answers"), 1);
    let free = other.mutex("l").try_acquire().await.expect("the store answers");
    free.expect("it is free").release().await.expect("held");
}
