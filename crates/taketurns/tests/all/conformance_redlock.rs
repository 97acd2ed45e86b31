//! The conformance suite on a Redlock, as far as it can hold: nobody but its own client sees who waits, so
//! nothing that counts those first.

use std::time::Duration;

use taketurns::engine::{Engine, EngineFuture, Wakes};
use taketurns::{ClientId, Locks};
use taketurns_conformance::Fixture;
use taketurns_servers::{Flavor, Server};

/// A Redlock that this fixture has for itself, of two kinds of servers.
struct Redlock {
    url: String,
    _servers: [Server; 3],
}

impl Redlock {
    fn start() -> Self {
        let flavors = [Flavor::Redis, Flavor::Valkey, Flavor::Redis];
        let servers = flavors.map(|flavor| Server::start(flavor).expect("a server"));
        let url = |server: &Server| format!("{}?protocol=plain&unfenced=ok", server.url());
        let nodes: Vec<_> = servers.iter().map(url).collect();
        Self { url: format!("quorum:{}", nodes.join(",")), _servers: servers }
    }
}

impl Fixture for Redlock {
    fn open(&self, client: ClientId, wakes: Wakes) -> EngineFuture<'_, Box<dyn Engine>> {
        let opened = taketurns::engine::open(&self.url, client, wakes);
        Box::pin(async move { opened.await.expect("a Redlock") })
    }

    fn pass(&self, time: Duration) -> EngineFuture<'_, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn can_skip_hours(&self) -> bool {
        false
    }

    fn connect(&self) -> EngineFuture<'_, Locks> {
        Box::pin(async move { taketurns::connect(&self.url).await.expect("a Redlock") })
    }
}

taketurns_conformance::unqueued_mutex_tests!(Redlock::start());
