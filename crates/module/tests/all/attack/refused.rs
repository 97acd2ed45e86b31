//! A server that refuses writes, because too few replicas follow it or its Cluster is down, also
//! hands over nothing by itself: another server may have taken its place and grant the same lock.

use std::thread::sleep;
use std::time::Duration;

use taketurns_servers::{Cluster, Flavor, Server, ServerClock, eventually, module_path, on_both};

use crate::attack::line::{LATER_S, LEASE_MS, Line, asks, builder};

fn refuse_writes(server: &Server, refuse: bool) {
    let count = if refuse { "1" } else { "0" };
    assert!(server.cli(&["CONFIG", "SET", "min-replicas-to-write", count]).is_ok());
    let refused = server.cli(&["SET", "x", "y"]).error().is_some();
    assert_eq!(refused, refuse);
}

/// Asserts that the holder's lease is over, and that the server's timers had time to run since.
fn is_over(looker: &mut Line, key: &str) {
    eventually("the lease is over", || looker.is_over(key).then_some(())).expect("over");
    sleep(Duration::from_millis(500));
}

on_both! {
    fn nobody_is_handed_a_lock_by_a_server_that_takes_no_writes(flavor: Flavor) {
        let clock = ServerClock::ahead(0).expect("a clock");
        let server = builder(flavor).clock(&clock).start().expect("a server");
        let (mut holder, mut program) = (Line::to(&server), Line::to(&server));
        let mut bound = Line::to(&server);
        holder.take(&format!("raw {LEASE_MS} MS"));
        bound.take("bound 3600 BOUND");
        let binding = program.bind(&server);
        program.does("program", &binding, &asks(1, "m", LEASE_MS, LEASE_MS));
        let reply = program.does("program", &binding, &asks(2, "m", 60_000, 60_000));
        assert!(reply.contains(" Q "), "{reply}");
        let mut waiters =
            ["raw", "bound"].map(|key| Line::waits(&server, key, "600 WAIT 0"));
        refuse_writes(&server, true);
        drop(bound);
        clock.set(LATER_S).expect("set");
        for key in ["raw", "program"] {
            is_over(&mut holder, key);
        }
        for key in ["raw", "program", "bound"] {
            assert_eq!(holder.number(key, "waiting"), 1, "{key} was handed over");
        }
        refuse_writes(&server, false);
        waiters.iter_mut().for_each(Line::is_granted);
        let reply = program.does("program", &binding, &asks(2, "m", 60_000, 60_000));
        assert!(reply.contains(" G "), "{reply}");
    }

    fn nobody_is_handed_a_lock_by_a_node_without_a_majority(flavor: Flavor) {
        let module = module_path().expect("the module is built");
        let cluster = Cluster::builder(flavor).module(&module, &[]).start().expect("a cluster");
        let alone = cluster.owner_of(cluster.slot_of("k")).expect("an owner");
        let server = &cluster.nodes[alone];
        let mut bound = Line::to(server);
        bound.take("k 3600 BOUND");
        // The server itself refuses a command that blocks.
        let mut program = Line::to(server);
        let binding = program.bind(server);
        let waits = asks(2, "m", 600_000, 600_000);
        let reply = program.does("k", &binding, &waits);
        assert!(reply.contains(" Q "), "{reply}");
        let others = || cluster.nodes.iter().enumerate().filter(|(at, _)| *at != alone);
        others().for_each(|(_, other)| other.kill());
        let is_down = || server.cli(&["SET", "k{k}", "x"]).error().map(str::to_owned);
        let is_down = || is_down().filter(|error| error.starts_with("CLUSTERDOWN")).map(drop);
        eventually("it takes no writes", is_down).expect("down");
        drop(bound);
        sleep(Duration::from_millis(500));
        // A node that is down shows nothing, but its counters tell what it has granted.
        assert_eq!(server.info("fencelock")["fencelock_hand_overs"], "0");
        others().for_each(|(_, other)| other.restart().expect("a restart"));
        let counted = || (server.info("fencelock")["fencelock_hand_overs"] == "1").then_some(());
        eventually("a hand-over", counted).expect("it goes on when it is back");
        let reply = program.does("k", &binding, &waits);
        assert!(reply.contains(" G "), "{reply}");
    }
}
