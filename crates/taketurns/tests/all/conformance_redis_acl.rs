//! The conformance suite as a user who has no right on the server but those that SECURITY.md names.

use taketurns_servers::Flavor;

use crate::support::redis_fixture::Redis;
use crate::support::{redis_acl, shared};

/// A fixture with a user of its own, who may use its prefix and nothing else.
fn limited(flavor: Flavor) -> Redis {
    let server = shared::server(flavor);
    Redis::with(|prefix| {
        let user = prefix.trim_end_matches(':');
        redis_acl::set_user(server, user, prefix, &redis_acl::COMMANDS);
        redis_acl::url(server, user)
    })
}

mod redis {
    use super::*;
    taketurns_conformance::tests!(limited(Flavor::Redis));
}

mod valkey {
    use super::*;
    taketurns_conformance::tests!(limited(Flavor::Valkey));
}
