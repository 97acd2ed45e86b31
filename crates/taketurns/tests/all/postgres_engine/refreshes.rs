//! Refreshes wait for no row and no other connection: a live waiter keeps its place whatever else is stuck.

use std::net::TcpListener;
use std::time::Duration;

use taketurns::engine::{self, AcquireRequest, Owner, Reply, Request, Wakes};
use taketurns::{Ask, ClientId, Connect, Label, Locks, Name};
use taketurns_servers::others::{Postgres, PostgresDatabase};
use taketurns_servers::{ServerClock, eventually};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

use super::{connect, database};
use crate::support::patience::soon;

/// Far below what the row of a lock stays locked in these tests.
const WAITER_LEASE: Duration = Duration::from_millis(300);

async fn waiting_client(database: &PostgresDatabase<'_>, options: &str) -> Locks {
    let url = format!("{}?{options}", database.url());
    Connect::new(&url).waiter_lease(WAITER_LEASE).open().await.expect("a store")
}

fn wait_for(locks: &Locks, name: &'static str) -> JoinHandle<()> {
    let locks = locks.clone();
    tokio::spawn(async move {
        let guard = locks.mutex(name).acquire().await.expect("granted in the end");
        guard.release().await.expect("released");
    })
}

/// A session that has locked the row of a lock, and does no more.
async fn stuck_session(database: &PostgresDatabase<'_>, name: &str) -> Client {
    let (session, connection) =
        tokio_postgres::connect(&database.url(), NoTls).await.expect("a connection");
    tokio::spawn(connection);
    let lock = format!("BEGIN; SELECT 1 FROM taketurns.lock WHERE name = '{name}' FOR UPDATE");
    session.batch_execute(&lock).await.expect("locked");
    session
}

/// Waits until the place in this queue was refreshed later than two waiter leases after now.
fn is_refreshed_on(database: &PostgresDatabase<'_>, name: &str) {
    let now_ms = database.sql("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint");
    let now_ms: u128 = now_ms.expect("the time").parse().expect("a number");
    let later_ms = now_ms + 2 * WAITER_LEASE.as_millis();
    let later = format!("FROM taketurns.place WHERE name = '{name}' AND seen_ms > {later_ms}");
    eventually("the place is refreshed", || {
        let rows = database.sql(&format!("SELECT count(*) {later}"));
        rows.is_ok_and(|rows| rows == "1").then_some(())
    })
    .expect("although something else is stuck");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_waits_for_no_step_of_its_lock() {
    let database = database();
    let (holder, waiter) = (connect(&database.url()).await, waiting_client(&database, "").await);
    let held = holder.mutex("l").acquire().lease(Duration::from_secs(60)).await.expect("free");
    let waiting = wait_for(&waiter, "l");
    is_refreshed_on(&database, "l");
    let stuck = stuck_session(&database, "l").await;
    is_refreshed_on(&database, "l");
    stuck.batch_execute("ROLLBACK").await.expect("the row is free");
    held.release().await.expect("released");
    soon("handed over", waiting).await.expect("a task");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_has_a_connection_while_all_steps_wait_for_another_lock() {
    let database = database();
    let holder = connect(&database.url()).await;
    let waiter = waiting_client(&database, "connections=2&response_timeout=60").await;
    holder.mutex("stuck").acquire().await.expect("free").release().await.expect("released");
    let held = holder.mutex("l").acquire().lease(Duration::from_secs(60)).await.expect("free");
    let waiting = wait_for(&waiter, "l");
    is_refreshed_on(&database, "l");
    let stuck = stuck_session(&database, "stuck").await;
    let steps: Vec<_> = (0..4).map(|_| wait_for(&waiter, "stuck")).collect();
    is_refreshed_on(&database, "l");
    stuck.batch_execute("ROLLBACK").await.expect("the row is free");
    held.release().await.expect("released");
    for task in steps.into_iter().chain([waiting]) {
        soon("granted", task).await.expect("a task");
    }
}

/// Beginning to listen takes some round trips to what may be another server, which may not answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_place_is_refreshed_before_its_client_listens() {
    let database = database();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = listener.local_addr().expect("its address");
    let options = format!(
        "listen=postgres%3A%2F%2Fx%40{}%3A{}%2Fx%3Fconnect_timeout%3D60%26response_timeout%3D60",
        silent.ip(),
        silent.port()
    );
    let (holder, waiter) =
        (connect(&database.url()).await, waiting_client(&database, &options).await);
    let held = holder.mutex("l").acquire().lease(Duration::from_secs(60)).await.expect("free");
    let waiting = wait_for(&waiter, "l");
    is_refreshed_on(&database, "l");
    held.release().await.expect("released");
    soon("found by a refresh", waiting).await.expect("a task");
}

/// Its refresh is of a time to come. It must not count as alive until then.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_died_before_the_clock_was_set_back_is_skipped() {
    let clock = ServerClock::stopped().expect("a clock");
    let server = Postgres::builder().quick().clock(&clock).start().expect("a server");
    let (holder, next) = (connect(&server.url()).await, connect(&server.url()).await);
    let held = holder.mutex("l").acquire().lease(Duration::from_secs(60)).await.expect("free");

    let (client, (wakes, _)) = (ClientId::of_program(1), Wakes::channel());
    let dies = engine::open(&server.url(), client, wakes).await.expect("a store");
    let (name, waiter_lease_ms) = (Name::new("l").expect("a name"), 1_000);
    let acquire = AcquireRequest {
        owner: Owner::from_bits(1),
        client,
        ask: Ask::Mutex,
        at_least_ms: 0,
        lease_ms: 60_000,
        waiter_lease_ms: Some(waiter_lease_ms),
        not_after_ms: dies.ping().await.expect("an answer").now_ms + 60_000,
        ballot: None,
        label: Label::default(),
    };
    let waits = dies.call(&name, Request::Acquire(acquire)).await.expect("an answer");
    assert!(matches!(waits.reply, Reply::Queued(_)), "{waits:?}");
    let refresh = Request::Refresh { client, waiter_lease_ms };
    let refreshed = dies.call(&name, refresh).await.expect("an answer");
    assert!(matches!(refreshed.reply, Reply::Refreshed { waiting: 1, .. }), "{refreshed:?}");

    clock.set(-300).expect("set back");
    let waiting = wait_for(&next, "l");
    while holder.inspect("l").await.expect("a look").is_none_or(|view| view.waiting < 2) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    clock.pass(Duration::from_millis(waiter_lease_ms + 1)).expect("a waiter lease later");
    held.release().await.expect("released");
    soon("granted past the dead one", waiting).await.expect("a task");
    dies.close().await;
}
