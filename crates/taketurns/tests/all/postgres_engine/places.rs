//! Refreshes, which touch no lock, and forgetting, which needs no cron job.

use std::time::Duration;

use taketurns::Connect;
use taketurns_servers::eventually;
use tokio_postgres::NoTls;

use super::{connect, database, has_waiters, patient};
use crate::support::patience::soon;

/// The row of a lock is locked by a session that hangs. A refresh needs it not: the places stay alive. The server's clock
/// stands still, so a place does not lapse before its first refresh.
#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_waits_for_no_step() {
    let database = database();
    database.stop_clock().expect("a clock");
    let holder = connect(&database.url()).await;
    let waiter = Connect::new(&patient(&database.url())).waiter_lease(Duration::from_secs(1));
    let waiter = waiter.open().await.expect("open");
    let held = holder.mutex("l").acquire().lease(Duration::from_secs(60)).await.expect("free");
    let waiting =
        tokio::spawn(async move { waiter.mutex("l").acquire().await.map(|guard| (guard, waiter)) });
    has_waiters(&holder, "l", 1).await;
    let (hangs, connection) =
        tokio_postgres::connect(&database.url(), NoTls).await.expect("a connection");
    tokio::spawn(connection);
    hangs.batch_execute("BEGIN; SELECT FROM taketurns.lock FOR UPDATE").await.expect("locked");
    database.sql("DELETE FROM taketurns.place").expect("refreshes until now");
    eventually("a place is refreshed", || {
        let rows = database.sql("SELECT count(*) FROM taketurns.place");
        rows.is_ok_and(|rows| rows == "1").then_some(())
    })
    .expect("after a third of the waiter lease");
    hangs.batch_execute("ROLLBACK").await.expect("unlocked");
    held.release().await.expect("released");
    let (guard, _waiter) = soon("handed over", waiting).await.expect("a task").expect("granted");
    guard.release().await.expect("released");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_long_idle_is_forgotten_with_its_fence() {
    let database = database();
    let locks = connect(&database.url()).await;
    let pool = locks.pool("pool");
    pool.add("kept").await.expect("added");
    locks.mutex("idle").acquire().await.expect("free").release().await.expect("released");
    database
        .sql(
            "UPDATE taketurns.lock SET forget_at_ms = 1 WHERE forget_at_ms IS NOT NULL; \
             INSERT INTO taketurns.place VALUES ('gone', 1, 1, 3000); INSERT INTO taketurns.notice VALUES (1, 1, 'x')",
        )
        .expect("an hour later");
    assert_eq!(database.sql("SELECT count(*) FROM taketurns.fence").expect("rows"), "1");
    for _ in 0..70 {
        locks.mutex("busy").acquire().await.expect("free").release().await.expect("released");
    }
    eventually("the idle one is gone", || {
        let names = database.sql("SELECT string_agg(name, ',' ORDER BY name) FROM taketurns.lock");
        names.is_ok_and(|names| names == "busy,pool").then_some(())
    })
    .expect("a sweep");
    let fences = database.sql("SELECT string_agg(name, ',') FROM taketurns.fence").expect("rows");
    assert_eq!(fences, "busy");
    for table in ["place", "notice"] {
        let rows = database.sql(&format!("SELECT count(*) FROM taketurns.{table}"));
        assert_eq!(rows.expect("rows"), "0", "{table}");
    }
}
