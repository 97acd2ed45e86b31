//! TLS, with certificates made on the spot.

use std::path::Path;
use std::process::{Command, Stdio};

use super::party::{CHANNEL, Party, assert_broken, refused};
use super::server::{Server, free_port, until};
use crate::engine::EngineError;

fn openssl(directory: &Path, words: &str) {
    let status = Command::new("openssl")
        .args(words.split(' '))
        .current_dir(directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "openssl {words}");
}

/// An authority, and a certificate by it for 127.0.0.1, which serves as a client's too.
fn certificates(directory: &Path) {
    openssl(
        directory,
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=ca",
    );
    openssl(directory, "req -newkey rsa:2048 -nodes -keyout key.pem -out request -subj /CN=server");
    std::fs::write(directory.join("extensions"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    openssl(
        directory,
        "x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -days 2 \
         -extfile extensions",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_with_both_sides_certified() {
    let files = tempfile::tempdir().unwrap();
    certificates(files.path());
    let file = |name: &str| files.path().join(name).display().to_string();
    let (port, cert, key, ca) = (free_port(), file("cert.pem"), file("key.pem"), file("ca.pem"));
    let server = Server::start(
        "redis-server",
        &[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &cert,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &ca,
        ],
    );
    let url = format!("rediss://127.0.0.1:{port}?ca={ca}&cert={cert}&key={key}");
    let mut party = Party::open(&url).await.unwrap();
    server.ask::<i64>(&["PUBLISH", CHANNEL, "sealed"]);
    assert_eq!(party.heard().await, b"sealed");
    party.net.close().await;
    until("the server has no connection", || server.connections() == 0);

    // Its authority is not one that this machine trusts, or there is none at all.
    let stranger = refused(&format!("rediss://127.0.0.1:{port}")).await;
    assert!(matches!(stranger, EngineError::Broken(_)), "{stranger:?}");
    let unnamed = refused(&format!("rediss://127.0.0.1:{port}?ca={ca}")).await;
    assert!(matches!(unnamed, EngineError::Unreachable(_) | EngineError::Broken(_)), "{unnamed:?}");
    let plain = refused(&format!("redis://127.0.0.1:{port}")).await;
    assert!(matches!(&plain, EngineError::Unreachable(why) if why.contains("rediss")), "{plain:?}");
    let sealed = refused(&format!("rediss://127.0.0.1:{}?ca={ca}", server.port)).await;
    assert!(
        matches!(&sealed, EngineError::Unreachable(why) if why.contains("TLS port")),
        "{sealed:?}"
    );
    assert_broken(&refused(&format!("rediss://127.0.0.1:{port}?ca=/none")).await, "/none");
}
