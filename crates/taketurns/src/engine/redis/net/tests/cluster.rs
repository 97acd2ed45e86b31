//! A Cluster of three and one without slots; slots that move.

use std::sync::Arc;

use redis::Value;

use super::party::{CHANNEL, Party, command};
use super::server::{Server, until};
use crate::engine::redis::net::slots::slot;
use crate::engine::redis::net::topology::Command;

struct Cluster {
    nodes: Vec<Server>,
    ids: Vec<String>,
}

impl Cluster {
    fn start(program: &'static str) -> Self {
        Self::start_with(program, &[])
    }

    fn start_with(program: &'static str, more: &[&str]) -> Self {
        let mut arguments = vec![
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            "1000",
            "--cluster-require-full-coverage",
            "no",
        ];
        arguments.extend(more);
        // The last has no slots.
        let nodes: Vec<Server> = (0..4).map(|_| Server::start(program, &arguments)).collect();
        let ranges = [("0", "5460"), ("5461", "10922"), ("10923", "16383")];
        for (node, (first, last)) in nodes.iter().zip(ranges) {
            node.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", first, last]);
        }
        for node in &nodes[1..] {
            node.ask::<()>(&["CLUSTER", "MEET", "127.0.0.1", &nodes[0].port.to_string()]);
        }
        let ids = nodes.iter().map(|node| node.ask(&["CLUSTER", "MYID"])).collect();
        for node in &nodes {
            until("every node knows all slots", || {
                let info: String = node.ask(&["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
            });
        }
        Self { nodes, ids }
    }

    fn url(&self) -> String {
        format!("redis+cluster://127.0.0.1:{}", self.nodes[0].port)
    }

    fn owner(key: &str) -> usize {
        usize::from(slot(key.as_bytes()) > 5460) + usize::from(slot(key.as_bytes()) > 10922)
    }

    fn set_slot(&self, node: usize, key: &str, state: &str, with: usize) {
        let slot = slot(key.as_bytes()).to_string();
        self.nodes[node].ask::<()>(&["CLUSTER", "SETSLOT", &slot, state, &self.ids[with]]);
    }
}

/// One key for each of the three.
const KEYS: [&str; 3] = ["b", "c", "a"];

#[tokio::test(flavor = "multi_thread")]
async fn keys_go_to_their_nodes_and_all_is_heard_at_home() {
    for program in super::server::BOTH {
        let cluster = Cluster::start(program);
        let mut party = Party::open(&cluster.url()).await.unwrap();
        let mut sources = Vec::new();
        for (index, key) in KEYS.iter().enumerate() {
            assert_eq!(Cluster::owner(key), index);
            let (_, session) = party.call(&["SET", key, "1"]).await.unwrap();
            assert_eq!(session.link.address.port, cluster.nodes[index].port);
            assert_eq!(session.link.source, party.net.source(key.as_bytes()));
            let run = session.bound.run();
            assert_eq!(party.net.origin_of_run(run), Some(session.link.origin()));
            sources.push(session.link.source);
            cluster.nodes[index].ask::<i64>(&["PUBLISH", CHANNEL, key]);
            assert_eq!(party.heard().await, key.as_bytes());
        }
        sources.sort_unstable();
        assert_eq!(sources, [0, 1, 2]);
        assert_eq!(party.net.masters().await.unwrap().len(), 3);
        let calls: Vec<(Vec<u8>, Command)> = (0..30)
            .map(|n| {
                let key = KEYS[n % 3];
                let command: Command = Box::new(move |_| command(&["INCR", key]));
                (key.into(), command)
            })
            .collect();
        let answers = party.net.call_all(&calls).await;
        for (n, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer.unwrap().0, Value::Int(n as i64 / 3 + 2));
        }
        party.net.close().await;
        for node in &cluster.nodes {
            until("it has no connection", || {
                let list: String = node.ask(&["CLIENT", "LIST"]);
                !list.contains("resp=3")
            });
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_on_the_move_is_followed() {
    let cluster = Cluster::start("redis-server");
    let party = Party::open(&cluster.url()).await.unwrap();
    let key = KEYS[0];
    party.call(&["SET", key, "5"]).await.unwrap();
    cluster.set_slot(1, key, "IMPORTING", 0);
    cluster.set_slot(0, key, "MIGRATING", 1);
    let port = cluster.nodes[1].port.to_string();
    cluster.nodes[0].ask::<()>(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
    // ASK: this key is there, the slot is still here.
    let (value, session) = party.call(&["INCR", key]).await.unwrap();
    assert_eq!((value, session.link.address.port), (Value::Int(6), cluster.nodes[1].port));
    assert_eq!(
        Some(party.net.source(key.as_bytes())),
        source_at(&party, cluster.nodes[0].port).await
    );
    // MOVED: the slot is there.
    cluster.set_slot(1, key, "NODE", 1);
    cluster.set_slot(0, key, "NODE", 1);
    let (value, session) = party.call(&["INCR", key]).await.unwrap();
    assert_eq!((value, session.link.address.port), (Value::Int(7), cluster.nodes[1].port));
    assert_eq!(party.net.source(key.as_bytes()), session.link.source);
    let calls: Vec<(Vec<u8>, Command)> =
        vec![(key.into(), Box::new(move |_| command(&["INCR", key])))];
    assert_eq!(party.net.call_all(&calls).await.remove(0).unwrap().0, Value::Int(8));
}

async fn source_at(party: &Party, port: u16) -> Option<u64> {
    let masters = party.net.masters().await.unwrap();
    masters.iter().find(|session| session.link.address.port == port).map(|at| at.link.source)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_slots_is_greeted_again_with_its_first() {
    let cluster = Cluster::start("redis-server");
    let party = Party::open(&cluster.url()).await.unwrap();
    let key = KEYS[0];
    cluster.set_slot(3, key, "IMPORTING", 0);
    cluster.set_slot(0, key, "MIGRATING", 3);
    let (_, session) = party.call(&["SET", key, "1"]).await.unwrap();
    assert_eq!(session.link.address.port, cluster.nodes[3].port);
    assert!(session.home_key.is_empty());
    cluster.set_slot(3, key, "NODE", 3);
    cluster.set_slot(0, key, "NODE", 3);
    let (value, session) = party.call(&["INCR", key]).await.unwrap();
    assert_eq!((value, session.link.address.port), (Value::Int(2), cluster.nodes[3].port));
    assert_eq!(slot(&session.home_key), slot(key.as_bytes()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_node_is_followed_by_its_replica() {
    let mut cluster = Cluster::start("redis-server");
    let master = cluster.ids[0].clone();
    let key = KEYS[0];
    cluster.nodes[3].ask::<()>(&["CLUSTER", "REPLICATE", &master]);
    let party = Party::open(&cluster.url()).await.unwrap();
    party.call(&["SET", key, "1"]).await.unwrap();
    until("the replica is in step", || {
        cluster.nodes[3].ask::<String>(&["INFO", "replication"]).contains("master_link_status:up")
            && cluster.nodes[1]
                .ask::<String>(&["CLUSTER", "NODES"])
                .contains(&format!("slave {master}"))
    });
    cluster.nodes[0].kill();
    let (value, session) = party.call_until(&["INCR", key]).await;
    assert_eq!((value, session.link.address.port), (Value::Int(2), cluster.nodes[3].port));
    assert_eq!(session.link.source, party.net.source(key.as_bytes()));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_resp3_the_home_has_a_second_connection() {
    let cluster = Cluster::start_with("redis-server", &["--rename-command", "HELLO", ""]);
    let mut party = Party::open(&cluster.url()).await.unwrap();
    cluster.nodes[2].ask::<i64>(&["PUBLISH", CHANNEL, "from afar"]);
    assert_eq!(party.heard().await, b"from afar");
    assert_eq!(party.call(&["SET", KEYS[1], "1"]).await.unwrap().0, Value::Okay);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_home_is_found_when_it_dies() {
    let mut cluster = Cluster::start("redis-server");
    let mut party = Party::open(&cluster.url()).await.unwrap();
    for key in KEYS {
        party.call(&["SET", key, "1"]).await.unwrap();
    }
    let home = |cluster: &Cluster| {
        cluster.nodes.iter().position(|node| {
            node.try_ask::<Vec<String>>(&["PUBSUB", "CHANNELS"]).is_ok_and(|all| all == [CHANNEL])
        })
    };
    let first = home(&cluster).unwrap();
    // The connection alone: the node is as good as before.
    cluster.nodes[first].ask::<i64>(&["CLIENT", "KILL", "TYPE", "pubsub"]);
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
    cluster.nodes[other].ask::<i64>(&["PUBLISH", CHANNEL, "still there"]);
    assert_eq!(party.heard().await, b"still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_is_greeted_with_a_key_of_its_own() {
    let cluster = Cluster::start("redis-server");
    let party = Arc::new(Party::open(&cluster.url()).await.unwrap());
    party.net.masters().await.unwrap();
    let keys = party.host.keys.lock().unwrap().clone();
    let mut slots: Vec<u16> = keys.iter().map(|key| slot(key)).collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 5461, 10923]);
    assert!(keys.iter().all(|key| key.starts_with(b"tt:\x01run{")));
}
