//! The conformance suite over the module, on Redis and Valkey, standalone, as a Cluster, and as a user with only the
//! rights that SECURITY.md names. The fixtures refuse a server without the module, so scripts do none of it.

#[path = "../../../taketurns/tests/all/support/redis_acl.rs"]
mod redis_acl;
#[path = "../../../taketurns/tests/all/support/redis_fixture.rs"]
mod redis_fixture;

use std::sync::LazyLock;

use redis_fixture::Redis;
use taketurns_servers::{Cluster, Flavor, Server, module_path};

fn server(flavor: Flavor) -> Server {
    let module = module_path().expect("the module");
    Server::builder(flavor).module(&module, &[]).start().expect("a server")
}

fn cluster(flavor: Flavor) -> Cluster {
    let module = module_path().expect("the module");
    Cluster::builder(flavor).module(&module, &[]).start().expect("a Cluster")
}

fn required(url: &str) -> String {
    format!("{url}?module=required")
}

/// Creates a fixture with its own user, who may use its prefix and nothing else.
fn limited(server: &Server) -> Redis {
    Redis::with(|prefix| {
        let user = prefix.trim_end_matches(':');
        let rights = [&redis_acl::COMMANDS[..], &["fencelock.bind", "fencelock.do"]].concat();
        redis_acl::set_user(server, user, prefix, &rights);
        required(&redis_acl::url(server, user))
    })
}

mod redis {
    use super::*;
    static SERVER: LazyLock<Server> = LazyLock::new(|| server(Flavor::Redis));
    taketurns_conformance::tests!(Redis::with(|_| required(&SERVER.url())));
}

mod redis_limited {
    use super::*;
    static SERVER: LazyLock<Server> = LazyLock::new(|| server(Flavor::Redis));
    taketurns_conformance::tests!(limited(&SERVER));
}

mod valkey {
    use super::*;
    static SERVER: LazyLock<Server> = LazyLock::new(|| server(Flavor::Valkey));
    taketurns_conformance::tests!(Redis::with(|_| required(&SERVER.url())));
}

mod valkey_limited {
    use super::*;
    static SERVER: LazyLock<Server> = LazyLock::new(|| server(Flavor::Valkey));
    taketurns_conformance::tests!(limited(&SERVER));
}

mod redis_cluster {
    use super::*;
    static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| cluster(Flavor::Redis));
    taketurns_conformance::tests!(Redis::with(|_| required(&CLUSTER.url())));
}

mod valkey_cluster {
    use super::*;
    static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| cluster(Flavor::Valkey));
    taketurns_conformance::tests!(Redis::with(|_| required(&CLUSTER.url())));
}
