//! A server whose clock is set while clients wait, as after a suspend or by an operator. Some of
//! its timers follow that clock and some follow another: both must still fire.

use taketurns_servers::{Flavor, Server, ServerClock, ServerReply, on_both};

use crate::attack::line::{Line, builder};

const HOUR_S: i64 = 3_600;

/// A server whose clock the test sets.
struct ClockedServer {
    server: Server,
    clock: ServerClock,
}

impl ClockedServer {
    fn start(flavor: Flavor) -> Self {
        let clock = ServerClock::ahead(0).expect("a clock");
        Self { server: builder(flavor).clock(&clock).start().expect("a server"), clock }
    }

    /// Sets the clock ahead of or behind the real time.
    fn set(&self, seconds: i64) {
        let time = |server: &Server| -> i64 {
            let reply = server.cli(&["TIME"]);
            reply.array().and_then(|parts| parts[0].text()?.parse().ok()).expect("a time")
        };
        let before = time(&self.server);
        self.clock.set(seconds).expect("written");
        let moved = time(&self.server) - before;
        assert!((moved - seconds).abs() < HOUR_S / 2, "its clock moved by {moved} s");
    }
}

on_both! {
    fn a_clock_set_forward_leaves_no_timer_hanging(flavor: Flavor) {
        let clocked = ClockedServer::start(flavor);
        let server = &clocked.server;
        let (mut holder, mut bound) = (Line::to(server), Line::to(server));
        holder.take("leased 600");
        bound.take("bound 86400 BOUND");
        let mut leased = Line::waits(server, "leased", "600 WAIT 0");
        let mut tied = Line::waits(server, "bound", "600 WAIT 0");
        clocked.set(HOUR_S);
        // By the server's clock the lease is over.
        leased.is_granted();
        drop(bound);
        tied.is_granted();
        // Later waits time out as well.
        assert_eq!(Line::to(server).say("FENCELOCK.ACQUIRE bound 600 WAIT 1"), ServerReply::Nil);
    }

    fn a_clock_set_back_makes_no_wait_longer(flavor: Flavor) {
        let clocked = ClockedServer::start(flavor);
        let server = &clocked.server;
        Line::to(server).take("k 86400");
        let mut waits = Line::waits(server, "k", "600 WAIT 3");
        clocked.set(-HOUR_S);
        assert_eq!(waits.answer(), ServerReply::Nil);
        assert_eq!(Line::to(server).number("k", "waiting"), 0);
    }
}
