//! The conformance suite on real Redis and Valkey servers, standalone and as a Cluster.
//!
//! Starting a Cluster takes seconds, so all behaviours of a module share one, each under a prefix of
//! its own.

#[path = "support/redis_fixture.rs"]
mod redis_fixture;

use std::sync::LazyLock;

use redis_fixture::Redis;
use taketurns_servers::{Cluster, Flavor, Server};

mod redis {
    use super::*;
    static SERVER: LazyLock<Server> =
        LazyLock::new(|| Server::start(Flavor::Redis).expect("a server"));
    taketurns_conformance::tests!(Redis::with(|_| SERVER.url()));
}

mod valkey {
    use super::*;
    static SERVER: LazyLock<Server> =
        LazyLock::new(|| Server::start(Flavor::Valkey).expect("a server"));
    taketurns_conformance::tests!(Redis::with(|_| SERVER.url()));
}

mod redis_cluster {
    use super::*;
    static CLUSTER: LazyLock<Cluster> =
        LazyLock::new(|| Cluster::start(Flavor::Redis).expect("a Cluster"));
    taketurns_conformance::tests!(Redis::with(|_| CLUSTER.url()));
}

mod valkey_cluster {
    use super::*;
    static CLUSTER: LazyLock<Cluster> =
        LazyLock::new(|| Cluster::start(Flavor::Valkey).expect("a Cluster"));
    taketurns_conformance::tests!(Redis::with(|_| CLUSTER.url()));
}
