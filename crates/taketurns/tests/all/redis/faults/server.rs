//! A server that forgets its scripts, and one that stands still for a while.

use taketurns_servers::{Flavor, Server, on_both};

use super::load::Load;
use super::{errors, store};

on_both! {
    fn scripts_that_are_flushed_again_and_again_cost_nobody_a_turn(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let load = Load::start(&[store(&server.url())]);
        for _ in 0..15 {
            load.goes_on(15);
            assert!(server.cli(&["SCRIPT", "FLUSH"]).is_ok());
        }
        load.goes_on(15);
        assert!(errors(&server, "NOSCRIPT") >= 15, "somebody met each flush");
        let history = load.finish();
        assert!(history.turns().len() >= 225);
    }

    fn a_server_that_stands_still_for_longer_than_anyone_waits_for_an_answer(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let load = Load::start(&[store(&server.url())]);
        // The second is longer than the lease, the waiter lease and the time to answer.
        for seconds in ["0.5", "3", "0.5"] {
            load.goes_on(50);
            assert!(server.cli(&["DEBUG", "SLEEP", seconds]).is_ok());
        }
        load.goes_on(50);
        load.finish();
    }
}
