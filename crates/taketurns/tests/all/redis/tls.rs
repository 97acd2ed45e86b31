//! TLS that must not be trusted is refused, and each refusal says why. That it works where it should,
//! the conformance suite shows.

use taketurns::{Error, ErrorKind};
use taketurns_servers::{Certificates, Flavor, PATIENCE, Server, on_both};

fn certificates() -> Certificates {
    Certificates::new().expect("certificates")
}

/// Connects, does one turn, and closes.
fn turn(url: &str) -> Result<(), Error> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let turn = async {
            let locks = taketurns::connect(url).await?;
            locks.mutex("l").acquire().await?.release().await?;
            locks.close().await;
            Ok(())
        };
        tokio::time::timeout(PATIENCE, turn).await.expect("it does not hang")
    })
}

#[track_caller]
fn is_refused(url: &str, kind: ErrorKind, piece: &str) {
    let error = turn(url).expect_err("it must not be trusted");
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(piece), "{piece:?} is not said: {error}");
}

on_both! {
    fn a_server_of_another_authority_is_refused(flavor: Flavor) {
        let [ours, other] = [certificates(), certificates()];
        let server = Server::builder(flavor).tls(&ours).start().expect("a server");
        let url = |ca: &Certificates| format!("{}?ca={}", server.url(), ca.ca().display());
        turn(&url(&ours)).expect("trusted");
        is_refused(&url(&other), ErrorKind::Store, "is not accepted by TLS");
        // By the machine's own authorities it is not known either.
        is_refused(&server.url(), ErrorKind::Store, "ca=");
    }

    fn a_server_of_another_name_is_refused(flavor: Flavor) {
        let elsewhere = Certificates::of_name("elsewhere.example").expect("certificates");
        let server = Server::builder(flavor).tls(&elsewhere).start().expect("a server");
        let url = format!("{}?ca={}", server.url(), elsewhere.ca().display());
        is_refused(&url, ErrorKind::Store, "not valid for name");
    }

    fn a_certificate_that_is_too_old_is_refused(flavor: Flavor) {
        let old = Certificates::expired().expect("certificates");
        let server = Server::builder(flavor).tls(&old).start().expect("a server");
        let url = format!("{}?ca={}", server.url(), old.ca().display());
        is_refused(&url, ErrorKind::Store, "expired");
    }

    fn a_client_without_the_certificate_that_is_wanted_is_told(flavor: Flavor) {
        let [ours, other] = [certificates(), certificates()];
        let server = Server::builder(flavor).tls(&ours).tls_auth_clients(true);
        let server = server.start().expect("a server");
        let url = format!("{}?ca={}", server.url(), ours.ca().display());
        let shown = |shown: &Certificates| {
            let (cert, key) = (shown.client_cert(), shown.client_key());
            format!("{url}&cert={}&key={}", cert.display(), key.display())
        };
        turn(&shown(&ours)).expect("both are trusted");
        is_refused(&url, ErrorKind::Unreachable, "TLS");
        is_refused(&shown(&other), ErrorKind::Unreachable, "TLS");
        // Half of a pair, and two halves of different pairs.
        let cert = format!("{url}&cert={}", ours.client_cert().display());
        is_refused(&cert, ErrorKind::InvalidUrl, "cert and key");
        let pair = format!("{cert}&key={}", other.client_key().display());
        is_refused(&pair, ErrorKind::Store, "do not go together");
    }

    fn a_port_without_tls_is_told_from_one_with_it(flavor: Flavor) {
        let ours = certificates();
        let server = Server::builder(flavor).tls(&ours).start().expect("a server");
        let plain = format!("redis://127.0.0.1:{}", server.port());
        turn(&plain).expect("without TLS");
        let sealed = format!("rediss://127.0.0.1:{}?ca={}", server.port(), ours.ca().display());
        is_refused(&sealed, ErrorKind::Unreachable, "is it a TLS port?");
        let port = server.tls_port().expect("a port for TLS");
        is_refused(&format!("redis://127.0.0.1:{port}"), ErrorKind::Unreachable, "rediss");
    }
}
