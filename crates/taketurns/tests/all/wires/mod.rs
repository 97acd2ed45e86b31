//! The wires of others, on real servers: what is in their keys, and that whoever else reads and writes
//! those keys, and ours, are never both in.

mod fairqueue;
mod fairqueue_calls;
mod fairqueue_gone;
mod first;
mod moves;
mod native;
mod plain;
mod redturn;
mod redturn_faults;
mod redturn_load;
mod redturn_strangers;
mod refused;
mod rights;
mod servers;
mod together;
mod zmutex;
mod zmutex_faults;
mod zmutex_odd;
mod zmutex_strangers;

use std::time::Duration;

use taketurns::{Acquire, Connect, Guard, Locks};
use taketurns_servers::{Server, eventually};

use crate::support::patience::{block_on, soon};
use crate::support::redis_acl;

/// A client that speaks this wire.
async fn speaks(server: &Server, protocol: &str) -> Locks {
    let url = format!("{}?protocol={protocol}&unfenced=ok", server.url());
    let connect = Connect::new(&url).waiter_lease(Duration::from_millis(600));
    soon("connecting", connect.open()).await.expect("a server")
}

async fn acquires(locks: &Locks, lock: &str) -> Guard {
    soon("an acquire", locks.mutex(lock).acquire().lease(LEASE)).await.expect("the lock")
}

/// Does somebody else have it?
async fn is_busy(locks: &Locks, lock: &str) -> bool {
    soon("a try", locks.mutex(lock).try_acquire()).await.expect("a server").is_none()
}

/// Longer than any test takes.
const LEASE: Duration = Duration::from_secs(30);

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
