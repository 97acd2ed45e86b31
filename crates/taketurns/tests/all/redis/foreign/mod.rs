//! Foreign protocols, on real servers: what is in their keys, and that foreign clients and ours never hold a lock at
//! the same time.

mod fairqueue;
mod fairqueue_calls;
mod fairqueue_gone;
mod first;
mod moves;
mod native;
mod plain;
mod python_redis_lock;
mod redturn;
mod redturn_clients;
mod redturn_faults;
mod redturn_load;
mod refused;
mod rights;
mod servers;
mod sleeper;
mod together;
mod zmutex;
mod zmutex_clients;
mod zmutex_faults;
mod zmutex_odd;

use std::time::{Duration, Instant};

use taketurns::engine::{self, AcquireRequest, Engine, Owner, Reply, Request, Wakes};
use taketurns::{Acquire, Ask, ClientId, Connect, Guard, Label, Locks, Name};
use taketurns_servers::{Proxy, Server, eventually};

use self::sleeper::{AllowedLooks, sleeper};
use crate::support::patience::{block_on, soon};
use crate::support::redis_acl;

/// A client that speaks this wire.
async fn speaks(server: &Server, protocol: &str) -> Locks {
    let url = format!("{}?protocol={protocol}&unfenced=ok", server.url());
    soon("connecting", taketurns::connect(&url)).await.expect("a server")
}

async fn acquires(locks: &Locks, lock: &str) -> Guard {
    soon("an acquire", locks.mutex(lock).acquire().lease(LEASE)).await.expect("the lock")
}

/// Four of ours take turns on `orders` from now on, so that it is handed over all the time.
async fn hand_over_all_the_time(server: &Server, protocol: &str) {
    for _ in 0..4 {
        let locks = speaks(server, protocol).await;
        tokio::spawn(async move {
            loop {
                let guard = acquires(&locks, "orders").await;
                tokio::time::sleep(Duration::from_millis(3)).await;
                let _ = guard.release().await;
            }
        });
    }
}

/// One of ours that queues, and takes no turn. Its place lasts until `waiter_lease_ms` after the engine is closed.
async fn queues_and_takes_no_turn(
    server: &Server,
    protocol: &str,
    [lease_ms, waiter_lease_ms]: [u64; 2],
) -> Box<dyn Engine> {
    let url = format!("{}?protocol={protocol}&unfenced=ok", server.url());
    let (client, (wakes, _)) = (ClientId::from_bits(7), Wakes::channel());
    let engine = soon("connecting", engine::open(&url, client, wakes)).await.expect("a server");
    let acquire = AcquireRequest {
        owner: Owner::from_bits(7),
        client,
        ask: Ask::Mutex,
        at_least_ms: 0,
        lease_ms,
        waiter_lease_ms: Some(waiter_lease_ms),
        not_after_ms: u64::MAX >> 12,
        ballot: None,
        label: Label::new("dead", "").expect("a label"),
    };
    let name = Name::new("orders").expect("a name");
    let answer = soon("a place", engine.call(&name, Request::Acquire(acquire))).await;
    assert!(matches!(answer.expect("a server").reply, Reply::Queued(_)));
    engine
}

/// How long the place of a [mortal] client outlasts it.
const MORTAL_LEASE: Duration = Duration::from_millis(300);

/// A client that dies when its proxy holds everything up.
async fn mortal(server: &Server, protocol: &str) -> (Proxy, Locks) {
    let proxy = Proxy::start(server.port()).expect("a proxy");
    let url = format!("{}?protocol={protocol}&unfenced=ok", proxy.url());
    let connect = Connect::new(&url).waiter_lease(MORTAL_LEASE);
    let locks = soon("connecting", connect.open()).await.expect("a server");
    (proxy, locks)
}

/// Does somebody else have it?
async fn is_busy(locks: &Locks, lock: &str) -> bool {
    soon("a try", locks.mutex(lock).try_acquire()).await.expect("a server").is_none()
}

/// The longest that a server takes by default.
const LEASE: Duration = Duration::from_secs(60);

/// What is true for this time only. The attempt says since when, and is made anew, with the next number, until
/// it was done in time.
async fn while_it_is_so<T>(time: Duration, mut attempt: impl AsyncFnMut(u32) -> (Instant, T)) -> T {
    let mut number = 0;
    loop {
        let (since, outcome) = attempt(number).await;
        if since.elapsed() < time {
            return outcome;
        }
        number += 1;
    }
}

/// Until the holder of this lock has renewed it.
async fn until_renewed(locks: &Locks, lock: &str) {
    let renewed = async {
        let mut before = Duration::MAX;
        loop {
            let view = locks.inspect(lock).await.expect("a server").expect("a lock");
            let left = view.holders[0].left;
            if left > before {
                return;
            }
            before = left;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("it is renewed", renewed).await;
}

/// All keys there are, but for our own.
fn foreign_keys(server: &Server) -> Vec<String> {
    let reply = server.cli(&["KEYS", "*"]);
    let keys = reply.array().expect("keys").iter().filter_map(|key| key.text());
    let mut keys: Vec<String> =
        keys.filter(|key| !key.starts_with("tt:")).map(str::to_owned).collect();
    keys.sort();
    keys
}

/// Asserts that this many of our clients have a place.
#[track_caller]
fn waits(server: &Server, lock: &str, count: u32) {
    let key = format!("tt:{lock}");
    eventually("they wait", || {
        let queue = server.cli(&["HGET", &key, "q"]);
        let waiting = queue.text()?.split(' ').next()?.parse::<u32>().ok()?;
        (waiting == count).then_some(())
    })
    .expect("a place");
}
