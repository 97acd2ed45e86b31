//! A server that restarts with stale state hands nothing to programs by itself before one of them
//! has checked it: they have their own quarantine, which the server does not know.

use std::thread::sleep;
use std::time::Duration;

use taketurns_servers::{Builder, Flavor, Server, ServerClock, eventually, on_both};

use crate::attack::line::{LATER_S, LEASE_MS, Line, asks, builder};
use crate::words;

/// Starts a server, and returns it with its clock.
fn clocked(builder: Builder) -> (Server, ServerClock) {
    let clock = ServerClock::ahead(0).expect("a clock");
    (builder.clock(&clock).start().expect("a server"), clock)
}

/// One program holds for a lease, another waits.
fn use_it(server: &Server) -> String {
    let mut line = Line::to(server);
    let binding = line.bind(server);
    let reply = line.does("k", &binding, &asks(1, "m", LEASE_MS, LEASE_MS));
    assert!(reply.contains(" G "), "{reply}");
    let reply = line.does("k", &binding, &asks(2, "m", 60_000, 60_000));
    assert!(reply.contains(" Q "), "{reply}");
    binding
}

/// Renews for a minute, which the server will have forgotten.
fn renew(server: &Server, binding: &str) {
    let renew = words::renew(&format!("{:032x}", 1), &format!("{:016x}", 1), 60_000);
    let reply = Line::to(server).does("k", binding, &renew);
    assert!(reply.contains(" N "), "{reply}");
}

/// The server's record of the lease is over; the holder knows that the lease is not.
fn grants_nothing(server: &Server, clock: &ServerClock) {
    clock.set(LATER_S).expect("set");
    let mut line = Line::to(server);
    eventually("the lease is over", || line.is_over("k").then_some(())).expect("over");
    sleep(Duration::from_millis(500));
    assert_eq!(line.number("k", "waiting"), 1, "granted without a look");
    // The other program comes back, and has verified that this is another incarnation.
    let binding = line.bind(server);
    let reply = line.does("k", &binding, &asks(2, "m", 60_000, 60_000));
    assert!(reply.contains(" Q "), "{reply}");
}

on_both! {
    fn a_restarted_server_hands_nothing_to_a_program_before_it_has_looked(flavor: Flavor) {
        let (server, clock) = clocked(builder(flavor));
        let binding = use_it(&server);
        assert!(server.cli(&["SAVE"]).is_ok());
        renew(&server, &binding);
        server.kill();
        server.restart().expect("a restart");
        grants_nothing(&server, &clock);
    }

    fn a_program_that_wants_no_quarantine_is_served_when_it_comes(flavor: Flavor) {
        let (server, clock) = clocked(builder(flavor));
        use_it(&server);
        assert!(server.cli(&["SAVE"]).is_ok());
        server.kill();
        server.restart().expect("a restart");
        clock.set(LATER_S).expect("set");
        let mut line = Line::to(&server);
        eventually("the lease is over", || line.is_over("k").then_some(())).expect("over");
        sleep(Duration::from_millis(500));
        assert_eq!(line.number("k", "waiting"), 1, "granted without a look");
        let binding = line.bind_for(&server, 0);
        let reply = line.does("k", &binding, &asks(2, "m", 60_000, 60_000));
        assert!(reply.contains(" G "), "{reply}");
    }

    fn a_promoted_replica_hands_nothing_to_a_program_before_it_has_looked(flavor: Flavor) {
        let master = builder(flavor).start().expect("a server");
        let (replica, clock) = clocked(builder(flavor).replica_of(master.port()));
        let up = || (replica.info("replication").get("master_link_status")? == "up").then_some(());
        eventually("the replica follows", up).expect("a link");
        let binding = use_it(&master);
        let mut looker = Line::to(&replica);
        let there = || (looker.number("k", "waiting") == 1).then_some(());
        eventually("the replica has it", there).expect("both");
        // Cut off and promoted: the replica learns nothing of what comes now.
        assert!(replica.cli(&["REPLICAOF", "NO", "ONE"]).is_ok());
        renew(&master, &binding);
        master.kill();
        grants_nothing(&replica, &clock);
    }
}
