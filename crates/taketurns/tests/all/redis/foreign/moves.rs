//! A fleet moves over under load, in the three steps of docs/protocols.md: foreign clients alone, then ours on their
//! wire beside them, then native clients beside those. Nobody is ever in at the same time as another.
//!
//! ```text
//!   foreign clients ████████
//!   on the wire   ██████████████
//!   native                 ██████████
//! ```

use taketurns_servers::foreign::{ForeignConfig, ForeignKind};
use taketurns_servers::turns::check;
use taketurns_servers::{Flavor, on_both};

use super::together::{
    EndFlag, OurClients, TTL, a_mutex, after, any_member, foreign_clients, seconds,
};
use super::*;

/// The three ways to the same locks.
struct Fleet<'a> {
    kind: ForeignKind,
    servers: &'a [Server],
    wired: String,
    native: String,
    take: fn(&Locks, &str) -> Acquire,
    /// The foreign clients' leases.
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
        let wired = OurClients { who: "wired", url: &self.wired, locks, take };
        let native = OurClients { who: "native", url: &self.native, locks, take };
        let (wired_end, native_end) = (EndFlag::default(), EndFlag::default());
        let foreign = foreign_clients(self.kind, &config);
        let turns = block_on(async {
            let theirs = tokio::task::spawn_blocking(|| foreign.turns());
            let rest = async {
                // Step 3 comes after step 2: no foreign client is left.
                let theirs = theirs.await.expect("no panic").expect("nobody lost a lock");
                let time = async {
                    after(2.0 * unit, &wired_end).await;
                    after(2.0 * unit, &native_end).await;
                };
                let (native, ()) = tokio::join!(native.turns(&native_end), time);
                (theirs, native)
            };
            let wired = async {
                tokio::time::sleep(Duration::from_secs_f64(unit)).await;
                wired.turns(&wired_end).await
            };
            let (wired, (theirs, native)) = tokio::join!(wired, rest);
            [theirs, wired, native].concat()
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
fn mutexes_move(flavor: Flavor, kind: ForeignKind, protocol: &str, ttl: Duration) {
    let server = Server::start(flavor).expect("a server");
    let fleet = Fleet {
        kind,
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
        kind: ForeignKind::RedlockPy,
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
            kind: ForeignKind::ZMutex,
            wired: format!("{}?protocol=zmutex&timeout=30&unfenced=ok", server.url()),
            native: server.url(),
            servers: &[server],
            take: any_member,
            ttl: TTL,
        };
        fleet.moves();
    }
}
