//! Locks that go from one client to the next as handles.

use std::time::Duration;

use taketurns::{ErrorKind, Handle, Locks};
use taketurns_servers::{Proxy, Server};

use super::nodes::{Nodes, connect, seen};
use crate::support::patience::{block_on, soon};
use crate::support::reach::reaches_all;

/// A third of it is longer than any test waits.
const LONG: Duration = Duration::from_secs(300);

async fn handle(locks: &Locks, lease: Duration) -> Handle {
    let guard = locks.mutex("l").acquire().lease(lease).await.expect("free");
    guard.into_handle().await.expect("held")
}

#[test]
fn an_adopter_is_told_at_once_that_its_lock_was_broken() {
    block_on(async {
        let nodes = Nodes::start(3);
        let (one, two) = (nodes.connect().await, nodes.connect().await);
        let guard = two.adopt(handle(&one, LONG).await).await.expect("held");
        assert_eq!(one.break_lock("l").await.expect("an answer"), 1);
        soon("it is told", guard.lost()).await;
        guard.check().expect_err("broken");
    });
}

#[test]
fn a_handle_is_of_use_again_once_a_majority_is_there_again() {
    block_on(async {
        let nodes = Nodes::start(3);
        let (one, two) = (nodes.connect().await, nodes.connect().await);
        let handle = handle(&one, LONG).await;
        nodes.servers[..2].iter().for_each(Server::pause);
        let error = two.renew(&handle, None).await.expect_err("one node of three");
        assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
        nodes.servers[..2].iter().for_each(Server::resume);
        soon("it is renewed", async {
            while let Err(error) = two.renew(&handle, None).await {
                assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
        two.release(&handle).await.expect("held");
    });
}

#[test]
fn what_was_released_while_a_majority_was_missing_was_released() {
    block_on(async {
        let nodes = Nodes::start(3);
        let start = |server: &Server| Proxy::start(server.port()).expect("a proxy");
        let proxies: Vec<Proxy> = nodes.servers.iter().map(start).collect();
        let locks = connect(&nodes.url_of(proxies.iter().map(Proxy::url))).await;
        reaches_all(&locks, &nodes.servers).await;
        let guard = locks.mutex("l").acquire().lease(LONG).await.expect("free");
        for proxy in &proxies[..2] {
            proxy.refuse(true).expect("a port");
            proxy.cut();
        }
        let releases = tokio::spawn(guard.release().into_future());
        seen("one node has heard", &nodes.direct(2).await, "l", |view| view.holders.is_empty())
            .await;
        for proxy in &proxies[..2] {
            proxy.refuse(false).expect("the same port");
        }
        soon("it is released", releases).await.expect("no panic").expect("it was held");
    });
}

#[test]
fn what_another_client_released_is_not_granted_by_a_node_that_hears_of_it_late() {
    is_not_granted_late(false);
}

#[test]
fn what_another_client_adopted_and_released_is_not_granted_by_a_node_that_hears_of_it_late() {
    is_not_granted_late(true);
}

fn is_not_granted_late(is_adopted: bool) {
    block_on(async {
        let nodes = Nodes::start(3);
        let start = |server: &Server| Proxy::start(server.port()).expect("a proxy");
        let proxies: Vec<Proxy> = nodes.servers.iter().map(start).collect();
        let url = nodes.url_of(proxies.iter().map(Proxy::url));
        let (one, two) = (connect(&url).await, connect(&url).await);
        reaches_all(&one, &nodes.servers).await;
        reaches_all(&two, &nodes.servers).await;
        proxies[2].delay(Duration::from_secs(1));
        let handle = handle(&one, LONG).await;
        // On its own connection the other one's release comes first.
        proxies[2].delay(Duration::ZERO);
        if is_adopted {
            two.adopt(handle).await.expect("held").release().await.expect("held");
        } else {
            two.release(&handle).await.expect("held");
        }
        let after = one.mutex("after").acquire().lease(LONG).await.expect("free");
        let late = nodes.direct(2).await;
        seen("the node heard what was sent before", &late, "after", |view| {
            !view.holders.is_empty()
        })
        .await;
        seen("nobody holds it there", &late, "l", |view| view.holders.is_empty()).await;
        after.release().await.expect("held");
    });
}
