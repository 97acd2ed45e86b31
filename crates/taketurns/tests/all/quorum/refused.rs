//! What a quorum refuses, and what it says of nodes that are of no use.

use std::time::Duration;

use taketurns::{Connect, Error, ErrorKind, Locks, NoQuorum};
use taketurns_servers::Server;

use super::nodes::{Nodes, connect, nothing_is_left};
use crate::support::in_vain::in_vain;
use crate::support::patience::{block_on, soon};
use crate::support::reach::reaches_all;

/// And for how long a node that comes back is kept out.
const LEASE: Duration = Duration::from_secs(1);

async fn why_not(url: &str) -> Error {
    let Err(error) = soon("an answer", taketurns::connect(url)).await else {
        panic!("{url} is no quorum")
    };
    error
}

/// It is refused as a store, for a reason in which this is said.
async fn is_refused(url: &str, because: &str) {
    let error = why_not(url).await;
    assert_eq!(error.kind(), ErrorKind::Store, "{error}");
    assert!(error.to_string().contains(because), "{error}");
}

#[test]
fn the_same_node_by_two_addresses_is_refused() {
    block_on(async {
        let nodes = Nodes::start(3);
        let [one, other, third] = &nodes.servers[..] else { panic!("three") };
        let again = format!("redis://localhost:{}", one.port());
        let urls = [one.url(), other.url(), again];
        is_refused(&nodes.url_of(&urls), "is another node of this quorum, too").await;
        // The mistake leaves no trace.
        connect(&nodes.url_of([one.url(), other.url(), third.url()])).await;
    });
}

#[test]
fn a_replica_is_refused() {
    block_on(async {
        let nodes = Nodes::start(3);
        let flavor = nodes.servers[0].flavor();
        let replica = Server::builder(flavor).replica_of(nodes.servers[0].port()).start();
        let replica = replica.expect("a server");
        let urls = [nodes.servers[1].url(), nodes.servers[2].url(), replica.url()];
        is_refused(&nodes.url_of(urls), "replica").await;
    });
}

#[test]
fn a_node_of_another_quorum_is_refused_and_what_it_belongs_to_is_said() {
    block_on(async {
        let nodes = Nodes::start(4);
        let url = |node: usize| nodes.servers[node].url();
        let three = nodes.url_of([url(0), url(1), url(2)]);
        let locks = connect(&three).await;
        let guard = locks.mutex("l").acquire().await.expect("free");
        // In any order it is the same one.
        let same = connect(&nodes.url_of([url(2), url(0), url(1)])).await;
        assert!(same.mutex("l").try_acquire().await.expect("an answer").is_none());
        for other in [[url(0), url(1), url(3)], [url(3), url(2), url(1)]] {
            let error = why_not(&nodes.url_of(other)).await.to_string();
            assert!(error.contains("belongs to another quorum (node "), "{error}");
            assert!(error.contains("of 3, "), "{error}");
        }
        guard.check().expect("nobody has touched it");
    });
}

#[test]
fn other_kinds_than_a_mutex_are_refused_each_with_its_reason() {
    block_on(async {
        let nodes = Nodes::start(3);
        let locks = nodes.connect().await;
        let says = |error: Option<Error>, reason: &str| {
            let error = error.expect("refused");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.to_string().contains(reason), "{error}");
        };
        let rwlock = locks.rwlock("rw");
        says(rwlock.read().await.err(), "read-write locks: that readers and writers agree");
        says(rwlock.try_write().await.err(), "read-write locks: that readers and writers agree");
        let semaphore = locks.semaphore("s", 3);
        says(semaphore.acquire().await.err(), "two majorities may give out more permits");
        says(semaphore.resize().await.err(), "two majorities may give out more permits");
        let pool = locks.pool("p");
        says(pool.add("m").await.err(), "two majorities may give out the same member");
        says(pool.any().await.err(), "two majorities may give out the same member");
        says(pool.try_member("m").await.err(), "two majorities may give out the same member");
        let each = nodes.each().await;
        for lock in ["rw", "s", "p"] {
            nothing_is_left(&each, lock).await;
        }
    });
}

