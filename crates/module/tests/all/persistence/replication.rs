//! A replica has exactly the same locks as its master, whatever was done to them and however it got
//! them.

use std::thread::sleep;
use std::time::Duration;

use taketurns_core::Ask;
use taketurns_servers::{Flavor, Server, eventually, on_both};

use crate::persistence::payload::{dump, ours, with_ours};
use crate::persistence::program::Program;
use crate::persistence::support::{Client, builder, logging, restart, server};
use crate::persistence::workload::{Workload, all_are_equal, has_expired_what_ends_soon, state};

/// Starts a replica; returns once it follows.
fn replica_of(flavor: Flavor, master: &Server, appendonly: bool) -> Server {
    let replica = if appendonly { logging(flavor, &[]) } else { builder(flavor, &[]) };
    let replica = replica.replica_of(master.port()).start().expect("a replica");
    follows(&replica);
    replica
}

fn follows(replica: &Server) {
    let is_up = || (replica.info("replication").get("master_link_status")? == "up").then_some(());
    eventually("the replica follows", is_up).expect("a link");
}

/// Waits until everything written to the master so far has reached the replica.
fn caught_up(master: &Server, replica: &Server) {
    let offset = |server: &Server, name: &str| -> Option<u64> {
        server.info("replication").get(name)?.parse().ok()
    };
    let written = offset(master, "master_repl_offset");
    let all = || (offset(replica, "slave_repl_offset") >= written).then_some(());
    eventually("the replica has caught up", all).expect("it has");
}

