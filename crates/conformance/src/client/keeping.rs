//! Locks that a client keeps for its own use until another one wants them.

use std::time::Duration;

use taketurns::{ErrorKind, Guard, Keep, Locks, Token};

use super::{has_waiters, is_left_alone, is_renewed, soon};
use crate::Fixture;

/// Short enough to be renewed during a test, and long enough not to end on a slow machine.
const BRIEF: Duration = Duration::from_secs(3);

async fn kept(locks: &Locks) -> Guard {
    let acquire = locks.mutex("l").acquire().keep(Keep::UntilWanted);
    soon("the lock", acquire).await.expect("it comes free")
}

async fn kept_briefly(locks: &Locks) -> Guard {
    let acquire = locks.mutex("l").acquire().lease(BRIEF).keep(Keep::UntilWanted);
    soon("the lock", acquire).await.expect("it comes free")
}

fn token(guard: &Guard) -> Token {
    guard.check().expect("held")
}

async fn is_held(locks: &Locks) -> bool {
    let view = locks.inspect("l").await.expect("the store answers");
    view.is_some_and(|view| !view.holders.is_empty())
}

/// Each use has its own token, and the store sees one holder.
pub async fn a_kept_lock_is_had_again_at_once(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let mut guard = kept(&locks).await;
    for _ in 0..5 {
        let before = token(&guard);
        guard.release().await.expect("held");
        assert!(is_held(&locks).await, "it is kept");
        guard = kept(&locks).await;
        assert_eq!(token(&guard).raw(), before.raw() + 1);
    }
    let last = token(&guard);
    drop(guard);
    let other = fixture.connect().await;
    let other = soon("the lock", other.mutex("l").acquire()).await.expect("nobody uses it");
    assert!(token(&other) > last);
    other.release().await.expect("held");
    is_left_alone(&locks, "l").await;
}

/// The turn under way is the last, even if other tasks of this client are in line.
pub async fn a_kept_lock_goes_to_others_after_the_turn_under_way(fixture: &dyn Fixture) {
    let (locks, others) = (fixture.connect().await, fixture.connect().await);
    let first = kept_briefly(&locks).await;
    let other = tokio::spawn(async move { others.mutex("l").acquire().await });
    has_waiters(&locks, "l", 1).await;
    // The reply to a renewal says that it is wanted, and the next renewal is sent after that reply.
    is_renewed(&locks, "l").await;
    is_renewed(&locks, "l").await;
    let next = locks.clone();
    let next = tokio::spawn(async move { kept_briefly(&next).await });
    let last = token(&first);
    first.release().await.expect("held");
    let other = soon("another client", other).await.expect("no panic").expect("handed over");
    assert!(token(&other) > last && !next.is_finished());
    let last = token(&other);
    other.release().await.expect("held");
    let next = soon("the next task", next).await.expect("no panic");
    assert!(token(&next) > last);
    next.release().await.expect("held");
}

/// Nobody uses it, so it would be wrong to say that it is busy. While it is used, it is.
pub async fn who_would_not_wait_gets_a_lock_that_is_only_kept(fixture: &dyn Fixture) {
    let (locks, others) = (fixture.connect().await, fixture.connect().await);
    let used = kept(&locks).await;
    let tried = soon("an answer", others.mutex("l").try_acquire()).await.expect("an answer");
    assert!(tried.is_none(), "two hold");
    used.release().await.expect("held");
    // On a slow machine the client that keeps it may take longer to let go than the other one waits.
    let tried = soon("the lock", async {
        loop {
            kept(&locks).await.release().await.expect("held");
            let tried = others.mutex("l").try_acquire().await.expect("an answer");
            if let Some(guard) = tried {
                return guard;
            }
        }
    });
    tried.await.release().await.expect("held");
    is_left_alone(&locks, "l").await;
}

/// A task that asks for another lease, or would not wait, does not share the grant.
pub async fn a_request_on_other_terms_ends_the_keep(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let last = token(&kept(&locks).await);
    let plain = soon("the lock", locks.mutex("l").acquire()).await.expect("nobody uses it");
    assert!(token(&plain) > last);
    plain.release().await.expect("held");
    let last = token(&kept(&locks).await);
    let tried = soon("the lock", locks.mutex("l").try_acquire()).await.expect("an answer");
    let tried = tried.expect("nobody uses it");
    assert!(token(&tried) > last);
    tried.release().await.expect("held");
    is_left_alone(&locks, "l").await;
}

/// It ends within a third of its lease.
pub async fn a_kept_lock_that_nobody_uses_is_given_back(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    drop(kept_briefly(&locks).await);
    is_left_alone(&locks, "l").await;
}

/// Without waiting for its lease.
pub async fn closing_gives_back_what_is_kept(fixture: &dyn Fixture) {
    let (locks, others) = (fixture.connect().await, fixture.connect().await);
    let last = token(&kept(&locks).await);
    locks.close().await;
    let view = others.inspect("l").await.expect("the store answers").expect("remembered");
    assert!(view.holders.is_empty(), "{view:?}");
    assert_eq!(view.last_token, Some(last), "tokens that nobody used go back");
}

/// Nobody uses it, so it is given back at once, and not when its lease ends. The next use asks the store.
pub async fn a_kept_lock_that_is_broken_is_asked_for_anew(fixture: &dyn Fixture) {
    let (locks, others) = (fixture.connect().await, fixture.connect().await);
    let last = token(&kept(&locks).await);
    others.break_lock("l").await.expect("it is held");
    let other = soon("the lock", others.mutex("l").acquire()).await.expect("it was broken");
    assert!(token(&other) > last);
    let last = token(&other);
    let next = locks.clone();
    let next = tokio::spawn(async move { kept(&next).await });
    other.release().await.expect("held");
    let next = soon("the next use", next).await.expect("no panic");
    assert!(token(&next) > last && next.is_held());
    next.release().await.expect("held");
}

/// Other kinds of lock can't be kept, and `max_hold` counts from a grant.
pub async fn what_can_not_be_kept_is_refused(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let kept = locks.mutex("l").acquire().keep(Keep::UntilWanted);
    let error = kept.max_hold(Duration::from_secs(1)).await.expect_err("it can't have both");
    assert_eq!(error.kind(), ErrorKind::InvalidKeep);
    let error = locks.rwlock("l").write().keep(Keep::UntilWanted).await.expect_err("no mutex");
    assert_eq!(error.kind(), ErrorKind::InvalidKeep);
}