/// It names these nodes, and no others, each with what is wrong.
fn names_each(error: &Error, down: &[Server]) {
    let text = error.to_string();
    let Error::NoQuorum(NoQuorum { needed: 3, of: 5, nodes, .. }) = error else {
        panic!("{error:?}")
    };
    let mut named: Vec<&str> = nodes.iter().map(|trouble| trouble.node.as_str()).collect();
    let mut wanted: Vec<String> = down.iter().map(|server| server.addr().to_string()).collect();
    named.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(named, wanted, "{text}");
    assert!(nodes.iter().all(|trouble| !trouble.why.is_empty()), "{text}");
    assert!(text.starts_with("3 of 5 nodes are needed: "), "{text}");
    assert!(wanted.iter().all(|address| text.matches(address.as_str()).count() == 1), "{text}");
}

#[test]
fn without_a_majority_every_node_that_is_missing_is_named() {
    block_on(async {
        let nodes = Nodes::with_max_lease(5, LEASE);
        let locks = nodes.connect().await;
        turn("all are there", &locks).await;
        let (up, down) = nodes.servers.split_at(2);
        down.iter().for_each(Server::kill);
        let tried = soon("an answer", locks.mutex("l").try_acquire().lease(LEASE)).await;
        names_each(&tried.expect_err("no majority"), down);
        let mutex = locks.mutex("l");
        let error = in_vain(|within| mutex.acquire().lease(LEASE).within(within)).await;
        names_each(&error, down);
        names_each(&why_not(&nodes.url()).await, down);
        // On the others nothing stays.
        let mut there = Vec::new();
        for server in up {
            there.push(connect(&nodes.node_url(&server.url())).await);
        }
        nothing_is_left(&there, "l").await;
        // A waiting acquire outlasts it.
        let acquire = tokio::spawn({
            let acquire = locks.mutex("l").acquire().lease(LEASE);
            async move { acquire.await.expect("they come back") }
        });
        for server in down {
            server.restart().expect("it comes back");
        }
        soon("they vote again", acquire).await.expect("no panic").release().await.expect("held");
    });
}

async fn turn(what: &str, locks: &Locks) {
    let guard = soon(what, locks.mutex("l").acquire().lease(LEASE)).await.expect("a turn");
    guard.release().await.expect("held");
}

#[test]
fn a_node_that_is_down_at_first_joins_when_it_comes() {
    block_on(async {
        let nodes = Nodes::with_max_lease(5, LEASE);
        nodes.servers[..2].iter().for_each(Server::kill);
        let locks = connect(&nodes.url()).await;
        reaches_all(&locks, &nodes.servers[2..]).await;
        turn("three are there", &locks).await;
        for server in &nodes.servers[..2] {
            server.restart().expect("it comes back");
        }
        nodes.servers[3..].iter().for_each(Server::kill);
        turn("the two that came, and one", &locks).await;
    });
}

#[test]
fn a_waiter_lease_longer_than_any_lease_is_refused_and_by_default_there_is_none() {
    block_on(async {
        let nodes = Nodes::with_max_lease(3, LEASE);
        let open = |lease: Duration| Connect::new(&nodes.url()).waiter_lease(lease).open();
        let Err(error) = open(LEASE + Duration::from_millis(1)).await else { panic!("too long") };
        assert_eq!(error.kind(), ErrorKind::InvalidLease, "{error}");
        assert!(error.to_string().contains("waiter lease must be between 10 ms and 1s"), "{error}");
        turn("as long as may be", &open(LEASE).await.expect("a quorum")).await;
        turn("of itself", &taketurns::connect(&nodes.url()).await.expect("a quorum")).await;
    });
}
