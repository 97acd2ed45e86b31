//! A fleet moves over under load, in the three steps of docs/wires.md: strangers alone, then ours on their
//! wire beside them, then native clients beside those. Nobody is ever in at the same time as another.
//!
//! ```text
//!   strangers ████████
//!   on the wire   ██████████████
//!   native                 ██████████
//! ```

use taketurns_servers::foreign::{ForeignConfig, ForeignKind};
use taketurns_servers::turns::check;
use taketurns_servers::{Flavor, on_both};

use super::together::{Ends, Ours, TTL, a_mutex, after, any_member, seconds, strangers};
use super::*;

/// The three ways to the same locks.
struct Fleet<'a> {
    strangers: ForeignKind,
    servers: &'a [Server],
    wired: String,
    native: String,
    take: fn(&Locks, &str) -> Acquire,
    /// The strangers' leases.
    ttl: Duration,
}

impl Fleet<'_> {
    fn moves(&self) {
        let unit = seconds() / 8.0;
        let config = ForeignConfig {
            seconds: 3.0 * unit,
            clients: 8,
            ttl_ms: self.ttl.as_millis() as u64,
            retry_ms: Some(50),
            ..ForeignConfig::new("theirs", self.servers.iter().map(Server::url))
        };
        let (locks, take) = (&["orders"][..], self.take);
        let wired = Ours { who: "wired", url: &self.wired, locks, take };
        let native = Ours { who: "native", url: &self.native, locks, take };
        let (wired_end, native_end) = (Ends::default(), Ends::default());
        let foreign = strangers(self.strangers, &config);
        let turns = block_on(async {
            let strangers = tokio::task::spawn_blocking(|| foreign.turns());
            let rest = async {
                // Step 3 comes after step 2: no stranger is left.
                let strangers = strangers.await.expect("no panic").expect("nobody lost a lock");
                let time = async {
                    after(2.0 * unit, &wired_end).await;
                    after(2.0 * unit, &native_end).await;
                };
                let (native, ()) = tokio::join!(native.turns(&native_end), time);
                (strangers, native)
            };
            let wired = async {
                tokio::time::sleep(Duration::from_secs_f64(unit)).await;
                wired.turns(&wired_end).await
            };
            let (wired, (strangers, native)) = tokio::join!(wired, rest);
            [strangers, wired, native].concat()
        });
        check(&turns);
        // Each fleet: a few seconds are too few for each client of a wire without a queue.
        for fleet in ["theirs", "wired", "native"] {
            let count = turns.iter().filter(|turn| turn.who.starts_with(fleet)).count();
            println!("{fleet}: {count} turns");
            assert!(count > 0, "{fleet} had no turn");
        }
    }
}

/// A fleet of mutexes on one server.
fn mutexes_move(flavor: Flavor, strangers: ForeignKind, protocol: &str, ttl: Duration) {
    let server = Server::start(flavor).expect("a server");
    let fleet = Fleet {
        strangers,
        wired: format!("{}?protocol={protocol}&unfenced=ok", server.url()),
        native: server.url(),
        servers: &[server],
        take: a_mutex,
        ttl,
    };
    fleet.moves();
}

#[test]
fn from_redlock_to_a_quorum() {
    let flavors = [Flavor::Redis, Flavor::Valkey, Flavor::Redis];
    let servers = flavors.map(|flavor| Server::start(flavor).expect("a server"));
    let all = |option: &str| {
        let urls = servers.iter().map(|server| format!("{}{option}", server.url()));
        format!("quorum:{}", urls.collect::<Vec<_>>().join(","))
    };
    let fleet = Fleet {
        strangers: ForeignKind::RedlockPy,
        wired: all("?protocol=plain&unfenced=ok"),
        native: all(""),
        servers: &servers,
        take: a_mutex,
        ttl: TTL,
    };
    fleet.moves();
}

on_both! {
    fn from_plain(flavor: Flavor) {
        mutexes_move(flavor, ForeignKind::Plain, "plain", TTL);
    }

    fn from_python_redis_lock(flavor: Flavor) {
        mutexes_move(flavor, ForeignKind::PythonRedisLock, "python-redis-lock", TTL);
    }

    fn from_redturn(flavor: Flavor) {
        mutexes_move(flavor, ForeignKind::Redturn, "redturn", TTL);
    }

    fn from_fairqueue(flavor: Flavor) {
        mutexes_move(flavor, ForeignKind::FairQueue, "fairqueue", Duration::from_secs(1));
    }

    fn from_zmutex(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let fleet = Fleet {
            strangers: ForeignKind::ZMutex,
            wired: format!("{}?protocol=zmutex&timeout=30&unfenced=ok", server.url()),
            native: server.url(),
            servers: &[server],
            take: any_member,
            ttl: TTL,
        };
        fleet.moves();
    }
}
