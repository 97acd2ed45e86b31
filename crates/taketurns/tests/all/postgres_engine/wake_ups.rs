//! Messages: who listens, who polls, and that nobody can forge one.

use std::time::Duration;

use taketurns::Locks;
use taketurns_servers::eventually;
use taketurns_servers::others::{PgBouncer, PostgresDatabase};

use super::{connect, database};
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

async fn is_waited_for(locks: &Locks, name: &str) {
    while locks.inspect(name).await.expect("a look").is_none_or(|view| view.waiting == 0) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_client_that_waits_listens() {
    let database = database();
    let (holder, waiter) = (connect(&database.url()).await, connect(&database.url()).await);
    let held = holder.mutex("l").acquire().await.expect("free");
    assert_eq!(listening(&database), 0, "holding needs no messages at once");
    let waiting = tokio::spawn(async move { (waiter.mutex("l").acquire().await, waiter) });
    is_waited_for(&holder, "l").await;
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
    let (holder, other) = (connect(&database.url()).await, connect(&database.url()).await);
    let lease = Duration::from_secs(60);
    let held = holder.mutex("l").acquire().lease(lease).await.expect("free");
    assert_eq!(other.break_lock("l").await.expect("broken"), 1);
    // Long before a renewal would say so.
    let lost = tokio::time::timeout(lease / 4, held.lost()).await;
    lost.expect("the message came first");
    assert!(held.check().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_proxy_a_waiter_polls_and_is_granted_the_lock() {
    let database = database();
    let proxy = PgBouncer::start(postgres()).expect("pgbouncer");
    let url = format!("{}?response_timeout=1", proxy.url_of(database.name()));
    let (holder, waiter) = (connect(&url).await, connect(&url).await);
    let held = holder.mutex("l").acquire().await.expect("free");
    let waiting = tokio::spawn(async move {
        let guard = waiter.mutex("l").acquire().await.expect("granted");
        guard.release().await.expect("released");
    });
    is_waited_for(&holder, "l").await;
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
    is_waited_for(&holder, "l").await;
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
