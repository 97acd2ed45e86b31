//! The conformance suite where a server gives away as little as it can: over TLS with a private authority,
//! where both sides show a certificate, as a user who has no right but those that SECURITY.md names.

use std::sync::LazyLock;

use taketurns_servers::{Certificates, Flavor, Server};

use crate::support::redis_acl;
use crate::support::redis_fixture::Redis;

/// A server whose TLS port talks to nobody without a certificate.
struct Sealed {
    server: Server,
    certificates: Certificates,
}

impl Sealed {
    fn start(flavor: Flavor) -> Self {
        let certificates = Certificates::new().expect("certificates");
        let server = Server::builder(flavor).tls(&certificates).tls_auth_clients(true);
        Self { server: server.start().expect("a server"), certificates }
    }

    /// A fixture with a user of its own, who may use its prefix and nothing else.
    fn fixture(&self) -> Redis {
        let Self { server, certificates } = self;
        Redis::with(|prefix| {
            let user = prefix.trim_end_matches(':');
            redis_acl::set_user(server, user, prefix, &redis_acl::COMMANDS);
            format!(
                "{}?ca={}&cert={}&key={}",
                redis_acl::url(server, user),
                certificates.ca().display(),
                certificates.client_cert().display(),
                certificates.client_key().display()
            )
        })
    }
}

mod redis {
    use super::*;
    static SEALED: LazyLock<Sealed> = LazyLock::new(|| Sealed::start(Flavor::Redis));
    taketurns_conformance::tests!(SEALED.fixture());
}

mod valkey {
    use super::*;
    static SEALED: LazyLock<Sealed> = LazyLock::new(|| Sealed::start(Flavor::Valkey));
    taketurns_conformance::tests!(SEALED.fixture());
}
