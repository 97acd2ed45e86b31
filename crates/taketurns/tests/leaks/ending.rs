//! The end of a client, and what its acquires give up as it ends.

use std::time::Duration;

use taketurns::{Connect, Locks};
use taketurns_servers::{Flavor, PATIENCE, Proxy, Server, on_both};

use crate::{alone, runtime};

/// Waits until the lock `l` has `count` waiters.
async fn waiting(locks: &Locks, count: usize) {
    let counted = tokio::time::timeout(PATIENCE, async {
        while locks.inspect("l").await.expect("an answer").expect("it is held").waiting != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    counted.await.unwrap_or_else(|_| panic!("{count} never wait"));
}

on_both! {
    fn a_client_ends_after_what_its_acquires_give_up_as_it_does(flavor: Flavor) {
        let _alone = alone();
        let server = Server::start(flavor).expect("a server");
        let proxy = Proxy::start(server.port()).expect("a proxy");
        runtime(2).block_on(async {
            let other = taketurns::connect(&server.url()).await.expect("a server");
            let guard = other.mutex("l").acquire().await.expect("free");
            // A place that was left behind would stay for a minute.
            let leaves = Connect::new(&proxy.url()).waiter_lease(Duration::from_secs(60));
            let leaves = leaves.open().await.expect("a server");
            let waits = tokio::spawn(leaves.mutex("l").acquire().into_future());
            waiting(&other, 1).await;
            // An answer takes longer than a client needs to end without it.
            proxy.delay(Duration::from_millis(100));
            drop(leaves);
            waits.abort();
            waiting(&other, 0).await;
            guard.release().await.expect("held");
            other.close().await;
        });
    }
}
