//! First come, first served, even if clients die.

use std::time::Duration;

use taketurns::Ask;
use taketurns::engine::{Reply, Request};

use crate::Fixture;
use crate::engine_client::{BRIEF_WAITER_MS, EngineClient};

/// A mutex has one holder; five waiters get it in the order in which they asked.
pub async fn one_holds_and_the_others_wait_in_the_order_they_came(fixture: &dyn Fixture) {
    let [first, mut waiter] = EngineClient::several(fixture).await;
    let (mut holder, mut grant) = first.hold("l", Ask::Mutex).await;
    let mut owners = Vec::new();
    for _ in 0..5 {
        owners.push(waiter.queue("l", Ask::Mutex).await.0);
    }
    for owner in owners {
        assert_eq!(first.release("l", holder).await, Reply::Released);
        let next = waiter.woken_with_grant(owner).await;
        assert!(next.token > grant.token, "tokens increase in the order of the grants");
        (holder, grant) = (owner, next);
    }
    assert!(waiter.heard_nothing());
}

/// A release wakes the client at the head of the queue, and no other.
pub async fn a_release_wakes_the_next_and_nobody_else(fixture: &dyn Fixture) {
    let [holder, mut next, mut other] = EngineClient::several(fixture).await;
    let (owner, _) = holder.hold("l", Ask::Mutex).await;
    let (first, _) = next.queue("l", Ask::Mutex).await;
    let (second, _) = other.queue("l", Ask::Mutex).await;
    holder.release("l", owner).await;
    next.woken_with_grant(first).await;
    assert!(other.heard_nothing());
    next.release("l", first).await;
    other.woken_with_grant(second).await;
    assert!(next.heard_nothing());
}

/// A waiter that leaves does not change the order of the others.
pub async fn a_waiter_who_leaves_is_passed_over(fixture: &dyn Fixture) {
    let [holder, mut waiter] = EngineClient::several(fixture).await;
    let (owner, _) = holder.hold("l", Ask::Mutex).await;
    let (leaves, _) = waiter.queue("l", Ask::Mutex).await;
    let (stays, _) = waiter.queue("l", Ask::Mutex).await;
    assert_eq!(waiter.release("l", leaves).await, Reply::Left);
    assert_eq!(waiter.release("l", leaves).await, Reply::NotHeld);
    holder.release("l", owner).await;
    waiter.woken_with_grant(stays).await;
}

/// An acquire without a waiter lease is answered at once, and is not queued.
pub async fn who_would_not_wait_is_told_busy_and_leaves_no_place(fixture: &dyn Fixture) {
    let [holder, other] = EngineClient::several(fixture).await;
    let (owner, _) = holder.hold("l", Ask::Mutex).await;
    let tries = crate::engine_client::owner();
    assert_eq!(other.try_acquire("l", tries, Ask::Mutex).await, Reply::Busy);
    assert_eq!(holder.view("l").await.expect("it is held").waiting, 0);
    holder.release("l", owner).await;
    assert!(matches!(other.try_acquire("l", tries, Ask::Mutex).await, Reply::Granted(_)));
}

/// A client that comes while others wait must wait too, or is told busy, even at the moment of a
/// release.
pub async fn a_newcomer_does_not_overtake_a_waiter(fixture: &dyn Fixture) {
    let [holder, mut waiter, newcomer] = EngineClient::several(fixture).await;
    let (owner, _) = holder.hold("l", Ask::Mutex).await;
    let (waits, _) = waiter.queue("l", Ask::Mutex).await;
    holder.release("l", owner).await;
    let late = newcomer.try_acquire("l", crate::engine_client::owner(), Ask::Mutex).await;
    assert_eq!(late, Reply::Busy);
    waiter.woken_with_grant(waits).await;
}

/// A waiter whose client stopped refreshing is passed over.
pub async fn a_dead_waiter_is_skipped_after_one_waiter_lease(fixture: &dyn Fixture) {
    let [holder, dead, mut live] = EngineClient::several(fixture).await;
    let dead = dead.brief();
    let (owner, _) = holder.hold("l", Ask::Mutex).await;
    dead.queue("l", Ask::Mutex).await;
    let (waits, _) = live.queue("l", Ask::Mutex).await;
    fixture.pass(Duration::from_millis(BRIEF_WAITER_MS)).await;
    holder.release("l", owner).await;
    live.woken_with_grant(waits).await;
}

/// Ten waiters that died together delay the next by one waiter lease, not by ten.
pub async fn many_dead_waiters_cost_one_waiter_lease_together(fixture: &dyn Fixture) {
    let [holder, mut live] = EngineClient::several(fixture).await;
    let dead: [EngineClient; 10] = EngineClient::several(fixture).await.map(EngineClient::brief);
    let (owner, _) = holder.hold("l", Ask::Mutex).await;
    for party in &dead {
        party.queue("l", Ask::Mutex).await;
    }
    let (waits, _) = live.queue("l", Ask::Mutex).await;
    holder.release("l", owner).await;
    // The first dead waiter was handed the lock, for at most a waiter lease.
    fixture.pass(Duration::from_millis(BRIEF_WAITER_MS)).await;
    live.refresh("l").await;
    live.woken_with_grant(waits).await;
}

/// A client refreshes once per lock, however many of its tasks wait.
pub async fn one_refresh_keeps_all_places_of_a_client_alive(fixture: &dyn Fixture) {
    let [holder, waiter] = EngineClient::several(fixture).await;
    let mut waiter = waiter.brief();
    let (owner, _) = holder.hold("l", Ask::Mutex).await;
    let (first, _) = waiter.queue("l", Ask::Mutex).await;
    let (second, _) = waiter.queue("l", Ask::Mutex).await;
    for _ in 0..3 {
        fixture.pass(Duration::from_millis(BRIEF_WAITER_MS * 2 / 3)).await;
        let reply = waiter.refresh("l").await;
        assert!(matches!(reply, Reply::Refreshed { waiting: 2, .. }), "{reply:?}");
    }
    holder.release("l", owner).await;
    waiter.woken_with_grant(first).await;
    waiter.release("l", first).await;
    waiter.woken_with_grant(second).await;
}

/// When a client is known to be dead, nobody waits for its lease, and a lock that was just handed
/// to it passes on.
pub async fn a_client_known_to_be_dead_loses_its_places_at_once(fixture: &dyn Fixture) {
    let [holder, dead, mut live] = EngineClient::several(fixture).await;
    let (owner, _) = holder.hold("l", Ask::Mutex).await;
    dead.queue("l", Ask::Mutex).await;
    dead.queue("l", Ask::Mutex).await;
    let (waits, _) = live.queue("l", Ask::Mutex).await;
    holder.release("l", owner).await;
    assert!(live.heard_nothing());
    holder.send("l", Request::ClientGone { client: dead.id }).await;
    live.woken_with_grant(waits).await;
}
