//! TLS, with certificates made on the spot.

use taketurns_servers::{Certificates, Flavor, Server};

use super::party::{CHANNEL, Party, assert_broken, refused};
use super::server::{ask, connections, until};
use crate::engine::EngineError;

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_with_both_sides_certified() {
    let files = Certificates::new().expect("certificates");
    let server = Server::builder(Flavor::Redis).tls(&files).tls_auth_clients(true).start();
    let server = server.expect("a server");
    let port = server.tls_port().expect("a port for TLS");
    let [ca, cert, key] = [files.ca(), files.client_cert(), files.client_key()]
        .map(|path| path.display().to_string());
    let url = format!("rediss://127.0.0.1:{port}?ca={ca}&cert={cert}&key={key}");
    let mut party = Party::open(&url).await.unwrap();
    ask(&server, &["PUBLISH", CHANNEL, "sealed"]);
    assert_eq!(party.heard().await, b"sealed");
    party.router.close().await;
    until("the server has no connection", || connections(&server) == 0);

    // Its authority is not one that this machine trusts, or there is none at all.
    let stranger = refused(&format!("rediss://127.0.0.1:{port}")).await;
    assert!(matches!(stranger, EngineError::Broken(_)), "{stranger:?}");
    let unnamed = refused(&format!("rediss://127.0.0.1:{port}?ca={ca}")).await;
    assert!(matches!(unnamed, EngineError::Unreachable(_) | EngineError::Broken(_)), "{unnamed:?}");
    let plain = refused(&format!("redis://127.0.0.1:{port}")).await;
    assert!(matches!(&plain, EngineError::Unreachable(why) if why.contains("rediss")), "{plain:?}");
    let sealed = refused(&format!("rediss://127.0.0.1:{}?ca={ca}", server.port())).await;
    assert!(
        matches!(&sealed, EngineError::Unreachable(why) if why.contains("TLS port")),
        "{sealed:?}"
    );
    assert_broken(&refused(&format!("rediss://127.0.0.1:{port}?ca=/none")).await, "/none");
}
