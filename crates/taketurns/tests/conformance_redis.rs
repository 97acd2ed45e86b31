//! The conformance suite on real Redis and Valkey servers, standalone and as a Cluster.
//!
//! Starting a Cluster takes seconds, so all behaviours of a module share one, each under a prefix of
//! its own.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use taketurns::engine::{self, Engine, EngineFuture, Wakes};
use taketurns::{ClientId, Connect, Locks};
use taketurns_conformance::Fixture;
use taketurns_servers::{Cluster, Flavor, Server};

/// Locks under a prefix that no other test has.
struct Redis {
    url: String,
}

impl Redis {
    fn at(url: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { url: format!("{url}?prefix=t{number}:") }
    }
}

impl Fixture for Redis {
    fn open(&self, client: ClientId, wakes: Wakes) -> EngineFuture<'_, Box<dyn Engine>> {
        Box::pin(async move { engine::open(&self.url, client, wakes).await.expect("a server") })
    }

    fn pass(&self, time: Duration) -> EngineFuture<'_, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn can_skip_hours(&self) -> bool {
        false
    }

    fn connect(&self) -> EngineFuture<'_, Locks> {
        Box::pin(async move {
            let connect = Connect::new(&self.url).waiter_lease(Duration::from_millis(600));
            connect.open().await.expect("a server")
        })
    }
}

mod redis {
    use super::*;
    static SERVER: LazyLock<Server> =
        LazyLock::new(|| Server::start(Flavor::Redis).expect("a server"));
    taketurns_conformance::tests!(Redis::at(&SERVER.url()));
}

mod valkey {
    use super::*;
    static SERVER: LazyLock<Server> =
        LazyLock::new(|| Server::start(Flavor::Valkey).expect("a server"));
    taketurns_conformance::tests!(Redis::at(&SERVER.url()));
}

mod redis_cluster {
    use super::*;
    static CLUSTER: LazyLock<Cluster> =
        LazyLock::new(|| Cluster::start(Flavor::Redis).expect("a Cluster"));
    taketurns_conformance::tests!(Redis::at(&CLUSTER.url()));
}

mod valkey_cluster {
    use super::*;
    static CLUSTER: LazyLock<Cluster> =
        LazyLock::new(|| Cluster::start(Flavor::Valkey).expect("a Cluster"));
    taketurns_conformance::tests!(Redis::at(&CLUSTER.url()));
}
