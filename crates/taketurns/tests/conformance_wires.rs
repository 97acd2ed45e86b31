//! The conformance suite on the wires of others, as far as it is about mutexes, and without strangers: a
//! wire takes nothing from what our own clients have of each other, but for tokens.

#[path = "support/redis_fixture.rs"]
mod redis_fixture;

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use redis_fixture::Redis;
use taketurns_servers::{Flavor, Server};

static REDIS: LazyLock<Server> = LazyLock::new(|| start(Flavor::Redis));
static VALKEY: LazyLock<Server> = LazyLock::new(|| start(Flavor::Valkey));

fn start(flavor: Flavor) -> Server {
    Server::builder(flavor).args(["--databases", "1000"]).start().expect("a server")
}

/// A wire's keys have no prefix that could keep tests apart: so each has a database of its own.
fn on(server: &Server, protocol: &str) -> Redis {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let database = NEXT.fetch_add(1, Ordering::Relaxed);
    Redis::with(|_| format!("{}/{database}?protocol={protocol}&unfenced=ok", server.url()))
}

mod plain_redis {
    use super::*;
    taketurns_conformance::mutex_tests!(on(&REDIS, "plain"));
}

mod plain_valkey {
    use super::*;
    taketurns_conformance::mutex_tests!(on(&VALKEY, "plain"));
}

mod fairqueue_redis {
    use super::*;
    taketurns_conformance::mutex_tests!(on(&REDIS, "fairqueue"));
}

mod fairqueue_valkey {
    use super::*;
    taketurns_conformance::mutex_tests!(on(&VALKEY, "fairqueue"));
}

mod redturn_redis {
    use super::*;
    taketurns_conformance::mutex_tests!(on(&REDIS, "redturn"));
}

mod redturn_valkey {
    use super::*;
    taketurns_conformance::mutex_tests!(on(&VALKEY, "redturn"));
}
