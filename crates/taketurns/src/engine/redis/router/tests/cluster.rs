//! A Cluster of three and one without slots; slots that move.

use std::sync::Arc;

use redis::Value;
use taketurns_servers::{Cluster, Flavor, ServerReply};

use super::party::{CHANNEL, Party, a_call};
use super::server::{NO_HELLO, ask, until};
use crate::engine::redis::router::slots::slot;

/// Goes on with what is left when a node is gone.
const PARTIAL: [&str; 2] = ["--cluster-require-full-coverage", "no"];

/// Three masters, and one without slots.
fn four(flavor: Flavor, args: &[&str]) -> Cluster {
    let builder = Cluster::builder(flavor).spare(true).args(PARTIAL).args(args.iter().copied());
    builder.start().expect("a cluster")
}

/// Only one address: the others have to be found.
fn url(cluster: &Cluster) -> String {
    format!("redis+cluster://{}", cluster.nodes[0].addr())
}

/// One key for each of the three.
const KEYS: [&str; 3] = ["b", "c", "a"];

#[tokio::test(flavor = "multi_thread")]
async fn keys_go_to_their_nodes_and_all_is_heard_at_home() {
    for flavor in Flavor::ALL {
        let cluster = four(flavor, &[]);
        let mut party = Party::open(&url(&cluster)).await.unwrap();
        let mut sources = Vec::new();
        for (index, key) in KEYS.iter().enumerate() {
            assert_eq!(cluster.owner_of(cluster.slot_of(key)).unwrap(), index);
            let (_, session) = party.call(&["SET", key, "1"]).await.unwrap();
            assert_eq!(session.connection().address.port, cluster.nodes[index].port());
            assert_eq!(session.connection().origin.source, party.router.source(key.as_bytes()));
            let run = session.backend.run();
            assert_eq!(party.router.origin_of_run(run), Some(session.connection().origin));
            sources.push(session.connection().origin.source);
            ask(&cluster.nodes[index], &["PUBLISH", CHANNEL, key]);
            assert_eq!(party.heard().await, key.as_bytes());
        }
        sources.sort_unstable();
        assert_eq!(sources, [0, 1, 2]);
        assert_eq!(party.router.masters().await.unwrap().len(), 3);
        let calls: Vec<_> =
            (0..30).map(|n| KEYS[n % 3]).map(|key| a_call(key, ["INCR", key])).collect();
        let answers = party.router.call_all(&calls).await;
        for (n, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer.unwrap().value, Value::Int(n as i64 / 3 + 2));
        }
        party.router.close().await;
        for node in &cluster.nodes {
            until("it has no connection", || {
                let list = ask(node, &["CLIENT", "LIST"]);
                !list.text().expect("a list").contains("resp=3")
            });
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_on_the_move_is_followed() {
    let cluster = four(Flavor::Redis, &[]);
    let party = Party::open(&url(&cluster)).await.unwrap();
    let key = KEYS[0];
    party.call(&["SET", key, "5"]).await.unwrap();
    let migration = cluster.begin_migration(slot(key.as_bytes()), 1).expect("a beginning");
    assert_eq!(cluster.move_keys(migration).expect("a move"), 1);
    // ASK: this key is there, the slot is still here.
    let (value, session) = party.call(&["INCR", key]).await.unwrap();
    assert_eq!(
        (value, session.connection().address.port),
        (Value::Int(6), cluster.nodes[1].port())
    );
    assert_eq!(
        Some(party.router.source(key.as_bytes())),
        source_at(&party, cluster.nodes[0].port()).await
    );
    // MOVED: the slot is there.
    cluster.finish_migration(migration).expect("an end");
    let (value, session) = party.call(&["INCR", key]).await.unwrap();
    assert_eq!(
        (value, session.connection().address.port),
        (Value::Int(7), cluster.nodes[1].port())
    );
    assert_eq!(party.router.source(key.as_bytes()), session.connection().origin.source);
    let calls = [a_call(key, ["INCR", key])];
    assert_eq!(party.router.call_all(&calls).await.remove(0).unwrap().value, Value::Int(8));
}

async fn source_at(party: &Party, port: u16) -> Option<u64> {
    let masters = party.router.masters().await.unwrap();
    masters
        .iter()
        .find(|session| session.connection().address.port == port)
        .map(|at| at.connection().origin.source)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_slots_is_greeted_again_with_its_first() {
    let cluster = four(Flavor::Redis, &[]);
    let party = Party::open(&url(&cluster)).await.unwrap();
    let key = KEYS[0];
    let migration = cluster.begin_migration(slot(key.as_bytes()), 3).expect("a beginning");
    let (_, session) = party.call(&["SET", key, "1"]).await.unwrap();
    assert_eq!(session.connection().address.port, cluster.nodes[3].port());
    assert!(session.marker_key.is_empty());
    cluster.finish_migration(migration).expect("an end");
    let (value, session) = party.call(&["INCR", key]).await.unwrap();
    assert_eq!(
        (value, session.connection().address.port),
        (Value::Int(2), cluster.nodes[3].port())
    );
    assert_eq!(slot(&session.marker_key), slot(key.as_bytes()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_node_is_followed_by_its_replica() {
    let cluster = Cluster::builder(Flavor::Redis).replicas(true).args(PARTIAL).start();
    let cluster = cluster.expect("a cluster");
    let key = KEYS[0];
    let party = Party::open(&url(&cluster)).await.unwrap();
    party.call(&["SET", key, "1"]).await.unwrap();
    let mut replica = cluster.nodes[3].connect().expect("a connection");
    assert!(replica.command(&["READONLY"]).expect("a reply").is_ok());
    until("the replica is in step", || {
        replica.command(&["GET", key]).expect("a reply").text() == Some("1")
    });
    cluster.nodes[0].kill();
    let (value, session) = party.call_until(&["INCR", key]).await;
    assert_eq!(
        (value, session.connection().address.port),
        (Value::Int(2), cluster.nodes[3].port())
    );
    assert_eq!(session.connection().origin.source, party.router.source(key.as_bytes()));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_resp3_the_home_has_a_second_connection() {
    let cluster = four(Flavor::Redis, &NO_HELLO);
    let mut party = Party::open(&url(&cluster)).await.unwrap();
    ask(&cluster.nodes[2], &["PUBLISH", CHANNEL, "from afar"]);
    assert_eq!(party.heard().await, b"from afar");
    assert_eq!(party.call(&["SET", KEYS[1], "1"]).await.unwrap().0, Value::Okay);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_home_is_found_when_it_dies() {
    let cluster = four(Flavor::Redis, &[]);
    let mut party = Party::open(&url(&cluster)).await.unwrap();
    for key in KEYS {
        party.call(&["SET", key, "1"]).await.unwrap();
    }
    let home = |cluster: &Cluster| {
        cluster.nodes.iter().position(|node| {
            let channels = node.try_cli(&["PUBSUB", "CHANNELS"]);
            channels.is_ok_and(|all| {
                all.array().is_some_and(|all| all.iter().map(ServerReply::text).eq([Some(CHANNEL)]))
            })
        })
    };
    let first = home(&cluster).unwrap();
    // The connection alone: the node is as good as before.
    ask(&cluster.nodes[first], &["CLIENT", "KILL", "TYPE", "pubsub"]);
    party.recheck().await;
    party.call_until(&["GET", KEYS[(first + 1) % 3]]).await;
    party.recheck().await;
    let second = home(&cluster).unwrap();
    cluster.nodes[second].kill();
    party.recheck().await;
    let other = (second + 1) % 3;
    party.call_until(&["SET", KEYS[other], "2"]).await;
    party.recheck().await;
    assert_ne!(home(&cluster), Some(second));
    ask(&cluster.nodes[other], &["PUBLISH", CHANNEL, "still there"]);
    assert_eq!(party.heard().await, b"still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_is_greeted_with_a_key_of_its_own() {
    let cluster = four(Flavor::Redis, &[]);
    let party = Arc::new(Party::open(&url(&cluster)).await.unwrap());
    party.router.masters().await.unwrap();
    let keys = party.host.keys.lock().unwrap().clone();
    let mut slots: Vec<u16> = keys.iter().map(|key| slot(key)).collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 5462, 10924]);
    assert!(keys.iter().all(|key| key.starts_with(b"tt:\x01run{")));
}
