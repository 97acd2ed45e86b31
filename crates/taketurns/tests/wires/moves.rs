//! A fleet moves over under load, in the three steps of docs/wires.md: strangers alone, then ours on their
//! wire beside them, then native clients beside those. Nobody is ever in at the same time as another.
//!
//! ```text
//!   strangers ████████
//!   on the wire   ██████████████
//!   native                 ██████████
//! ```

use std::time::Instant;

use taketurns_servers::foreign::{Config, Foreign, Kind};
use taketurns_servers::{Flavor, on_both};

use super::together::{Ours, TTL, seconds, went_well};
use super::*;

fn moves(flavor: Flavor, kind: Kind, protocol: &str) {
    let server = Server::start(flavor).expect("a server");
    let unit = seconds() / 8.0;
    let config = Config {
        seconds: 3.0 * unit,
        clients: 8,
        ttl_ms: TTL.as_millis() as u64,
        ..Config::new("theirs", [server.url()])
    };
    let take = |locks: &Locks, name: &str| locks.mutex(name).acquire();
    let wire = format!("{}?protocol={protocol}&unfenced=ok", server.url());
    let (native, locks) = (server.url(), &["orders"][..]);
    let wired = Ours { who: "wired", url: &wire, locks, take, from: unit, until: 6.0 * unit };
    let native =
        Ours { who: "native", url: &native, locks, take, from: 4.0 * unit, until: 8.0 * unit };
    let began = Instant::now();
    let foreign = Foreign::start(kind, &config).expect("a program");
    let turns = block_on(async {
        let strangers = tokio::task::spawn_blocking(|| foreign.turns());
        let rest = async {
            // Step 3 comes after step 2: no stranger is left.
            let strangers = strangers.await.expect("no panic").expect("nobody lost a lock");
            (strangers, native.turns(began).await)
        };
        let (wired, (strangers, native)) = tokio::join!(wired.turns(began), rest);
        [strangers, wired, native].concat()
    });
    let ours = wired.everyone().into_iter().chain(native.everyone());
    went_well(&turns, ours.chain(config.everyone()));
}

on_both! {
    fn from_plain(flavor: Flavor) {
        moves(flavor, Kind::Plain, "plain");
    }
}
