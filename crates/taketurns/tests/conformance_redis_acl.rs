//! The conformance suite as a user who has no right on the server but those that SECURITY.md names.

#[path = "support/redis_acl.rs"]
mod redis_acl;
#[path = "support/redis_fixture.rs"]
mod redis_fixture;

use std::sync::LazyLock;

use redis_fixture::Redis;
use taketurns_servers::{Flavor, Server};

/// A fixture with a user of its own, who may use its prefix and nothing else.
fn limited(server: &Server) -> Redis {
    Redis::with(|prefix| {
        let user = prefix.trim_end_matches(':');
        redis_acl::set_user(server, user, prefix, &redis_acl::COMMANDS);
        redis_acl::url(server, user)
    })
}

mod redis {
    use super::*;
    static SERVER: LazyLock<Server> =
        LazyLock::new(|| Server::start(Flavor::Redis).expect("a server"));
    taketurns_conformance::tests!(limited(&SERVER));
}

mod valkey {
    use super::*;
    static SERVER: LazyLock<Server> =
        LazyLock::new(|| Server::start(Flavor::Valkey).expect("a server"));
    taketurns_conformance::tests!(limited(&SERVER));
}
