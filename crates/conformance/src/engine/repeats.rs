//! Requests that arrive twice, too late, or from a client that is not the owner.

use std::time::Duration;

use taketurns::Ask;
use taketurns::engine::{AcquireRequest, Refusal, Reply, Request};

use crate::Fixture;
use crate::engine_client::{EngineClient, granted, name, owner};

/// A retry after a lost reply finds the grant of the first request.
pub async fn an_acquire_sent_twice_gives_the_same_grant(fixture: &dyn Fixture) {
    let [party] = EngineClient::several(fixture).await;
    let (owns, grant) = party.hold("l", Ask::Mutex).await;
    assert_eq!(granted(party.acquire("l", owns, Ask::Mutex).await), grant);
    assert_eq!(party.release("l", owns).await, Reply::Released);
}

/// A retry while waiting keeps the place of the first request.
pub async fn an_acquire_sent_twice_gives_the_same_place(fixture: &dyn Fixture) {
    let [holder, mut waiter] = EngineClient::several(fixture).await;
    let (owns, _) = holder.hold("l", Ask::Mutex).await;
    let (first, place) = waiter.queue("l", Ask::Mutex).await;
    waiter.queue("l", Ask::Mutex).await;
    match waiter.acquire("l", first, Ask::Mutex).await {
        Reply::Queued(again) => assert_eq!(again.number, place.number),
        other => panic!("expected the same place, got {other:?}"),
    }
    assert_eq!(waiter.view("l").await.expect("it is held").waiting, 2);
    holder.release("l", owns).await;
    waiter.woken_with_grant(first).await;
}

/// Late bytes from a broken connection take neither the lock nor a place.
pub async fn an_acquire_that_comes_too_late_changes_nothing(fixture: &dyn Fixture) {
    let [party] = EngineClient::several(fixture).await;
    let request = party.request(owner(), Ask::Mutex).await;
    let late = AcquireRequest { not_after_ms: party.now_ms().await + 100, ..request };
    fixture.pass(Duration::from_millis(200)).await;
    let reply = party.send("l", Request::Acquire(late)).await;
    assert_eq!(reply, Reply::Refused(Refusal::TooLate));
    party.hold("l", Ask::Mutex).await;
}

/// A cancel that overtakes its acquire wins.
pub async fn a_cancelled_owner_does_not_come_back(fixture: &dyn Fixture) {
    let [party] = EngineClient::several(fixture).await;
    let request = party.request(owner(), Ask::Mutex).await;
    let cancel = Request::Release {
        owner: request.owner,
        bury_until_ms: request.not_after_ms,
        last_used: None,
    };
    assert_eq!(party.send("l", cancel).await, Reply::NotHeld);
    let reply = party.send("l", Request::Acquire(request)).await;
    assert_eq!(reply, Reply::Refused(Refusal::Cancelled));
    party.hold("l", Ask::Mutex).await;
}

/// Only the owner's exact bits authorise.
pub async fn a_wrong_owner_can_neither_renew_nor_release(fixture: &dyn Fixture) {
    let [party] = EngineClient::several(fixture).await;
    let (owns, _) = party.hold("l", Ask::Mutex).await;
    let other = owner();
    assert_eq!(party.renew("l", other).await, Reply::NotHeld);
    assert_eq!(party.release("l", other).await, Reply::NotHeld);
    assert_eq!(party.release("l", owns).await, Reply::Released);
}

/// `call_all` answers each request, in the order given.
pub async fn several_calls_at_once_are_answered_in_order(fixture: &dyn Fixture) {
    let [party] = EngineClient::several(fixture).await;
    let (owns, _) = party.hold("a", Ask::Mutex).await;
    let tick = Request::Tick;
    let release = Request::Release { owner: owns, bury_until_ms: 0, last_used: None };
    let calls = vec![(name("b"), tick), (name("a"), release.clone()), (name("a"), release)];
    let answers = party.engine.call_all(calls).await;
    let replies: Vec<Reply> =
        answers.into_iter().map(|answer| answer.expect("the engine answers").reply).collect();
    assert_eq!(replies, [Reply::Done, Reply::Released, Reply::NotHeld]);
}
