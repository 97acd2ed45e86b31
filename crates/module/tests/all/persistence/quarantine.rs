//! `failover quarantine max-lease SECONDS`: after a start, a load and a promotion, the server
//! grants nothing for the length of the longest lease that it may have forgotten.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

use taketurns_core::{Ask, Request};
use taketurns_servers::{Builder, Flavor, Server, ServerClock, ServerReply, eventually, on_both};

use crate::persistence::program::{Program, asked};
use crate::persistence::support::{Client, HeldLock, blocked, builder, logging, restart};

/// Too long to end by itself on a slow machine. The tests set the clock.
const MAX_S: u64 = 60;

const CAREFUL: [&str; 4] = ["failover", "quarantine", "max-lease", "60"];

/// The clock of the servers of a test, and what it shows.
struct Time {
    clock: ServerClock,
    ahead_s: Cell<u64>,
}

impl Time {
    fn new() -> Self {
        Self { clock: ServerClock::ahead(0).expect("a clock"), ahead_s: Cell::new(0) }
    }

    fn now_ms(&self) -> u64 {
        let machine = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time");
        machine.as_millis() as u64 + self.ahead_s.get() * 1_000
    }

    fn pass(&self, seconds: u64) {
        self.ahead_s.set(self.ahead_s.get() + seconds);
        self.clock.set(self.ahead_s.get() as i64).expect("set");
    }

    fn careful(&self, flavor: Flavor) -> Builder {
        builder(flavor, &CAREFUL).clock(&self.clock)
    }

    fn logging(&self, flavor: Flavor) -> Builder {
        logging(flavor, &CAREFUL).clock(&self.clock)
    }
}

fn until_ms(server: &Server) -> u64 {
    server.info("fencelock")["fencelock_quarantine_until_ms"].parse().expect("a number")
}

/// A quarantine began between these two times. Nothing is granted during it, and everything after
/// it.
fn grants_nothing(server: &Server, time: &Time, begun_ms: (u64, u64)) {
    let until_ms = until_ms(server);
    let (from_ms, to_ms) = (begun_ms.0 + MAX_S * 1_000, begun_ms.1 + MAX_S * 1_000);
    assert!((from_ms..=to_ms).contains(&until_ms), "{until_ms} is not in {from_ms}..={to_ms}");
    let mut client = Client::of(server);
    let mut waiter = Client::of(server);
    waiter.wait_for("waited 60");
    let mut refused = 0;
    eventually("a grant", || {
        let before_ms = time.now_ms();
        let reply = client.say("FENCELOCK.ACQUIRE plain 60");
        if HeldLock::of(&reply).is_some() {
            assert!(time.now_ms() >= until_ms, "granted before the quarantine was over");
            return Some(());
        }
        assert!(reply.error().is_some_and(|error| error.starts_with("QUARANTINED ")), "{reply}");
        assert!(before_ms <= until_ms, "{reply}");
        refused += 1;
        // All but its last second.
        time.pass((until_ms.saturating_sub(time.now_ms()) / 1_000).saturating_sub(1));
        None
    })
    .expect("a grant");
    assert!(refused > 0, "it was not looked at in time");
    let held = waiter.granted();
    assert!(held.token as u64 >= until_ms * 1_000, "granted before the quarantine was over");
}

/// Takes one lock to renew and one to release.
fn take_both(server: &Server) -> [HeldLock; 2] {
    let mut client = Client::of(server);
    ["renewed", "released"].map(|key| {
        client.wait_for(&format!("{key} 60"));
        client.granted()
    })
}

/// Asserts that holders can still renew and release.
fn lets_holders_be(server: &Server, [renewed, released]: &[HeldLock; 2]) {
    let mut client = Client::of(server);
    let show = client.show("renewed");
    let left_ms = show.field("quarantine_ms").and_then(ServerReply::int);
    assert!(left_ms.is_some_and(|ms| (1..=MAX_S as i64 * 1_000).contains(&ms)), "{show}");
    client.ok(&format!("FENCELOCK.RENEW renewed {} 60", renewed.secret));
    assert!(client.release("released", released).is_ok());
    let reply = client.say("FENCELOCK.ACQUIRE released 60");
    assert!(reply.error().is_some_and(|error| error.starts_with("QUARANTINED ")), "{reply}");
}

