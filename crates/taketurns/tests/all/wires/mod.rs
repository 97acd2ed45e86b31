//! The wires of others, on real servers: what is in their keys, and that whoever else reads and writes
//! those keys, and ours, are never both in.

mod fairqueue;
mod fairqueue_calls;
mod fairqueue_gone;
mod first;
mod moves;
mod native;
mod plain;
mod python_redis_lock;
mod redturn;
mod redturn_faults;
mod redturn_load;
mod redturn_strangers;
mod refused;
mod rights;
mod servers;
mod sleeper;
mod together;
mod zmutex;
mod zmutex_faults;
mod zmutex_odd;
mod zmutex_strangers;

use std::time::{Duration, Instant};

use taketurns::{Acquire, Connect, Guard, Locks};
use taketurns_servers::{Server, eventually};

use self::sleeper::{Looks, sleeper};
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

/// So many of ours have a place.
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