on_both! {
    fn a_replica_is_equal_after_every_kind_of_step(flavor: Flavor) {
        let master = server(flavor);
        let replica = replica_of(flavor, &master, false);
        let mut workload = Workload::new(&master, 0x11);
        for _ in 0..4 {
            workload.run(1_000);
        }
        workload.end();
        all_are_equal(&master, &[&replica]);
        assert_eq!(replica.info("stats")["sync_full"], "0");
        let log = [master.log(), replica.log()].concat();
        assert!(!log.contains("a bug in the module"), "{log}");
    }

    fn replicas_are_equal_after_a_full_and_after_a_partial_resync(flavor: Flavor) {
        let master = server(flavor);
        let early = replica_of(flavor, &master, false);
        let mut workload = Workload::new(&master, 0x22);
        workload.run(800);
        let late = replica_of(flavor, &master, false);
        workload.run(400);
        // They reconnect, and receive only what they missed.
        assert!(Client::of(&master).int("CLIENT KILL TYPE replica") > 0);
        workload.run(400);
        follows(&early);
        follows(&late);
        let partial: u64 = master.info("stats")["sync_partial_ok"].parse().expect("a number");
        assert!(partial >= 2, "{partial}");
        workload.end();
        let last = replica_of(flavor, &master, false);
        all_are_equal(&master, &[&early, &late, &last]);
    }

    fn a_replica_of_a_replica_is_equal(flavor: Flavor) {
        let master = server(flavor);
        let middle = replica_of(flavor, &master, false);
        let end = replica_of(flavor, &middle, false);
        let mut workload = Workload::new(&master, 0x33);
        workload.run(1_500);
        workload.end();
        all_are_equal(&master, &[&middle, &end]);
    }

    fn a_replica_that_reads_its_own_log_is_equal(flavor: Flavor) {
        let master = server(flavor);
        let replica = replica_of(flavor, &master, true);
        let mut workload = Workload::new(&master, 0x44);
        workload.run(1_500);
        workload.end();
        has_expired_what_ends_soon(&master);
        all_are_equal(&master, &[&replica]);
        // Its master does not answer, so it has nothing but its log.
        master.pause();
        let before = state(&replica);
        replica.kill();
        restart(&replica);
        assert_eq!(state(&replica), before);
        master.resume();
        follows(&replica);
        all_are_equal(&master, &[&replica]);
    }

    fn a_replica_does_nothing_by_itself(flavor: Flavor) {
        let master = server(flavor);
        let (mut client, mut program) = (Client::of(&master), Program::of(&master, "", 1));
        client.take("k 5");
        program.wait("k", 1, Ask::Mutex, "program");
        let mut bound = Client::of(&master);
        bound.take("bound 600 BOUND LABEL bound");
        // It receives these as whole states, and then repeats single steps.
        let replica = replica_of(flavor, &master, false);
        client.take("step 4");
        program.wait("step", 2, Ask::Mutex, "program");
        caught_up(&master, &replica);
        master.pause();
        let before = state(&replica);
        assert_eq!(before.len(), 3);
        // Its lease is over here too, and its connection was never to this server.
        sleep(Duration::from_millis(6_000));
        assert_eq!(state(&replica), before);
        let refused = Client::of(&replica).say("FENCELOCK.ACQUIRE other 60");
        assert!(refused.error().is_some_and(|error| error.starts_with("READONLY ")), "{refused}");
        master.resume();
        for key in ["k", "step"] {
            Client::of(&replica).is_held_by(key, &["program"]);
        }
        drop(bound);
        Client::of(&replica).is_held_by("bound", &[]);
    }

    fn what_changes_nothing_but_the_time_leaves_replicas_equal(flavor: Flavor) {
        let master = server(flavor);
        let replica = replica_of(flavor, &master, false);
        let mut client = Client::of(&master);
        // One after the other on a lock that is idle, free or held; then a step that is repeated.
        let idle = client.take("idle 600");
        assert!(client.release("idle", &idle).is_ok());
        client.take("held 600");
        for key in ["idle", "held"] {
            client.say(&format!("FENCELOCK.RELEASE {key} 1"));
            client.say(&format!("FENCELOCK.RENEW {key} 1 60"));
            client.say(&format!("FENCELOCK.ACQUIRE {key} 60 ANY"));
            client.say(&format!("FENCELOCK.BREAK {key} TOKEN 1"));
            client.say(&format!("FENCELOCK.POOL REM {key} x"));
        }
        // A copy has members that became free without a step.
        client.int("FENCELOCK.POOL ADD pool x");
        client.take("pool 60 MEMBER x");
        assert_eq!(client.int("COPY pool copy"), 1);
        client.say("FENCELOCK.RELEASE copy 1");
        client.say("FENCELOCK.ACQUIRE held 60 BOUND");
        client.say("FENCELOCK.ACQUIRE pool 60 ANY");
        let now_us = client.time_us();
        client.ok(&format!("FENCELOCK.CHECK checked {now_us}"));
        all_are_equal(&master, &[&replica]);
    }

    fn a_search_for_expired_leases_that_finds_none_leaves_replicas_equal(flavor: Flavor) {
        let master = server(flavor);
        let replica = replica_of(flavor, &master, false);
        let mut client = Client::of(&master);
        let first = client.take("k 1 SHARED");
        client.take("k 600 SHARED");
        client.renew("k", &first);
        // By then the first lease would be over.
        let end_us = client.time_us() + 1_000_000;
        while client.time_us() < end_us {
            sleep(Duration::from_millis(10));
        }
        client.say("FENCELOCK.ACQUIRE k 60 EXCLUSIVE");
        all_are_equal(&master, &[&replica]);
    }

    fn what_is_asked_in_vain_does_not_part_the_ends_of_keys(flavor: Flavor) {
        let master = server(flavor);
        let replica = replica_of(flavor, &master, false);
        let mut client = Client::of(&master);
        client.ok("CONFIG SET rdbcompression no");
        let held = client.take("k 600");
        assert!(client.release("k", &held).is_ok());
        // As if it had been idle so long that its expiry must be set anew in a moment.
        let whole = dump(&mut client, "k");
        let end_ms = client.time_us() / 1_000 + HOUR_MS + 200;
        let mut changed = ours(&whole).to_vec();
        let at = changed.len() - 1 - varint(end_ms).len();
        changed[at..at + varint(end_ms).len()].copy_from_slice(&varint(end_ms));
        let (payload, end) = (with_ours(&whole, &changed), end_ms.to_string());
        let words: [&[u8]; 6] =
            [b"RESTORE", b"k", end.as_bytes(), &payload, b"REPLACE", b"ABSTTL"];
        assert!(client.0.command(&words).expect("a reply").is_ok());
        while client.time_us() / 1_000 + HOUR_MS <= end_ms {
            sleep(Duration::from_millis(10));
        }
        let reply = client.say("FENCELOCK.RELEASE k 1");
        assert!(reply.error().is_some_and(|error| error.starts_with("NOTHELD ")), "{reply}");
        // The next step has another millisecond, and so has everything that follows from it.
        let asked_ms = client.time_us() / 1_000;
        while client.time_us() / 1_000 == asked_ms {
            sleep(Duration::from_millis(1));
        }
        all_are_equal(&master, &[&replica]);
        assert_eq!(client.int("PEXPIRETIME k") as u64, end_ms, "nothing was changed");
        client.take("k 1");
        all_are_equal(&master, &[&replica]);
        assert!(client.int("PEXPIRETIME k") as u64 > end_ms, "it was said anew");
    }
}

/// How long an idle lock is remembered.
const HOUR_MS: u64 = 3_600_000;

/// Encodes a number as it is stored: seven bits in each byte, the lowest first.
fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
