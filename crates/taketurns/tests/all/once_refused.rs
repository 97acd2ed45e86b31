//! Stores that have no once, and locks that can't stay taken there: each says why.

use std::time::Duration;

use taketurns::{Error, ErrorKind, Locks};
use taketurns_servers::{Flavor, Server};

use crate::support::patience::block_on;

fn says(error: &Error, why: &str) {
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains(why), "{error}");
}

async fn refuses(locks: &Locks, once: &str, at_least: &str) {
    says(&locks.once("l").begin().await.expect_err("no once"), once);
    says(&locks.once("l").try_begin().await.expect_err("no once"), once);
    says(&locks.once("l").undo().await.expect_err("no once"), once);
    let acquire = locks.mutex("l").acquire().at_least(Duration::from_secs(1));
    says(&acquire.await.expect_err("it can't stay taken"), at_least);
    locks.mutex("l").acquire().await.expect("a mutex").release().await.expect("held");
}

#[test]
fn a_quorum_has_no_once() {
    block_on(async {
        let locks =
            taketurns::connect("quorum:memory:o1,memory:o2,memory:o3").await.expect("a quorum");
        refuses(&locks, "a quorum has no once", "can't stay taken").await;
    });
}

#[test]
fn a_foreign_protocol_has_no_once() {
    let server = Server::start(Flavor::Redis).expect("a server");
    block_on(async {
        for protocol in ["plain", "fairqueue", "redturn", "zmutex", "python-redis-lock"] {
            let url = format!("{}?protocol={protocol}&unfenced=ok", server.url());
            let locks = taketurns::connect(&url).await.expect("a server");
            if protocol == "zmutex" {
                // Its locks are pools.
                says(&locks.once("l").begin().await.expect_err("no once"), "knows no once");
                continue;
            }
            refuses(&locks, "knows no once", "can't stay taken").await;
        }
    });
}
