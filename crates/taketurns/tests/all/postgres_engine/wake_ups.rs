//! Messages: who listens, who polls, and that nobody can forge one.

use std::time::Duration;

use taketurns_servers::eventually;
use taketurns_servers::others::{PgBouncer, PostgresDatabase};

use super::{connect, database, has_waiters};
use crate::support::patience::soon;
use crate::support::postgres_fixture::postgres;

/// How many connections of clients listen.
fn listening(database: &PostgresDatabase<'_>) -> u32 {
    let count = database.sql(&format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND query LIKE 'LISTEN%'",
        database.name()
    ));
    count.expect("an answer").parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_client_that_waits_listens() {
    let database = database();
    let (holder, waiter) = (connect(&database.url()).await, connect(&database.url()).await);
    let held = holder.mutex("l").acquire().await.expect("free");
    assert_eq!(listening(&database), 0, "holding needs no messages at once");
    let waiting = tokio::spawn(async move { (waiter.mutex("l").acquire().await, waiter) });
    has_waiters(&holder, "l", 1).await;
    eventually("one listens", || (listening(&database) == 1).then_some(())).expect("the waiter");
    held.release().await.expect("released");
    let (guard, waiter) = soon("handed over", waiting).await.expect("a task");
    guard.expect("granted").release().await.expect("released");
    eventually("nobody listens", || (listening(&database) == 0).then_some(()))
        .expect("its lease is over");
    drop((holder, waiter));
}

/// A client that only holds does not listen: it finds the message in the table.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_is_told_that_its_lock_was_broken() {
    let database = database();
    let url = format!("{}?max_lease=3600", database.url());
    let (holder, other) = (connect(&url).await, connect(&url).await);
    // No renewal says so while the test waits.
    let lease = Duration::from_secs(3_600);
    let held = holder.mutex("l").acquire().lease(lease).await.expect("free");
    assert_eq!(other.break_lock("l").await.expect("broken"), 1);
    soon("the message", held.lost()).await;
    assert!(held.check().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_proxy_a_waiter_polls_and_is_granted_the_lock() {
    let database = database();
    let proxy = PgBouncer::start(postgres()).expect("pgbouncer");
    // So long it waits for a message that never comes.
    let url = proxy.url_of(database.name()) + "?connect_timeout=60&response_timeout=10";
    let open = async || taketurns::connect(&url).await.expect("a store");
    let (holder, waiter) = (open().await, open().await);
    let held = holder.mutex("l").acquire().await.expect("free");
    let waiting = tokio::spawn(async move {
        let guard = waiter.mutex("l").acquire().await.expect("granted");
        guard.release().await.expect("released");
    });
    has_waiters(&holder, "l", 1).await;
    held.release().await.expect("released");
    soon("granted by polling", waiting).await.expect("a task");
}

/// Everybody in the database may NOTIFY.
#[tokio::test(flavor = "multi_thread")]
async fn a_forged_or_malformed_message_is_ignored() {
    let database = database();
    let (holder, waiter) = (connect(&database.url()).await, connect(&database.url()).await);
    let held = holder.mutex("l").acquire().await.expect("free");
    let waiting =
        tokio::spawn(async move { waiter.mutex("l").acquire().await.map(|guard| (guard, waiter)) });
    has_waiters(&holder, "l", 1).await;
    let view = holder.inspect("l").await.expect("a look").expect("there");
    let channel = format!("taketurns_{}", view.waiters[0].client);
    for message in ["", "look", "probe", "x", "0 0 0 G 1 2", &"f".repeat(4_000)] {
        database.sql(&format!("SELECT pg_notify('{channel}', '{message}')")).expect("sent");
    }
    assert!(!waiting.is_finished());
    held.check().expect("held all along");
    held.release().await.expect("released");
    let (guard, _waiter) = soon("handed over", waiting).await.expect("a task").expect("granted");
    guard.release().await.expect("released");
}
