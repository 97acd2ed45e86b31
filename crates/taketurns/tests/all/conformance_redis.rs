//! The conformance suite on real Redis and Valkey servers, standalone and as a Cluster.
//!
//! Starting a Cluster takes seconds, so all behaviours of a module share one, each under a prefix of
//! its own.

use std::sync::LazyLock;

use taketurns_servers::{Cluster, Flavor};

use crate::support::redis_fixture::Redis;
use crate::support::shared::server;

mod redis {
    use super::*;
    taketurns_conformance::tests!(Redis::with(|_| server(Flavor::Redis).url()));
}

mod valkey {
    use super::*;
    taketurns_conformance::tests!(Redis::with(|_| server(Flavor::Valkey).url()));
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
