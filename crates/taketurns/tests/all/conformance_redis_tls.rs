//! The conformance suite over TLS with a private authority, where both sides show a certificate.

use std::sync::LazyLock;

use taketurns_servers::{Certificates, Flavor, Server};

use crate::support::redis_fixture::Redis;

/// A server that talks to nobody without a certificate, and the URL that shows one.
struct Sealed {
    url: String,
    /// Kept, since the server and its clients read them.
    _parts: (Server, Certificates),
}

impl Sealed {
    fn start(flavor: Flavor) -> Self {
        let certificates = Certificates::new().expect("certificates");
        let server = Server::builder(flavor).tls(&certificates).tls_auth_clients(true).tls_only();
        let server = server.start().expect("a server");
        let url = format!(
            "{}?ca={}&cert={}&key={}",
            server.url(),
            certificates.ca().display(),
            certificates.client_cert().display(),
            certificates.client_key().display()
        );
        Self { url, _parts: (server, certificates) }
    }
}

mod redis {
    use super::*;
    static SEALED: LazyLock<Sealed> = LazyLock::new(|| Sealed::start(Flavor::Redis));
    taketurns_conformance::tests!(Redis::with(|_| SEALED.url.clone()));
}

mod valkey {
    use super::*;
    static SEALED: LazyLock<Sealed> = LazyLock::new(|| Sealed::start(Flavor::Valkey));
    taketurns_conformance::tests!(Redis::with(|_| SEALED.url.clone()));
}
