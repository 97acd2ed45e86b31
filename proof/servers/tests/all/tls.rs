//! TLS with the private authority, by a client that trusts nothing else.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use taketurns_servers::{Certificates, Flavor, PATIENCE, Server, ServerReply, on_both};

fn certificate(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).expect("a certificate")
}

/// Says PING over TLS, and returns what comes back.
fn ping(
    port: u16,
    trusted: &Certificates,
    shown: Option<&Certificates>,
    name: &str,
) -> io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate(&trusted.ca())).expect("an authority");
    let config =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
    let config = match shown {
        None => config.with_no_client_auth(),
        Some(shown) => {
            let key = PrivateKeyDer::from_pem_file(shown.client_key()).expect("a key");
            let chain = vec![certificate(&shown.client_cert())];
            config.with_client_auth_cert(chain, key).expect("a client certificate")
        }
    };
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut stream = StreamOwned::new(connection, stream);
    stream.write_all(b"PING\r\n")?;
    let mut reply = [0; 7];
    stream.read_exact(&mut reply)?;
    Ok(String::from_utf8_lossy(&reply).into_owned())
}

on_both! {
    fn only_those_who_trust_the_authority_connect(flavor: Flavor) {
        let [ours, other] = [(); 2].map(|()| Certificates::new().expect("certificates"));
        let server = Server::builder(flavor).tls(&ours).start().expect("a server");
        let port = server.tls_port().expect("a port for TLS");
        assert_eq!(server.url(), format!("rediss://127.0.0.1:{port}"));
        assert_ne!(server.port(), port);
        assert_eq!(server.cli(&["PING"]).text(), Some("PONG"), "the plain port works too");
        for name in ["127.0.0.1", "localhost"] {
            assert_eq!(ping(port, &ours, None, name).expect("a reply"), "+PONG\r\n");
        }
        ping(port, &ours, None, "example.org").expect_err("that is not its name");
        ping(port, &other, None, "localhost").expect_err("that is not its authority");
    }

    fn a_certificate_may_be_of_another_name_or_too_old(flavor: Flavor) {
        let elsewhere = Certificates::of_name("elsewhere.example").expect("certificates");
        let server = Server::builder(flavor).tls(&elsewhere).start().expect("a server");
        let port = server.tls_port().expect("a port for TLS");
        let reply = ping(port, &elsewhere, None, "elsewhere.example").expect("a reply");
        assert_eq!(reply, "+PONG\r\n");
        ping(port, &elsewhere, None, "localhost").expect_err("that is not its name");
        let old = Certificates::expired().expect("certificates");
        let server = Server::builder(flavor).tls(&old).start().expect("a server");
        let port = server.tls_port().expect("a port for TLS");
        let error = ping(port, &old, None, "localhost").expect_err("it is too old");
        assert!(error.to_string().contains("expired"), "{error}");
    }

    fn clients_show_a_certificate_if_they_must(flavor: Flavor) {
        let [ours, other] = [(); 2].map(|()| Certificates::new().expect("certificates"));
        let server = Server::builder(flavor)
            .tls(&ours)
            .tls_auth_clients(true)
            .start()
            .expect("a server");
        let port = server.tls_port().expect("a port for TLS");
        assert_eq!(ping(port, &ours, Some(&ours), "localhost").expect("a reply"), "+PONG\r\n");
        ping(port, &ours, None, "localhost").expect_err("it shows none");
        ping(port, &ours, Some(&other), "localhost").expect_err("it is another authority's");
    }

    fn there_may_be_no_other_port(flavor: Flavor) {
        let ours = Certificates::new().expect("certificates");
        let server = Server::builder(flavor).tls(&ours).tls_only().start().expect("a server");
        assert_eq!(Some(server.port()), server.tls_port());
        assert_eq!(ping(server.port(), &ours, None, "localhost").expect("a reply"), "+PONG\r\n");
        assert!(!matches!(server.try_cli(&["PING"]), Ok(ServerReply::Simple(_))));
        server.kill();
        server.restart().expect("a restart");
        assert_eq!(ping(server.port(), &ours, None, "localhost").expect("a reply"), "+PONG\r\n");
    }
}
