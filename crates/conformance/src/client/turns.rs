//! Turns that are handed on inside a process.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use taketurns::{Error, ErrorKind, Guard, Keep, Locks, Token};

use super::{has_waiters, is_left_alone, soon};
use crate::Fixture;

/// An acquire that has begun to wait.
type BoxedAcquire = Pin<Box<dyn Future<Output = Result<Guard, Error>> + Send>>;

/// Starts an acquire; returns once it is in line.
async fn waits(locks: &Locks, turns: u32) -> BoxedAcquire {
    let mut turn: BoxedAcquire =
        Box::pin(locks.mutex("l").acquire().keep(Keep::Turns(turns)).into_future());
    poll_fn(|context| {
        assert!(turn.as_mut().poll(context).is_pending(), "somebody else holds it");
        Poll::Ready(())
    })
    .await;
    turn
}

async fn leads(locks: &Locks, turns: u32) -> Guard {
    locks.mutex("l").acquire().keep(Keep::Turns(turns)).await.expect("free")
}

async fn had(turn: BoxedAcquire) -> Guard {
    soon("its turn", turn).await.expect("handed on")
}

fn token(guard: &Guard) -> Token {
    guard.check().expect("held")
}

/// Turns are first come, first served. No token comes twice: those of a block follow each other.
pub async fn local_turns_are_had_in_order_with_tokens_that_increase(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let mut guard = leads(&locks, 4).await;
    let mut turns = Vec::new();
    for _ in 0..10 {
        turns.push(waits(&locks, 4).await);
    }
    for (number, mut turn) in turns.into_iter().enumerate() {
        let before = token(&guard);
        let waits = poll_fn(|context| Poll::Ready(turn.as_mut().poll(context).is_pending()));
        assert!(waits.await, "turn {number} began before its time");
        guard.release().await.expect("held");
        guard = had(turn).await;
        let follows = token(&guard).raw() == before.raw() + 1;
        assert!(token(&guard) > before);
        // The leader's turn is the first of four.
        assert!(follows || number % 4 == 3, "turn {number} was not handed on");
    }
    guard.release().await.expect("held");
    is_left_alone(&locks, "l").await;
}

/// This holds however many tasks wait in this process.
pub async fn others_have_their_turn_after_the_local_ones(fixture: &dyn Fixture) {
    let (locks, others) = (fixture.connect().await, fixture.connect().await);
    let first = leads(&locks, 3).await;
    let [second, third, fourth] =
        [waits(&locks, 3).await, waits(&locks, 3).await, waits(&locks, 3).await];
    let other = tokio::spawn(async move { others.mutex("l").acquire().await });
    has_waiters(&locks, "l", 1).await;
    first.release().await.expect("held");
    had(second).await.release().await.expect("held");
    let third = had(third).await;
    let last = token(&third);
    third.release().await.expect("held");
    let other = soon("another client", other).await.expect("no panic").expect("handed over");
    assert!(token(&other) > last);
    // The next leader has asked by now.
    let mut fourth = fourth;
    let waits = poll_fn(|context| Poll::Ready(fourth.as_mut().poll(context).is_pending())).await;
    assert!(waits, "two hold");
    let last = token(&other);
    other.release().await.expect("held");
    assert!(token(&had(fourth).await) > last);
}

/// It does not matter whether that task knew of its turn.
pub async fn a_local_turn_that_nobody_wants_any_more_is_passed_on(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    let guard = leads(&locks, 100).await;
    let [leaves, told, stays] =
        [waits(&locks, 100).await, waits(&locks, 100).await, waits(&locks, 100).await];
    drop(leaves);
    // Now it is the turn of a task that does not poll.
    drop(guard);
    drop(told);
    let guard = had(stays).await;
    let leads = waits(&locks, 100).await;
    drop(leads);
    guard.release().await.expect("held");
    is_left_alone(&locks, "l").await;
}

/// A lost lock is not handed on, and no task waits for it for ever.
pub async fn a_lock_lost_during_a_local_turn_is_asked_for_anew(fixture: &dyn Fixture) {
    let (locks, others) = (fixture.connect().await, fixture.connect().await);
    let guard = leads(&locks, 100).await;
    let [unaware, next] = [waits(&locks, 100).await, waits(&locks, 100).await];
    let before = token(&guard);
    guard.release().await.expect("held");
    let unaware = had(unaware).await;
    let lost = unaware.lost();
    others.break_lock("l").at_once().await.expect("it is held");
    soon("it is lost", lost).await;
    let error = unaware.release().await.expect_err("it was lost");
    assert_eq!(error.kind(), ErrorKind::Lost);
    let next = had(next).await;
    assert!(token(&next).raw() > before.raw() + 99, "all tokens of the block are used up");
    next.release().await.expect("held");
}

/// The store can give these tokens to others, so that tokens stay near its clock.
pub async fn tokens_of_local_turns_that_nobody_had_go_back(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    for others in 0..3 {
        let mut guard = leads(&locks, 1_000).await;
        for _ in 0..others {
            let turn = waits(&locks, 1_000).await;
            guard.release().await.expect("held");
            guard = had(turn).await;
        }
        let last = token(&guard);
        guard.release().await.expect("held");
        let view = locks.inspect("l").await.expect("the store answers").expect("remembered");
        assert_eq!(view.last_token, Some(last), "after {others} more turns");
    }
}

/// Other kinds of lock have no local turns.
pub async fn local_turns_have_limits(fixture: &dyn Fixture) {
    let locks = fixture.connect().await;
    for turns in [0, 10_001] {
        let error =
            locks.mutex("l").acquire().keep(Keep::Turns(turns)).await.expect_err("out of range");
        assert_eq!(error.kind(), ErrorKind::InvalidKeep);
    }
    let error = locks.rwlock("l").write().keep(Keep::Turns(2)).await.expect_err("no mutex");
    assert_eq!(error.kind(), ErrorKind::InvalidKeep);
    leads(&locks, 10_000).await.release().await.expect("held");
}

/// A later turn of a block keeps its token when it moves to another client and back, and no token comes twice.
pub async fn a_local_turn_that_is_adopted_keeps_its_token(fixture: &dyn Fixture) {
    let (locks, others) = (fixture.connect().await, fixture.connect().await);
    let first = leads(&locks, 3).await;
    let second = waits(&locks, 3).await;
    first.release().await.expect("held");
    let second = had(second).await;
    let last = token(&second);
    let handle = second.into_handle().await.expect("held");
    let adopted = others.adopt(handle).await.expect("held");
    assert_eq!(token(&adopted), last);
    adopted.release().await.expect("held");
    let view = locks.inspect("l").await.expect("the store answers").expect("remembered");
    assert!(view.last_token >= Some(last), "a token that was used is given to another");
    let next = leads(&locks, 3).await;
    assert!(token(&next) > last, "a token came twice");
    next.release().await.expect("held");
    is_left_alone(&locks, "l").await;
}
