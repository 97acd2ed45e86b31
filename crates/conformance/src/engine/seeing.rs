//! Views and listings: what they show, and that looking changes nothing.

use std::time::Duration;

use taketurns::engine::{Pattern, Request};
use taketurns::{Ask, Kind, Label};

use crate::Fixture;
use crate::engine_client::{BRIEF_MS, EngineClient, LEASE_MS, name, owner};

/// Holders with their labels and times, waiters in order.
pub async fn looking_shows_who_holds_and_who_waits(fixture: &dyn Fixture) {
    let [holder, waiter] = EngineClient::several(fixture).await;
    let mut request = holder.request(owner(), Ask::Mutex).await;
    request.label = Label::new("web1:42 rsync", "nightly").expect("a valid label");
    holder.send("l", Request::Acquire(request.clone())).await;
    waiter.queue("l", Ask::Mutex).await;
    let view = waiter.view("l").await.expect("it is held");
    assert_eq!((view.kind, view.waiting), (Kind::Mutex, 1));
    let [shown] = view.holders.try_into().expect("one holder");
    assert_eq!(shown.label, request.label);
    assert_eq!(shown.client, holder.id);
    assert_eq!(shown.token, view.last_token);
    assert!(shown.left <= Duration::from_millis(LEASE_MS) && !shown.revoked);
    let [waits] = view.waiters.try_into().expect("one waiter");
    assert_eq!((waits.client, waits.ask), (waiter.id, Ask::Mutex));
    holder.queue("l", Ask::Mutex).await;
    let view = waiter.engine.view(&name("l"), 1).await.expect("the engine answers");
    let view = view.expect("it is held");
    assert_eq!((view.waiting, view.waiters.len()), (2, 1), "no more than was asked for");
    assert_eq!(view.waiters[0].client, waiter.id);
    for (waiters_max, shown) in [(1, 1), (2, 2), (9, 2)] {
        let listed = waiter.engine.list(&Pattern::new("l"), None, 9, waiters_max).await;
        let (_, view) = listed.expect("the engine answers").pop().expect("it is held");
        assert_eq!((view.waiting, view.waiters.len()), (2, shown), "a listing has as many too");
    }
}

/// An expired lease is not shown, and looking does not end it.
pub async fn looking_changes_nothing(fixture: &dyn Fixture) {
    let [party] = EngineClient::several(fixture).await.map(EngineClient::brief);
    let (_, grant) = party.hold("l", Ask::Mutex).await;
    let before = party.view("l").await.expect("it is held");
    assert_eq!(party.view("l").await.expect("it is held").last_token, before.last_token);
    fixture.pass(Duration::from_millis(BRIEF_MS)).await;
    let view = party.view("l").await.expect("it is remembered");
    assert!(view.holders.is_empty());
    assert_eq!(view.last_token, grant.token);
}

/// By name, only those that match, page by page.
pub async fn a_listing_is_sorted_filtered_and_paged(fixture: &dyn Fixture) {
    let [party] = EngineClient::several(fixture).await;
    for lock in ["orders/2", "orders/10", "users/1", "orders/1"] {
        party.hold(lock, Ask::Mutex).await;
    }
    let list = async |pattern: &str, after: Option<&str>, max| {
        let after = after.map(name);
        let listed = party.engine.list(&Pattern::new(pattern), after.as_ref(), max, 1).await;
        let listed = listed.expect("the engine answers");
        listed.into_iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(list("*", None, 100).await, ["orders/1", "orders/10", "orders/2", "users/1"]);
    assert_eq!(list("orders/*", None, 100).await, ["orders/1", "orders/10", "orders/2"]);
    assert_eq!(list("orders/*", None, 2).await, ["orders/1", "orders/10"]);
    assert_eq!(list("orders/*", Some("orders/10"), 2).await, ["orders/2"]);
    assert!(list("nothing", None, 100).await.is_empty());
    assert_eq!(list("orders/?", None, 100).await, ["orders/1", "orders/2"]);
    assert_eq!(list("*/1", None, 100).await, ["orders/1", "users/1"]);
    // An unfinished listing does not affect another one.
    assert_eq!(list("orders/*", None, 1).await, ["orders/1"]);
    assert_eq!(list("users/*", Some("orders/1"), 100).await, ["users/1"]);
    // A finished listing does not affect a later one.
    party.hold("zebra", Ask::Mutex).await;
    assert_eq!(list("users/*", Some("orders/1"), 100).await, ["users/1"]);
    assert_eq!(list("*", None, 100).await.len(), 5);
    party.hold("zoo", Ask::Mutex).await;
    assert_eq!(list("*", Some("users/1"), 100).await, ["zebra", "zoo"]);
}

/// Nobody used it, so there is nothing to show.
pub async fn an_unknown_lock_is_shown_as_none(fixture: &dyn Fixture) {
    let [party] = EngineClient::several(fixture).await;
    assert_eq!(party.view("never").await, None);
    // Nor if the store remembers only which owners may not have it.
    let now_ms = party.engine.ping().await.expect("the engine answers").now_ms;
    let request =
        Request::Release { owner: owner(), bury_until_ms: now_ms + 10_000, last_used: None };
    party.send("never", request).await;
    let listed = party.engine.list(&Pattern::new("*"), None, 10, 1).await;
    assert_eq!(listed.expect("the engine answers"), []);
}
