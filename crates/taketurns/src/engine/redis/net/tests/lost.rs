//! Connections and servers that go away, and come back.

use std::future::Future;
use std::task::{Context, Waker};
use std::time::Instant;

use redis::Value;
use rustix::process::Signal;

use super::party::{CHANNEL, Party};
use super::server::{BOTH, Server, until};
use crate::engine::EngineError;

const NO_HELLO: [&str; 3] = ["--rename-command", "HELLO", ""];

#[tokio::test(flavor = "multi_thread")]
async fn after_a_killed_connection_there_is_a_new_one_that_listens() {
    for program in BOTH {
        let server = Server::start(program, &[]);
        let mut party = Party::open(&server.url()).await.unwrap();
        let (_, before) = party.call(&["GET", "a"]).await.unwrap();
        assert!(party.is_quiet());
        assert_eq!(server.ask::<i64>(&["CLIENT", "KILL", "TYPE", "pubsub"]), 1);
        party.recheck().await;
        assert!(!before.link.is_alive());
        let (_, after) = party.call(&["GET", "a"]).await.unwrap();
        assert!(after.link.epoch > before.link.epoch);
        assert_eq!(after.link.facts.run, before.link.facts.run);
        party.recheck().await;
        server.ask::<i64>(&["PUBLISH", CHANNEL, "again"]);
        assert_eq!(party.heard().await, b"again");
        assert!(party.is_quiet());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_connections_live_and_die_as_one() {
    for kind in ["pubsub", "normal"] {
        let server = Server::start("redis-server", &NO_HELLO);
        let mut party = Party::open(&server.url()).await.unwrap();
        let (_, before) = party.call(&["GET", "a"]).await.unwrap();
        assert_eq!(server.ask::<i64>(&["CLIENT", "KILL", "TYPE", kind]), 1);
        party.recheck().await;
        until("both are gone", || server.connections() == 0);
        let (_, after) = party.call(&["GET", "a"]).await.unwrap();
        assert!(!before.link.is_alive() && after.link.is_alive());
        assert_eq!(server.connections(), 2);
        party.recheck().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_callers_open_one_connection() {
    let server = Server::start("redis-server", &[]);
    let mut admin = server.admin();
    let mut received = || -> u64 {
        let stats: String = redis::cmd("INFO").arg("stats").query(&mut admin).unwrap();
        let line = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        line.unwrap().trim().parse().unwrap()
    };
    let mut party = Party::open(&server.url()).await.unwrap();
    let before = received();
    server.ask::<i64>(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    party.recheck().await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let net = party.net.clone();
        calls
            .spawn(async move { net.call(b"n", &|_| super::party::command(&["INCR", "n"])).await });
    }
    while let Some(answer) = calls.join_next().await {
        assert!(answer.unwrap().is_ok());
    }
    // One of the two is the killer's.
    assert_eq!(received(), before + 2);
    assert_eq!(server.ask::<i64>(&["GET", "n"]), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_is_not_polled_holds_up_nobody() {
    let server = Server::start("redis-server", &[]);
    let mut party = Party::open(&server.url()).await.unwrap();
    server.ask::<i64>(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    party.recheck().await;
    let mut stuck = Box::pin(party.call(&["INCR", "n"]));
    // It begins to open a connection, and then is left alone.
    assert!(stuck.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(party.call_until(&["INCR", "n"]).await.0, Value::Int(1));
    drop(stuck);
    assert_eq!(party.call(&["INCR", "n"]).await.unwrap().0, Value::Int(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_is_unknown_and_then_unreachable_and_then_fine() {
    let server = Server::start("redis-server", &[]);
    let mut party = Party::open(&server.url()).await.unwrap();
    server.signal(Signal::STOP);
    let start = Instant::now();
    let error = party.call(&["INCR", "n"]).await.err().unwrap();
    assert!(matches!(&error, EngineError::Unknown(why) if why.contains("in time")), "{error:?}");
    party.recheck().await;
    let error = party.call(&["INCR", "n"]).await.err().unwrap();
    assert!(matches!(error, EngineError::Unreachable(_)), "{error:?}");
    assert!(start.elapsed().as_secs() < 8);
    server.signal(Signal::CONT);
    // The first was carried out after all, or not; the second was not.
    let (count, _) = party.call_until(&["INCR", "n"]).await;
    assert!(matches!(count, Value::Int(1 | 2)), "{count:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_remembered_for_a_moment() {
    let mut server = Server::start("redis-server", &[]);
    let mut party = Party::open(&server.url()).await.unwrap();
    server.kill();
    party.recheck().await;
    for _ in 0..1_000 {
        let error = party.call(&["GET", "a"]).await.err().unwrap();
        assert!(matches!(error, EngineError::Unreachable(_)), "{error:?}");
    }
    server.restart(&[]);
    let (_, session) = party.call_until(&["SET", "a", "1"]).await;
    assert_eq!(party.net.origin_of_run(session.bound.run()), Some(session.link.origin()));
    party.recheck().await;
    // A thousand calls were a few attempts, or their number would show in the epochs.
    assert!(session.link.epoch < 100, "{}", session.link.epoch);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_loads_its_data_is_waited_for() {
    let mut server = Server::start("redis-server", &[]);
    let party = Party::open(&server.url()).await.unwrap();
    server.ask::<()>(&["DEBUG", "POPULATE", "2000"]);
    server.ask::<()>(&["SAVE"]);
    server.restart(&[
        "--key-load-delay",
        "1000",
        "--loading-process-events-interval-bytes",
        "1024",
    ]);
    let loading = |error: EngineError| matches!(error, EngineError::Unreachable(why) if why.contains("loading"));
    let mut seen = false;
    let start = Instant::now();
    while !seen && start.elapsed() < super::server::PATIENCE {
        seen = match party.call(&["SET", "a", "1"]).await {
            Ok(_) => break,
            Err(error) => loading(error),
        };
    }
    assert!(seen, "it was never seen to load");
    party.call_until(&["SET", "a", "1"]).await;
}
