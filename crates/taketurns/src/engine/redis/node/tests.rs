//! Servers as nodes: fresh, used, restarted, gone, of another kind.

use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use taketurns_core::{AcquireRequest, Ask, ClientId, Label, Name, Owner, Reply, Request};
use taketurns_servers::{Flavor, PATIENCE, Server, eventually, on_both};
use tokio::time::timeout;

use super::{MarkerSighting, OpenRedis, Visitor, node};
use crate::engine::redis::handshake::Verify;
use crate::engine::redis::handshake::marker::Marker;
use crate::engine::{Engine, EngineError, Open, Wakes};

/// Long enough that nothing of it passes during a test.
const LONG_MS: u64 = 600_000;
const MARKER: &str = "tt:\u{1}run";

fn node_of(url: &str) -> OpenRedis {
    OpenRedis::new(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn long(server: &Server) -> OpenRedis {
    node_of(&format!("{}?max_lease=600", server.url()))
}

fn distrusting(mut node: OpenRedis) -> OpenRedis {
    node.distrust(Duration::ZERO);
    node
}

async fn open(node: OpenRedis) -> Box<dyn Engine> {
    Box::new(node).open(ClientId::from_bits(1), Wakes::channel().0).await.expect("a server")
}

fn on_runtime(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all();
    runtime.build().expect("a runtime").block_on(test);
}

/// How an acquire went.
#[derive(Debug, PartialEq, Eq)]
enum AcquireResult {
    Granted,
    /// Nothing is granted for about [`LONG_MS`].
    Quarantined,
}

/// Asks until it is carried out, as a client would.
async fn acquire(engine: &dyn Engine, owner: u128) -> AcquireResult {
    let request = Request::Acquire(AcquireRequest {
        owner: Owner::from_bits(owner),
        client: ClientId::from_bits(1),
        ask: Ask::Mutex,
        at_least_ms: 0,
        lease_ms: 1_000,
        waiter_lease_ms: Some(3_000),
        not_after_ms: u64::MAX,
        ballot: None,
        label: Label::new("node", "").expect("a label"),
    });
    let (lock, until) = (Name::new("l").expect("a name"), Instant::now() + PATIENCE);
    let answer = loop {
        match engine.call(&lock, request.clone()).await {
            Ok(answer) => break answer,
            Err(EngineError::Broken(why)) => panic!("{why}"),
            Err(error) if Instant::now() > until => panic!("{error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    match answer.reply {
        Reply::Granted(_) => AcquireResult::Granted,
        Reply::Queued(place) => {
            let left_ms = place
                .quarantined_until_ms
                .map(|until| until - answer.stamp.expect("a time").now_ms);
            assert!(left_ms.is_some_and(|left| left > LONG_MS / 2), "{left_ms:?}");
            AcquireResult::Quarantined
        }
        other => panic!("{other:?}"),
    }
}

fn marker(server: &Server) -> Marker {
    let reply = server.cli(&["GET", MARKER]);
    Marker::parse(reply.text().expect("a marker")).expect("one of ours")
}

fn now_ms(server: &Server) -> u64 {
    let reply = server.cli(&["TIME"]);
    let number = |at: usize| -> u64 {
        reply.array().expect("two")[at].text().expect("a text").parse().expect("a number")
    };
    number(0) * 1_000 + number(1) / 1_000
}

fn clients(server: &Server) -> usize {
    server.cli(&["CLIENT", "LIST"]).text().expect("a list").lines().count() - 1
}

async fn is_unusable(node: OpenRedis, piece: &str) {
    let seen = node.peek().await.expect_err("it is of no use");
    assert!(matches!(&seen, EngineError::Broken(why) if why.contains(piece)), "{seen:?}");
    let opened = Box::new(node).open(ClientId::from_bits(1), Wakes::channel().0).await;
    assert_eq!(opened.err(), Some(seen), "an open says the same");
}

#[test]
fn a_node_is_known_by_its_place_however_it_is_written() {
    let address = |url: &str| node_of(url).node_address().expect("a node");
    assert_eq!(address("redis://"), "127.0.0.1:6379/0 tt:");
    let plain = address("redis://redis-1.example:6379/2?prefix=app:");
    let other = "rediss://bob:secret@Redis-1.EXAMPLE./2?prefix=app%3A&max_lease=5&failover=strict";
    assert_eq!(address(other), plain);
    assert_eq!(address("redis://[::1]"), address("redis://[0:0::0001]:6379/0"));
    for another in ["redis://redis-1.example:6379/2", "redis://redis-1.example:6380/2?prefix=app:"]
    {
        assert_ne!(address(another), plain);
    }
    assert_ne!(address("redis://redis-1.example/1?prefix=app:"), plain);
    assert_eq!(node_of("redis://h?max_lease=5").max_lease(), Duration::from_secs(5));
}

#[test]
fn what_can_be_no_node_is_said() {
    for url in ["redis+sentinel://a,b/m", "redis+cluster://a,b", "redis://a?failover=immediate"] {
        let why = node_of(url).node_address().expect_err("no node");
        let piece = if url.contains("failover") { "forgotten its votes" } else { "of its own" };
        assert!(why.contains(piece), "{why}");
        on_runtime(async {
            assert_eq!(node_of(url).peek().await, Err(EngineError::Unsupported(why)));
        });
    }
}

on_both! {
    fn a_look_at_a_fresh_server_finds_nothing_and_leaves_nothing(flavor: Flavor) {
        on_runtime(async {
            let server = Server::start(flavor).expect("a server");
            let node = distrusting(long(&server));
            assert_eq!(node.peek().await, Ok(MarkerSighting::Nothing));
            assert_eq!(node.peek().await, Ok(MarkerSighting::Nothing));
            assert_eq!(server.cli(&["DBSIZE"]).int(), Some(0));
            let gone = || (clients(&server) == 0).then_some(());
            eventually("the connections are closed", gone).expect("they are");
            assert_eq!(acquire(&*open(long(&server)).await, 1).await, AcquireResult::Granted);
        });
    }

    fn a_look_at_a_used_server_says_for_how_long_it_has_been(flavor: Flavor) {
        on_runtime(async {
            let server = Server::start(flavor).expect("a server");
            let engine = open(long(&server)).await;
            let old = Marker { born_ms: marker(&server).born_ms - 3_600_000, ..marker(&server) };
            server.cli(&["SET", MARKER, &old.to_string()]);
            let before_ms = now_ms(&server);
            let seen = long(&server).peek().await.expect("a server");
            let after_ms = now_ms(&server);
            let MarkerSighting::Marker { age, in_quarantine, .. } = seen else { panic!("{seen:?}") };
            assert!(!in_quarantine);
            let ages = before_ms - old.born_ms..=after_ms - old.born_ms;
            assert!(ages.contains(&(age.as_millis() as u64)), "{age:?}, not {ages:?}");
            assert_eq!(marker(&server), old);
            engine.close().await;
        });
    }

    fn a_look_says_that_a_server_grants_nothing(flavor: Flavor) {
        on_runtime(async {
            let quarantined = async |server: &Server| match long(server).peek().await {
                Ok(MarkerSighting::Marker { in_quarantine, .. }) => in_quarantine,
                other => panic!("{other:?}"),
            };
            let server = Server::start(flavor).expect("a server");
            open(distrusting(long(&server))).await;
            assert!(quarantined(&server).await);
            // Restarted with its data: nobody has verified this run; the first client that does will say so.
            let server = Server::builder(flavor).appendonly(true).start().expect("a server");
            open(long(&server)).await;
            assert!(!quarantined(&server).await);
            let before = marker(&server);
            server.shutdown();
            server.restart().expect("a restart");
            assert!(quarantined(&server).await);
            assert_eq!(marker(&server), before);
        });
    }

    fn why_a_server_can_not_be_looked_at_is_said_without_its_password(flavor: Flavor) {
        on_runtime(async {
            let server = Server::builder(flavor).requirepass("right").start().expect("a server");
            let address = server.addr().to_string();
            let url = format!("redis://:wrong-one@{address}");
            is_unusable(node_of(&url), &format!("{address} does not accept the user")).await;
            assert_eq!(node_of(&url.replace("wrong-one", "right")).peek().await, Ok(MarkerSighting::Nothing));
            server.kill();
            let error = node_of(&url).peek().await.expect_err("it is down");
            assert!(matches!(&error, EngineError::Unreachable(why) if why.contains(&address)));
            assert!(!error.to_string().contains("wrong-one"), "{error}");
        });
    }

    fn a_replica_is_no_node(flavor: Flavor) {
        on_runtime(async {
            let master = Server::start(flavor).expect("a server");
            let replica = Server::builder(flavor).replica_of(master.port()).start();
            let of = format!("is a replica of {}", master.addr());
            is_unusable(long(&replica.expect("a replica")), &of).await;
        });
    }

    fn what_is_no_marker_is_not_taken_for_one(flavor: Flavor) {
        on_runtime(async {
            let server = Server::start(flavor).expect("a server");
            server.cli(&["SET", MARKER, "hello"]);
            is_unusable(long(&server), "choose another prefix").await;
        });
    }

    fn a_distrusted_server_without_a_marker_grants_nothing_to_anybody(flavor: Flavor) {
        on_runtime(async {
            let server = Server::start(flavor).expect("a server");
            let first = open(distrusting(long(&server))).await;
            let made = marker(&server);
            assert_eq!(made.until_ms - made.born_ms, LONG_MS);
            assert_eq!(acquire(&*first, 1).await, AcquireResult::Quarantined);
            for (node, owner) in [(long(&server), 2), (distrusting(long(&server)), 3)] {
                assert_eq!(acquire(&*open(node).await, owner).await, AcquireResult::Quarantined);
            }
            assert_eq!(marker(&server), made, "once is enough");
        });
    }

    fn a_distrusted_server_grants_when_the_longest_lease_is_over(flavor: Flavor) {
        on_runtime(async {
            let server = Server::start(flavor).expect("a server");
            let node = node_of(&format!("{}?max_lease=1", server.url()));
            let engine = open(distrusting(node)).await;
            let made = marker(&server);
            assert_eq!(made.until_ms - made.born_ms, 1_000);
            eventually("the quarantine is over", || {
                (now_ms(&server) >= made.until_ms).then_some(())
            }).expect("it ends");
            assert_eq!(acquire(&*engine, 1).await, AcquireResult::Granted);
        });
    }

    fn a_distrusted_server_with_a_marker_grants_at_once(flavor: Flavor) {
        on_runtime(async {
            let server = Server::start(flavor).expect("a server");
            open(long(&server)).await.close().await;
            assert_eq!(acquire(&*open(distrusting(long(&server))).await, 1).await, AcquireResult::Granted);
        });
    }

    fn a_marker_that_somebody_makes_just_then_is_distrusted_too(flavor: Flavor) {
        // On one thread, so that nothing is answered while it is polled.
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().expect("a runtime").block_on(async {
            let server = Server::start(flavor).expect("a server");
            let config = distrusting(long(&server)).config;
            let visitor = Visitor::new(&config).expect("a visitor");
            let link = visitor.handshake.visit(node(&config).expect("a node")).await.expect("a link");
            let mut greeting = visitor.verifier.verify(&link, config.marker_key());
            // It asks for the marker, and is left alone until another has made one.
            assert!(greeting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            let looked = async {
                while !server.command_stats().contains_key("get") {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            timeout(PATIENCE, looked).await.expect("it looks");
            let other = open(long(&server)).await;
            assert_eq!(marker(&server).until_ms, 0);
            greeting.await.expect("it is greeted");
            let judged = marker(&server);
            assert_eq!(judged.until_ms, judged.born_ms + LONG_MS);
            assert_eq!(acquire(&*other, 1).await, AcquireResult::Quarantined);
        });
    }

    fn after_a_restart_without_data_nothing_is_granted_if_a_newcomer_is_first(flavor: Flavor) {
        on_runtime(async {
            let server = Server::start(flavor).expect("a server");
            let old = open(long(&server)).await;
            assert_eq!(acquire(&*old, 1).await, AcquireResult::Granted);
            server.restart().expect("a restart");
            let newcomer = open(distrusting(long(&server))).await;
            assert_eq!(acquire(&*newcomer, 2).await, AcquireResult::Quarantined);
            assert_eq!(acquire(&*old, 3).await, AcquireResult::Quarantined);
        });
    }

    fn after_a_restart_without_data_an_old_client_makes_it_wait(
        flavor: Flavor
    ) {
        on_runtime(async {
            let server = Server::start(flavor).expect("a server");
            let old = open(long(&server)).await;
            assert_eq!(acquire(&*old, 1).await, AcquireResult::Granted);
            server.restart().expect("a restart");
            assert_eq!(acquire(&*old, 3).await, AcquireResult::Quarantined);
            let newcomer = open(distrusting(long(&server))).await;
            assert_eq!(acquire(&*newcomer, 2).await, AcquireResult::Quarantined);
        });
    }
}
