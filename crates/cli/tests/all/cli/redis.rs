//! The program on Redis and Valkey: every command, alone, with Sentinel and on a Cluster; turns in
//! order; and what is left by those who were killed.

use std::time::{Duration, Instant};

use serde_json::json;
use taketurns_servers::{Cluster, Flavor, ReplicaSet, Server, on_both};

use crate::cli::helper::{Done, Store, in_vain};
use crate::cli::order::twenty_shells_in_order;
use crate::cli::turns::processes_count;

/// Each command once, and none has anything to complain of.
pub(crate) fn every_command_works(store: &Store) {
    every_command_works_on_a_mutex(store);
    store.run(&["pool", "add", "rooms", "blue", "red"]).quiet();
    let says = "echo $TAKETURNS_MEMBER";
    let run = ["run", "--pool", "--member", "red", "rooms", "--", "sh", "-c", says];
    assert_eq!(store.run(&run).quiet().stdout, "red\n");
    assert_eq!(store.run(&["pool", "rm", "rooms", "red"]).quiet().stdout, "red removed\n");
    let members = store.run(&["pool", "ls", "rooms"]).quiet().stdout;
    assert!(members.contains("blue    free") && !members.contains("red"), "{members}");
}

/// Those that a store without pools has, too.
pub(crate) fn every_command_works_on_a_mutex(store: &Store) {
    let says = "echo $TAKETURNS_LOCK $TAKETURNS_TOKEN";
    let said = store.run(&["run", "door", "--", "sh", "-c", says]).quiet().stdout;
    let shown = store.show("door");
    assert_eq!(said, format!("door {}\n", shown["last_token"]));
    assert_eq!((&shown["state"], &shown["quarantine_ms"]), (&json!("idle"), &json!(null)));

    let handle = store.run(&["acquire", "--lease", "40", "desk"]).quiet().stdout;
    let with = |args: &[&str]| Done::of(store.command(args).env("TAKETURNS_HANDLE", handle.trim()));
    store.run(&["run", "-n", "desk", "--", "true"]).failed(75, "desk is held by ");
    let (_, waited) = in_vain(|wait| store.run(&["run", "-w", wait, "desk", "--", "true"]));
    waited.failed(75, "desk is held by ");
    let token = with(&["renew", "--json"]).quiet().json()["token"].clone();
    let shown = store.run(&["show", "desk"]).quiet().stdout;
    // On a quorum, a waiter that gave up may have got a later token from the one node that the holder has not reached.
    assert!(shown.starts_with("desk: mutex, held, last token "), "{shown}");
    assert!(shown.contains(&format!("\nmutex  {token} ")), "{shown}");
    let listed = store.run(&["ls"]).quiet().stdout;
    let names: Vec<_> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["LOCK", "desk", "door"], "{listed}");
    with(&["release"]).quiet();
    with(&["renew"]).failed(76, "desk is not held by this handle");

    let mut holder = store.hold(&["--lease", "40", "desk"]);
    let broken = store.run(&["break", "--json", "desk"]).quiet().json();
    assert_eq!(broken, json!({"lock": "desk", "broken": 1, "at_once": false}));
    assert_eq!(holder.code(), 76);
}

on_both! {
    fn every_command_works_on_one_server(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        every_command_works(&Store::at(server.url()));
    }

    fn every_command_works_with_sentinel(flavor: Flavor) {
        // Without this option there would be a warning, and this test expects none.
        let set = ReplicaSet::builder(flavor).replicas(1).min_replicas(true);
        let set = set.start().expect("a set");
        every_command_works(&Store::at(set.url()));
    }

    fn every_command_works_on_a_cluster(flavor: Flavor) {
        let cluster = Cluster::start(flavor).expect("a cluster");
        every_command_works(&Store::at(cluster.url()));
    }

    fn twenty_shells_get_their_turns_in_the_order_in_which_they_came(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        twenty_shells_in_order(&Store::at(server.url()));
    }

    fn a_killed_holders_lock_passes_on_when_its_lease_ends_and_not_before(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let store = Store::at(server.url());
        let mut holder = store.hold(&["--lease", "5", "door"]);
        let mut next = store.start(&["run", "door", "--", "sh", "-c", "echo $TAKETURNS_TOKEN"]);
        store.until_waiting("door", 1);
        let first = store.show("door")["last_token"].as_u64().expect("a token");

        let before = Instant::now();
        // A renewal between this and the kill makes the lease end later, never earlier.
        let left_ms = store.show("door")["holders"][0]["left_ms"].as_u64().expect("still held");
        holder.kill();
        let second: u64 = next.line().parse().expect("a token");
        let left = Duration::from_millis(left_ms);
        assert!(before.elapsed() >= left, "too early by {:?}", left - before.elapsed());
        assert!(second > first, "{second} after {first}");
        assert_eq!(next.code(), 0);
    }

    fn twenty_processes_of_twenty_turns_count_to_400(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        processes_count(&Store::at(server.url()), 20, 20);
    }
}

#[test]
fn twenty_processes_of_twenty_turns_count_to_400_on_a_cluster() {
    let cluster = Cluster::start(Flavor::Valkey).expect("a cluster");
    processes_count(&Store::at(cluster.url()), 20, 20);
}
