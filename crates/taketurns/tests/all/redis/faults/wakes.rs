//! Wake-ups that never arrive, and wake-ups that arrive twice.

use std::time::Instant;

use taketurns_servers::{Flavor, Proxy, Server, on_both};

use super::load::{Load, Work};
use super::{WAITER_LEASE, store};

on_both! {
    fn without_wake_ups_everyone_gets_its_turns_by_refreshes_alone(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let proxy = Proxy::start(server.port()).expect("a proxy");
        proxy.drop_pushes(true);
        server.reset_stats();
        let started = Instant::now();
        let work = Work { shared_tasks: 1, ..Work::default() };
        let history = Load::with(&[store(&proxy.url())], work).finish();
        let took = started.elapsed();
        let turns = history.turns().len() as u64;
        assert!(turns >= 80, "each of forty tasks had two at least");
        assert!(proxy.pushes_dropped() >= 20, "{} were lost", proxy.pushes_dropped());
        // Each of twenty clients keeps places in two queues, and refreshes both together: at the
        // most it does so twice in a third of the waiter lease. All else is a few commands per turn.
        // However slow the machine, time allows for no more than that.
        let refreshes = 20 * 2 * 2 * (took.as_millis() / (WAITER_LEASE.as_millis() / 3) + 1);
        let most = u64::try_from(refreshes).expect("a number") + 4 * turns;
        let calls = server.command_stats()["evalsha"].calls;
        assert!(calls <= most, "{calls} commands in {took:?}: more than {most}, somebody polls");
    }

    fn wake_ups_that_arrive_twice_grant_once(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let proxy = Proxy::start(server.port()).expect("a proxy");
        proxy.duplicate_pushes(true);
        server.reset_stats();
        let load = Load::start(&[store(&proxy.url())]);
        load.goes_on(250);
        let published = server.command_stats()["publish"].calls;
        assert!(published >= 100, "only {published} wake-ups were there to be doubled");
        load.finish();
    }
}
