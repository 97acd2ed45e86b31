//! `protocol=fairqueue` under load, beside programs that follow the document to the letter. Those are in no
//! queue while the lock is held, and look again after a lock time: so not each of them has a turn.

use std::time::Instant;

use taketurns_servers::foreign::{Config, Foreign, Kind};
use taketurns_servers::{Flavor, on_both};

use super::together::{Ours, seconds, went_well};
use super::*;

on_both! {
    fn those_who_follow_the_letter_and_ours_are_never_both_in(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let url = format!("{}?protocol=fairqueue&unfenced=ok", server.url());
        let (seconds, locks) = (seconds(), ["orders"]);
        let config = Config { seconds, ttl_ms: 1_000, ..Config::new("theirs", [server.url()]) };
        let foreign = Foreign::start(Kind::FairQueue, &config).expect("a program");
        let take = |locks: &Locks, name: &str| locks.mutex(name).acquire();
        let ours = Ours { who: "ours", url: &url, locks: &locks, take, from: 1.0, until: seconds };
        let mut turns = block_on(ours.turns(Instant::now()));
        let theirs = foreign.turns().expect("no failure");
        // They began before ours.
        assert!(!theirs.is_empty(), "no stranger had a turn");
        turns.extend(theirs);
        went_well(&turns, ours.everyone());
    }

    fn a_fleet_moves_over(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let (unit, locks) = (seconds() / 8.0, ["orders"]);
        let config =
            Config { seconds: 3.0 * unit, ttl_ms: 1_000, ..Config::new("theirs", [server.url()]) };
        let take = |locks: &Locks, name: &str| locks.mutex(name).acquire();
        let (wire, native) = (format!("{}?protocol=fairqueue&unfenced=ok", server.url()), server.url());
        let on_wire = Ours { who: "wired", url: &wire, locks: &locks, take, from: unit, until: 6.0 * unit };
        let native = Ours { who: "native", url: &native, locks: &locks, take, from: 4.0 * unit, until: 8.0 * unit };
        let began = Instant::now();
        let foreign = Foreign::start(Kind::FairQueue, &config).expect("a program");
        let turns = block_on(async {
            let strangers = tokio::task::spawn_blocking(|| foreign.turns());
            let rest = async {
                let strangers = strangers.await.expect("no panic").expect("no failure");
                (strangers, native.turns(began).await)
            };
            let (on_wire, (strangers, native)) = tokio::join!(on_wire.turns(began), rest);
            [strangers, on_wire, native].concat()
        });
        went_well(&turns, on_wire.everyone().into_iter().chain(native.everyone()));
    }
}
