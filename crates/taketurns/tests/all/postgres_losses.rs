//! A PostgreSQL that has lost a grant that was answered grants nothing until the longest lease is over. The server's clock
//! stands still, so nothing here depends on how fast the machine is.

mod once;

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use taketurns::{ErrorKind, Guard, Locks};
use taketurns_servers::others::{Postgres, PostgresPair};
use taketurns_servers::{ServerClock, eventually};

use crate::support::patience::{block_on, soon};
use crate::support::redis_fixture::PATIENT;

const MAX_LEASE: Duration = Duration::from_secs(20);

async fn store(url: &str) -> Locks {
    let url = format!("{url}?max_lease={}&{PATIENT}", MAX_LEASE.as_secs());
    soon("a store", async { taketurns::connect(&url).await }).await.expect("a store")
}

/// A holder whose grant the server may lose.
async fn held(locks: &Locks) -> Guard {
    let lease = Duration::from_secs(10);
    soon("a grant", locks.mutex("a").acquire().lease(lease)).await.expect("acquired")
}

/// Nobody is granted the lock until the longest lease is over on the server's clock, and then somebody is.
async fn is_quarantined(url: &str, clock: &ServerClock) {
    let locks = store(url).await;
    let view = soon("a look", locks.inspect("a")).await.expect("a look");
    assert!(view.is_none_or(|view| view.holders.is_empty()), "the server has not lost the grant");
    let mutex = locks.mutex("a");
    for wait in [Duration::ZERO, MAX_LEASE - Duration::from_millis(100)] {
        clock.pass(wait).expect("the clock");
        let refused = soon("an answer", mutex.try_acquire()).await;
        let why = refused.expect_err("the lost holder may still be at work");
        assert_eq!(why.kind(), ErrorKind::Quarantined, "{why}");
    }
    clock.pass(Duration::from_millis(200)).expect("the clock");
    let granted = soon("an answer", mutex.try_acquire()).await.expect("the quarantine is over");
    assert!(granted.is_some(), "it is free");
}

/// Has a process that stands still a SIGQUIT waiting for it?
fn is_told_to_quit(process: Pid) -> Option<()> {
    let status = fs::read_to_string(format!("/proc/{}/status", process.as_raw_pid())).ok()?;
    let waiting = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"))?;
    let signals = u64::from_str_radix(waiting.trim(), 16).ok()?;
    (signals & 1 << (Signal::QUIT.as_raw() - 1) != 0).then_some(())
}

#[test]
fn a_grant_that_is_lost_with_a_backend_that_is_killed_is_not_made_twice() {
    let clock = ServerClock::stopped().expect("a clock");
    // Nothing that would have the log written to the disk.
    let server = Postgres::builder().quick().setting("autovacuum", "off").clock(&clock);
    let server = server.start().expect("PostgreSQL");
    block_on(async {
        let locks = store(&server.url()).await;
        let ask = |what: &str| server.sql("postgres", what).expect("an answer");
        let process = |kind: &str| {
            let sql = format!(
                "SELECT pid FROM pg_stat_activity
                 WHERE backend_type = '{kind}' AND pid <> pg_backend_pid() LIMIT 1"
            );
            Pid::from_raw(ask(&sql).parse().expect("a number")).expect("a process")
        };
        // It writes what commits without waiting have left, and must not come to that.
        ask("CHECKPOINT");
        let writer = process("walwriter");
        kill_process(writer, Signal::STOP).expect("stopped");
        let _guard = held(&locks).await;
        let backend = process("client backend").as_raw_pid();
        server.kill_backend(backend.unsigned_abs()).expect("killed");
        // Woken sooner, it might write first.
        eventually("the writer is told to end", || is_told_to_quit(writer)).expect("it is");
        kill_process(writer, Signal::CONT).expect("it ends");
        let recovered = || server.log().contains("redo").then_some(());
        eventually("the server recovers", recovered).expect("it does");
        server.wait_until_ready().expect("it is");
        is_quarantined(&server.url(), &clock).await;
    });
}

#[test]
fn a_grant_that_an_asynchronous_standby_lacks_is_not_made_twice_when_it_takes_over() {
    let clock = ServerClock::stopped().expect("a clock");
    let servers = Postgres::builder().quick().clock(&clock);
    let pair = PostgresPair::start_as(servers, false).expect("a pair");
    block_on(async {
        let locks = store(&pair.url()).await;
        // The tables are there, and then the standby hears of nothing more.
        let first = soon("a first lock", locks.mutex("first").acquire()).await;
        first.expect("acquired").release().await.expect("released");
        let there = || pair.standby().sql("postgres", "SELECT FROM taketurns.lock").ok();
        eventually("the standby has the tables", there).expect("it does");
        pair.standby().set("primary_conninfo", "''").expect("cut off");
        let alone = || {
            let followers = "SELECT count(*) FROM pg_stat_replication";
            let count = pair.primary().sql("postgres", followers).ok()?;
            (count == "0").then_some(())
        };
        eventually("nobody follows", alone).expect("it is alone");
        let _guard = held(&locks).await;
        pair.fail_over().expect("the standby takes over");
        is_quarantined(&pair.url(), &clock).await;
    });
}
