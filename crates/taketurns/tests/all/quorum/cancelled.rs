//! Futures that are dropped at any point, and clients that go: nothing of them stays on any node.

use super::nodes::{LONG_LEASE, Nodes, nothing_is_left};
use crate::support::dropped::{LOCKS, comes_free, drop_at_any_moment};
use crate::support::patience::{block_on, soon};

#[test]
fn whatever_is_dropped_leaves_nothing_on_any_node() {
    block_on(async {
        let nodes = Nodes::start(5);
        let clients = [
            nodes.connect_for_long().await,
            nodes.connect_for_long().await,
            nodes.connect_for_long().await,
        ];
        drop_at_any_moment(&clients, LONG_LEASE).await;
        let each = nodes.each().await;
        for lock in LOCKS {
            nothing_is_left(&each, lock).await;
            comes_free(&clients[0], lock).await;
        }
    });
}

#[test]
fn a_client_that_goes_takes_what_it_has_along() {
    block_on(async {
        let nodes = Nodes::start(5);
        let (one, two) = (nodes.connect_for_long().await, nodes.connect_for_long().await);
        let each = nodes.each().await;
        let guard = one.mutex("l").acquire().lease(LONG_LEASE).await.expect("free");
        let waits = tokio::spawn(two.mutex("l").acquire().lease(LONG_LEASE).into_future());
        super::nodes::seen("it waits", &one, "l", |view| view.waiting == 1).await;
        waits.abort();
        drop(waits.await);
        drop(guard);
        soon("one ends", one.close()).await;
        soon("the other ends", two.close()).await;
        nothing_is_left(&each, "l").await;
    });
}
