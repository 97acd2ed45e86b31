//! Connections and servers that go away, and come back.

use std::future::Future;
use std::task::{Context, Waker};
use std::time::Duration;

use redis::Value;
use taketurns_servers::{Flavor, PATIENCE, ServerReply, stats};
use tokio::time::timeout;

use super::party::{CHANNEL, Party};
use super::server::{NO_HELLO, ask, connections, redis, serve, until};
use crate::engine::EngineError;

#[tokio::test(flavor = "multi_thread")]
async fn after_a_killed_connection_there_is_a_new_one_that_listens() {
    for flavor in Flavor::ALL {
        let server = serve(flavor, &[]);
        let mut party = Party::open(&server.url()).await.unwrap();
        let (_, before) = party.call(&["GET", "a"]).await.unwrap();
        assert!(party.is_quiet());
        assert_eq!(ask(&server, &["CLIENT", "KILL", "TYPE", "pubsub"]), ServerReply::Int(1));
        party.recheck().await;
        assert!(!before.connection().is_alive());
        let (_, after) = party.call(&["GET", "a"]).await.unwrap();
        assert!(after.connection().origin.epoch > before.connection().origin.epoch);
        assert_eq!(after.peer.facts.run, before.peer.facts.run);
        party.recheck().await;
        ask(&server, &["PUBLISH", CHANNEL, "again"]);
        assert_eq!(party.heard().await, b"again");
        assert!(party.is_quiet());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_connections_live_and_die_as_one() {
    for kind in ["pubsub", "normal"] {
        let server = redis(&NO_HELLO);
        let mut party = Party::open(&server.url()).await.unwrap();
        let (_, before) = party.call(&["GET", "a"]).await.unwrap();
        assert_eq!(ask(&server, &["CLIENT", "KILL", "TYPE", kind]), ServerReply::Int(1));
        party.recheck().await;
        until("both are gone", || connections(&server) == 0);
        let (_, after) = party.call(&["GET", "a"]).await.unwrap();
        assert!(!before.connection().is_alive() && after.connection().is_alive());
        assert_eq!(connections(&server), 2);
        party.recheck().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_callers_open_one_connection() {
    let server = redis(&[]);
    // One that stays, so that it does not count itself.
    let mut admin = server.connect().expect("a connection");
    let mut received = || -> u64 {
        let reply = admin.command(&["INFO", "stats"]).expect("a reply");
        let stats = stats::info(reply.text().expect("text"));
        stats["total_connections_received"].parse().expect("a number")
    };
    let mut party = Party::open(&server.url()).await.unwrap();
    let before = received();
    ask(&server, &["CLIENT", "KILL", "TYPE", "pubsub"]);
    party.recheck().await;
    party.a_hundred_at_once("n", ["INCR", "n"]).await;
    // One of the two is the killer's.
    assert_eq!(received(), before + 2);
    assert_eq!(ask(&server, &["GET", "n"]).text(), Some("100"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_is_not_polled_holds_up_nobody() {
    let server = redis(&[]);
    let mut party = Party::open(&server.url()).await.unwrap();
    ask(&server, &["CLIENT", "KILL", "TYPE", "pubsub"]);
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
    let server = redis(&[]);
    let mut party = Party::open(&server.url()).await.unwrap();
    server.pause();
    let call = timeout(PATIENCE, party.call(&["INCR", "n"]));
    let error = call.await.expect("it is given up").err().unwrap();
    assert!(matches!(&error, EngineError::Unknown(why) if why.contains("in time")), "{error:?}");
    party.recheck().await;
    let call = timeout(PATIENCE, party.call(&["INCR", "n"]));
    let error = call.await.expect("it is given up").err().unwrap();
    assert!(matches!(error, EngineError::Unreachable(_)), "{error:?}");
    server.resume();
    // The first was carried out after all, or not; the second was not.
    let (count, _) = party.call_until(&["INCR", "n"]).await;
    assert!(matches!(count, Value::Int(1 | 2)), "{count:?}");
}

/// Longer than an answer is waited for by default.
const LONGER: Duration = Duration::from_millis(2_500);

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_waited_for_as_long_as_the_url_says() {
    let server = redis(&[]);
    let party = Party::open(&format!("{}?response_timeout=60", server.url())).await.unwrap();
    server.pause();
    let mut call = Box::pin(party.call(&["INCR", "n"]));
    let early = tokio::time::timeout(LONGER, &mut call).await;
    assert!(early.is_err(), "nothing answers, and it is too early to give up");
    server.resume();
    assert_eq!(call.await.expect("an answer at last").0, Value::Int(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_waited_for_as_long_as_the_url_says() {
    // It accepts, and never answers the TLS handshake.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let files = taketurns_servers::Certificates::new().expect("certificates");
    let port = silent.local_addr().expect("bound").port();
    let url = format!("rediss://127.0.0.1:{port}?ca={}", files.ca().display());
    let opening = Party::open(&url).await.map(|_| ()).unwrap_err();
    assert!(
        matches!(&opening, EngineError::Unreachable(why) if why.contains("TLS")),
        "{opening:?}"
    );
    let patient = format!("{url}&connect_timeout=60");
    let early = tokio::time::timeout(LONGER, Party::open(&patient)).await;
    assert!(early.is_err(), "nothing answers, and it is too early to give up");
}

async fn a_thousand_fail(party: &Party) {
    for _ in 0..1_000 {
        let error = party.call(&["GET", "a"]).await.err().unwrap();
        assert!(matches!(error, EngineError::Unreachable(_)), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_remembered_for_a_moment() {
    let server = redis(&[]);
    let mut party = Party::open(&server.url()).await.unwrap();
    server.kill();
    party.recheck().await;
    a_thousand_fail(&party).await;
    server.restart().expect("a restart");
    let (_, session) = party.call_until(&["SET", "a", "1"]).await;
    assert_eq!(
        party.router.origin_of_run(session.backend.run()),
        Some(session.connection().origin)
    );
    party.recheck().await;
    // Now it is there, but takes no writes, and so no greeting: each attempt has an epoch.
    ask(&server, &["CONFIG", "SET", "min-replicas-to-write", "1"]);
    ask(&server, &["CLIENT", "KILL", "TYPE", "pubsub"]);
    party.recheck().await;
    a_thousand_fail(&party).await;
    ask(&server, &["CONFIG", "SET", "min-replicas-to-write", "0"]);
    let (_, session) = party.call_until(&["SET", "a", "1"]).await;
    // A thousand calls were a few attempts, or their number would show in the epochs.
    assert!(session.connection().origin.epoch < 100, "{}", session.connection().origin.epoch);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_loads_its_data_is_waited_for() {
    let server = redis(&[]);
    let mut party = Party::open(&server.url()).await.unwrap();
    server.restart_loading().expect("a server that loads");
    party.recheck().await;
    let error = party.call(&["SET", "a", "1"]).await.map(|_| ()).unwrap_err();
    assert!(matches!(&error, EngineError::Loading(why) if why.contains("loading")), "{error:?}");
    server.finish_loading().expect("it serves");
    party.call_until(&["SET", "a", "1"]).await;
}
