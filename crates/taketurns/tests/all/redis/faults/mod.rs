//! Twenty clients take turns on real servers while something is broken again and again.
//!
//! ```text
//!   Load ── 20 clients, 60 tasks ──► (Proxy) ──► Server, ReplicaSet, Cluster
//!    │                                  ▲            ▲
//!    │                                  └── faults ──┘   one file for each thing that breaks
//!    ▼
//!   History ── sorted by token ──► nobody overlapped, tokens grew, the fenced counter is right
//! ```
//!
//! First faults under load, then none: whatever was broken, everyone has to get further turns.
//! Beside the load are tests that show one promise directly, with two or three clients.

mod cluster;
mod connections;
mod failover;
mod flush;
mod forged;
mod load;
mod once;
mod pauses;
mod restart;
mod server;
mod wakes;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use taketurns::{Connect, Locks};
use taketurns_servers::Server;

use crate::support::patience::{block_on, soon};

/// The longest lease of the stores under load, and so how long a quarantine lasts.
const MAX_LEASE: Duration = Duration::from_secs(2);
/// A third of it is between two refreshes. For clients under load: what is lost with it is waited for, and
/// whatever they lose they ask for again.
const WAITER_LEASE: Duration = Duration::from_millis(600);

/// The store at a URL, with such leases.
fn store(url: &str) -> String {
    format!("{url}?max_lease={}", MAX_LEASE.as_secs())
}

/// A server that comes back with what it knew.
fn lasting(flavor: taketurns_servers::Flavor) -> Server {
    Server::builder(flavor).appendonly(true).start().expect("a server")
}

async fn connect(url: &str) -> Locks {
    taketurns::connect(url).await.expect("a store")
}

/// A client whose places last for that long.
async fn connect_for(waiter_lease: Duration, url: &str) -> Locks {
    Connect::new(url).waiter_lease(waiter_lease).open().await.expect("a store")
}

/// Asks about a lock until what is seen is as it should be.
async fn seen(
    what: &str,
    locks: &Locks,
    lock: &str,
    is_so: impl Fn(&taketurns::View) -> bool,
) -> taketurns::View {
    soon(what, async {
        loop {
            // The connection may be one that a fault has just broken.
            if let Ok(Some(view)) = locks.inspect(lock).await
                && is_so(&view)
            {
                return view;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

/// The wall clock as tokens have it. All servers here have the same.
fn wall_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_micros()).expect("before the year 500000")
}

/// How often a server answered with an error of that code.
fn errors(server: &Server, code: &str) -> u64 {
    let stats = server.info("errorstats");
    let count =
        stats.get(&format!("errorstat_{code}")).and_then(|text| text.strip_prefix("count="));
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}
