//! Commands in two dialects: one of them meets a key of another type.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use taketurns_servers::{Cluster, Flavor, Server};

use super::party::{Party, assert_broken, command, text};
use super::server::{ask, redis};
use crate::engine::redis::backend::{Backend, Dialect, RoutedCommand, WrongTypeAction};
use crate::engine::redis::connection::{CommandBuffer, WriteCommand};

/// Reads a key that is a string, or a hash by its field `f`.
#[derive(Clone)]
struct Read {
    key: String,
    is_hash: Arc<AtomicBool>,
    /// What it says of a string that is none, instead of turning over.
    instead: Option<WrongTypeAction>,
}

impl Read {
    fn new(key: &str) -> Self {
        Self { key: key.to_owned(), is_hash: Arc::default(), instead: None }
    }
}

impl RoutedCommand for Read {
    fn dialect(&self, _backend: &Backend) -> Dialect {
        if self.is_hash.load(Ordering::SeqCst) { Dialect::Module } else { Dialect::Scripts }
    }

    fn write(&self, _backend: &Backend, dialect: Dialect, out: &mut CommandBuffer) {
        let command = match dialect {
            Dialect::Scripts => command(&["GET", &self.key]),
            Dialect::Module => command(&["HGET", &self.key, "f"]),
        };
        command.write(out);
    }

    fn handle_wrong_type(&self, _backend: &Backend, dialect: Dialect) -> WrongTypeAction {
        if let Some(action) = &self.instead {
            return action.clone();
        }
        self.is_hash.store(dialect == Dialect::Scripts, Ordering::SeqCst);
        WrongTypeAction::Switch
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_leads_to_another_type_is_asked_the_other_way() {
    let server = redis(&[]);
    let party = Party::open(&server.url()).await.unwrap();
    ask(&server, &["HSET", "k", "f", "in the hash"]);
    let read = Read::new("k");
    assert_eq!(text(&party.router.call(b"k", &read).await.unwrap().value), "in the hash");
    ask(&server, &["DEL", "k"]);
    ask(&server, &["SET", "k", "in the string"]);
    assert_eq!(text(&party.router.call(b"k", &read).await.unwrap().value), "in the string");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_of_neither_type_is_an_error_in_the_end() {
    let server = redis(&[]);
    let party = Party::open(&server.url()).await.unwrap();
    ask(&server, &["RPUSH", "k", "x"]);
    let error = party.router.call(b"k", &Read::new("k")).await.err().unwrap();
    assert_broken(&error, "something else than a lock");
    let calls: Vec<(Vec<u8>, Box<dyn RoutedCommand>)> =
        (0..2).map(|_| (b"k".to_vec(), Box::new(Read::new("k")) as _)).collect();
    for answer in party.router.call_all(&calls).await {
        assert_broken(&answer.err().unwrap(), "something else than a lock");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_greeted_once_before_it_is_given_up() {
    let server = redis(&[]);
    let party = Party::open(&server.url()).await.unwrap();
    ask(&server, &["RPUSH", "k", "x"]);
    let look = WrongTypeAction::Verify(Some("we may not".to_owned()));
    let read = Read { instead: Some(look), ..Read::new("k") };
    assert_broken(&party.router.call(b"k", &read).await.err().unwrap(), "we may not");
    assert_eq!(party.host.verifications.load(Ordering::SeqCst), 2);
}

/// How often the server has read from its connections.
fn reads(server: &Server) -> u64 {
    server.info("stats")["total_reads_processed"].parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_that_have_to_turn_do_so_together() {
    let server = redis(&[]);
    let party = Party::open(&server.url()).await.unwrap();
    let keys: Vec<String> = (0..100).map(|number| format!("k{number}")).collect();
    for key in &keys {
        ask(&server, &["HSET", key, "f", key]);
    }
    let calls: Vec<(Vec<u8>, Box<dyn RoutedCommand>)> =
        keys.iter().map(|key| (key.clone().into(), Box::new(Read::new(key)) as _)).collect();
    let before = reads(&server);
    for (key, answer) in keys.iter().zip(party.router.call_all(&calls).await) {
        assert_eq!(text(&answer.unwrap().value), *key);
    }
    let reads = reads(&server) - before;
    assert!(reads < 50, "{reads} reads");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_too() {
    let cluster = Cluster::start(Flavor::Redis).expect("a cluster");
    let party = Party::open(&cluster.url()).await.unwrap();
    // One for each node.
    let keys = ["b", "c", "a"];
    for (node, key) in cluster.nodes.iter().zip(keys) {
        ask(node, &["HSET", key, "f", key]);
        let answer = party.router.call(key.as_bytes(), &Read::new(key)).await;
        assert_eq!(text(&answer.unwrap().value), key);
    }
    let calls: Vec<(Vec<u8>, Box<dyn RoutedCommand>)> = (0..30)
        .map(|number| keys[number % 3])
        .map(|key| (key.into(), Box::new(Read::new(key)) as _))
        .collect();
    for (number, answer) in party.router.call_all(&calls).await.into_iter().enumerate() {
        assert_eq!(text(&answer.unwrap().value), keys[number % 3]);
    }
}
