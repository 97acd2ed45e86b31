//! The conformance suite on a quorum, as far as it is about mutexes: of nodes in this process, and of
//! real servers.

use std::time::Duration;

use taketurns::engine::{Engine, EngineFuture, Wakes};
use taketurns::{ClientId, Locks};
use taketurns_conformance::Fixture;
use taketurns_servers::{Flavor, Server};

use crate::support::redis_fixture::PATIENT;

/// A quorum that this fixture has for itself.
struct Quorum {
    nodes: Vec<String>,
    _servers: Vec<Server>,
}

impl Quorum {
    fn of_memory() -> Self {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let nodes: Vec<_> = (0..5).map(|node| format!("memory:{number}-{node}")).collect();
        Self { nodes, _servers: Vec::new() }
    }

    /// Two kinds of servers in one.
    fn of_servers() -> Self {
        let flavors = [Flavor::Redis, Flavor::Valkey, Flavor::Redis];
        let servers = flavors.map(|flavor| Server::start(flavor).expect("a server"));
        let servers = Vec::from(servers);
        let nodes = servers.iter().map(|server| format!("{}?{PATIENT}", server.url())).collect();
        Self { nodes, _servers: servers }
    }

    fn url(&self) -> String {
        format!("quorum:{}", self.nodes.join(","))
    }
}

impl Fixture for Quorum {
    fn open(&self, client: ClientId, wakes: Wakes) -> EngineFuture<'_, Box<dyn Engine>> {
        Box::pin(async move {
            taketurns::engine::open(&self.url(), client, wakes).await.expect("a quorum")
        })
    }

    fn pass(&self, time: Duration) -> EngineFuture<'_, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn can_skip_hours(&self) -> bool {
        false
    }

    fn connect(&self) -> EngineFuture<'_, Locks> {
        Box::pin(async move { taketurns::connect(&self.url()).await.expect("a quorum") })
    }

    fn stores(&self) -> EngineFuture<'_, Vec<Locks>> {
        Box::pin(async move {
            let mut stores = Vec::new();
            for node in &self.nodes {
                stores.push(taketurns::connect(node).await.expect("a node"));
            }
            stores
        })
    }
}

mod memory {
    use super::*;
    taketurns_conformance::mutex_tests!(Quorum::of_memory());
}

mod servers {
    use super::*;
    taketurns_conformance::mutex_tests!(Quorum::of_servers());
}
