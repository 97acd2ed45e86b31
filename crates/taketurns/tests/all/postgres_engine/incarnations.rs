//! What a server may have forgotten: after a crash or a promotion it grants nothing until old leases are over. A clean
//! stop forgets nothing.

use std::time::Duration;

use taketurns::Locks;
use taketurns_servers::others::{Postgres, PostgresPair};
use taketurns_servers::{PATIENCE, ServerClock, eventually};

use super::{connect, has_waiters, patient};
use crate::support::patience::soon;

/// Longer than a test waits for anything: a holder keeps its lock over a restart, however long that takes.
const LEASE: Duration = Duration::from_secs(3_600);

/// With leases that long.
fn lasting(url: &str) -> String {
    let sign = if url.contains('?') { '&' } else { '?' };
    format!("{url}{sign}max_lease={}", LEASE.as_secs())
}

fn server() -> Postgres {
    Postgres::builder().quick().start().expect("a server")
}

/// Is the lock, or any that is new, in quarantine now?
async fn is_quarantined(locks: &Locks, name: &str) -> bool {
    let tried = locks.mutex(name).try_acquire().await;
    match tried {
        Ok(Some(guard)) => {
            guard.release().await.expect("released");
            false
        }
        Ok(None) => false,
        Err(error) => {
            assert!(error.to_string().contains("grants nothing"), "{error}");
            true
        }
    }
}

/// Until the client has a connection again. A server that was killed takes none for a moment.
async fn reconnect(url: &str) -> Locks {
    let (url, deadline) = (patient(url), tokio::time::Instant::now() + PATIENCE);
    loop {
        match taketurns::connect(&url).await {
            Ok(locks) => return locks,
            Err(error) => assert!(tokio::time::Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_database_grants_at_once_and_so_does_one_that_was_stopped_cleanly() {
    let server = server();
    let locks = connect(&server.url()).await;
    let guard = locks.mutex("held").acquire().await.expect("free");
    let before = guard.check().expect("held");
    guard.release().await.expect("released");
    locks.close().await;
    server.stop().expect("stopped");
    server.restart().expect("started");
    let locks = reconnect(&server.url()).await;
    let guard = locks.mutex("held").try_acquire().await.expect("no quarantine").expect("free");
    assert!(guard.check().expect("held") > before);
    assert!(!is_quarantined(&locks, "new").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_keeps_its_lock_over_a_clean_restart() {
    let server = server();
    let locks = connect(&lasting(&server.url())).await;
    let guard = locks.mutex("held").acquire().lease(LEASE).await.expect("free");
    server.stop().expect("stopped");
    server.restart().expect("started");
    let other = reconnect(&server.url()).await;
    assert!(other.mutex("held").try_acquire().await.expect("an answer").is_none(), "it is held");
    guard.check().expect("still held");
    // Its own connection was closed, and it gets another.
    soon("a release", guard.release()).await.expect("released");
    let next = other.mutex("held").try_acquire().await.expect("an answer");
    assert!(next.is_some(), "released");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_nothing_is_granted_until_old_leases_are_over() {
    let server = server();
    // On disk, or the crash would take the lock with it.
    let url = format!("{}?max_lease=3600&synchronous_commit=on", server.url());
    let locks = connect(&url).await;
    locks.mutex("known").acquire().await.expect("free").release().await.expect("released");
    server.restart().expect("started");
    let after = reconnect(&server.url()).await;
    assert!(is_quarantined(&after, "known").await && is_quarantined(&after, "new").await);
    let view = after.inspect("known").await.expect("a look").expect("it is there");
    let left = view.quarantine_left.expect("in quarantine");
    assert!(left > Duration::from_secs(60), "as long as the longest lease of any client: {left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_is_killed_makes_the_server_forget_its_marker() {
    let server = server();
    let locks = connect(&lasting(&server.url())).await;
    let guard = locks.mutex("held").acquire().lease(LEASE).await.expect("free");
    let id = server
        .sql(
            "postgres",
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'taketurns' LIMIT 1",
        )
        .expect("a process");
    server.kill_backend(id.parse().expect("a number")).expect("killed");
    server.wait_until_ready().expect("it starts again");
    let other = reconnect(&server.url()).await;
    assert!(is_quarantined(&other, "new").await);
    guard.check().expect("its holder relies on it for as long as nobody else is granted it");
}

/// The server's clock stands still until both wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_quarantine_ends_and_its_waiters_are_granted_in_order() {
    let clock = ServerClock::stopped().expect("a clock");
    let server = Postgres::builder().quick().clock(&clock).start().expect("a server");
    let url = format!("{}?max_lease=2", server.url());
    drop(connect(&url).await);
    server.restart().expect("started");
    let looks = reconnect(&url).await;
    let (order, mut ordered) = tokio::sync::mpsc::unbounded_channel();
    for turn in 0..2 {
        let (locks, order) = (reconnect(&url).await, order.clone());
        tokio::spawn(async move {
            let guard = locks.mutex("l").acquire().await.expect("granted in the end");
            order.send(turn).expect("the test listens");
            guard.release().await.expect("released");
        });
        has_waiters(&looks, "l", turn + 1).await;
    }
    assert!(is_quarantined(&looks, "another").await);
    clock.pass(Duration::from_secs(3)).expect("the clock");
    for turn in 0..2 {
        assert_eq!(soon("a grant", ordered.recv()).await, Some(turn));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failover_immediate_grants_at_once() {
    let server = server();
    drop(connect(&server.url()).await);
    server.restart().expect("started");
    let locks = reconnect(&format!("{}?failover=immediate", server.url())).await;
    assert!(!is_quarantined(&locks, "l").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_standby_grants_nothing_unless_it_is_promised_to_be_synchronous() {
    for (synchronous, options) in [(false, ""), (true, "?failover=synchronous")] {
        let pair =
            PostgresPair::start_as(Postgres::builder().quick(), synchronous).expect("a pair");
        let url = lasting(&format!("{}{options}", pair.url()));
        let locks = connect(&url).await;
        let guard = locks.mutex("held").acquire().lease(LEASE).await.expect("free");
        let token = guard.check().expect("held");
        if !synchronous {
            eventually("the standby has it", || {
                let rows = pair.standby().sql("postgres", "SELECT count(*) FROM taketurns.lock");
                rows.is_ok_and(|rows| rows == "1").then_some(())
            })
            .expect("replicated");
        }
        pair.fail_over().expect("promoted");
        let other = reconnect(&url).await;
        assert_eq!(is_quarantined(&other, "new").await, !synchronous);
        assert!(!is_free(&other, "held").await, "the holder is known there");
        assert_eq!(guard.check().expect("still held"), token);
        soon("a release", guard.release()).await.expect("released");
    }
}

async fn is_free(locks: &Locks, name: &str) -> bool {
    matches!(locks.mutex(name).try_acquire().await, Ok(Some(_)))
}