on_both! {
    fn nothing_is_granted_after_a_start(flavor: Flavor) {
        let time = Time::new();
        let before_ms = time.now_ms();
        let server = time.careful(flavor).start().expect("a server");
        grants_nothing(&server, &time, (before_ms, time.now_ms()));
        assert_eq!(server.info("fencelock")["fencelock_failover"], "quarantine");
    }

    fn nothing_is_granted_after_a_load_but_holders_hold(flavor: Flavor) {
        let time = Time::new();
        let server = time.logging(flavor).start().expect("a server");
        time.pass(MAX_S + 1);
        let held = take_both(&server);
        server.kill();
        let before_ms = time.now_ms();
        restart(&server);
        let begun_ms = (before_ms, time.now_ms());
        lets_holders_be(&server, &held);
        grants_nothing(&server, &time, begun_ms);
    }

    fn nothing_is_granted_after_a_promotion_but_holders_hold(flavor: Flavor) {
        let time = Time::new();
        let master = time.careful(flavor).start().expect("a server");
        let replica = time.careful(flavor).replica_of(master.port()).start().expect("a replica");
        time.pass(MAX_S + 1);
        let held = take_both(&master);
        let mut other = Client::of(&replica);
        eventually("the replica has both", || (other.int("DBSIZE") == 2).then_some(()))
            .expect("both");
        master.kill();
        let before_ms = time.now_ms();
        other.ok("REPLICAOF NO ONE");
        let begun_ms = (before_ms, time.now_ms());
        lets_holders_be(&replica, &held);
        grants_nothing(&replica, &time, begun_ms);
    }

    fn no_lease_is_longer_than_the_quarantine(flavor: Flavor) {
        let time = Time::new();
        let server = time.careful(flavor).start().expect("a server");
        time.pass(MAX_S + 1);
        let mut client = Client::of(&server);
        client.wait_for("k 60");
        let held = client.granted();
        let long = "ERR a lease is a whole number from 10 ms to 60 seconds";
        for command in [
            "FENCELOCK.ACQUIRE k 61".to_owned(),
            "FENCELOCK.ACQUIRE other 60001 MS WAIT 1".to_owned(),
            format!("FENCELOCK.RENEW k {} 61", held.secret),
        ] {
            assert_eq!(client.say(&command).error(), Some(long), "{command}");
        }
        let mut program = Program::lasting(&server, "", 1, 60_000);
        let acquire = asked(1, program.id(), Ask::Mutex, "program");
        assert!(acquire.lease_ms > 60_000);
        let renew = Request::Renew { owner: acquire.owner, client: program.id(), lease_ms: 60_001, write_back: None };
        for request in [Request::Acquire(acquire), renew] {
            assert_eq!(program.ask("other", &request).error(), Some(long));
        }
    }

    fn a_bound_holder_that_is_gone_leaves_no_hole_in_the_quarantine(flavor: Flavor) {
        let time = Time::new();
        let server = time.logging(flavor).start().expect("a server");
        time.pass(MAX_S + 1);
        let mut bound = Client::of(&server);
        bound.wait_for("k 60 BOUND");
        bound.granted();
        server.kill();
        restart(&server);
        let mut waiter = blocked(&server, "k", "60", "waits");
        time.pass(MAX_S - 1);
        let held = waiter.granted();
        assert!(held.token as u64 >= until_ms(&server) * 1_000);
    }

    fn arguments_that_make_no_sense_keep_the_server_from_starting(flavor: Flavor) {
        for (args, why) in [
            (&["failover", "later"][..], "it takes `failover immediate` or `failover quarantine"),
            (&["x"], "it takes `failover immediate`"),
            (&["failover", "quarantine"], "it takes `failover immediate`"),
            (&["failover", "quarantine", "max-lease", "0"], "max-lease takes seconds from 1 to"),
            (&["failover", "quarantine", "max-lease", "x"], "max-lease takes seconds from 1 to"),
        ] {
            let error = builder(flavor, args).start().expect_err("it does not start").to_string();
            let said = error.lines().find(|line| line.contains("not loaded: "));
            assert!(said.is_some_and(|line| line.contains(why)), "{args:?}: {error}");
            assert!(!error.contains("crashed by signal"), "{args:?}: {error}");
        }
        let server = builder(flavor, &["failover", "immediate"]).start().expect("a server");
        Client::of(&server).take("k 600");
    }
}
