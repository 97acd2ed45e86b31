//! The conformance suite on foreign protocols, as far as it is about mutexes, and without foreign clients: a
//! wire takes nothing from what our own clients have of each other, but for tokens.

use std::sync::atomic::{AtomicU32, Ordering};

use taketurns_servers::Flavor;

use crate::support::redis_fixture::Redis;
use crate::support::shared::server;

/// A wire's keys have no prefix that could keep tests apart: so each has a database of its own.
fn on(flavor: Flavor, protocol: &str) -> Redis {
    // Database 0 is for tests that have a prefix.
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let database = NEXT.fetch_add(1, Ordering::Relaxed);
    let url = server(flavor).url();
    Redis::with(|_| format!("{url}/{database}?protocol={protocol}&unfenced=ok"))
}

mod plain_redis {
    use super::*;
    taketurns_conformance::mutex_tests!(on(Flavor::Redis, "plain"));
}

mod plain_valkey {
    use super::*;
    taketurns_conformance::mutex_tests!(on(Flavor::Valkey, "plain"));
}

mod fairqueue_redis {
    use super::*;
    taketurns_conformance::mutex_tests!(on(Flavor::Redis, "fairqueue"));
}

mod fairqueue_valkey {
    use super::*;
    taketurns_conformance::mutex_tests!(on(Flavor::Valkey, "fairqueue"));
}

mod redturn_redis {
    use super::*;
    taketurns_conformance::mutex_tests!(on(Flavor::Redis, "redturn"));
}

mod redturn_valkey {
    use super::*;
    taketurns_conformance::mutex_tests!(on(Flavor::Valkey, "redturn"));
}
