//! Whatever is dropped, at any point, leaves nothing on any node.

use std::time::Duration;

use super::nodes::{LONG_LEASE, Nodes};
use crate::support::dropped::{LOCKS, comes_free, drop_at_any_moment};
use crate::support::patience::{block_on, soon};

#[test]
fn clean_up_does_not_end_with_the_acquire_that_was_dropped() {
    block_on(async {
        let nodes = Nodes::start(5);
        let clients = [nodes.connect().await, nodes.connect().await, nodes.connect().await];
        drop_at_any_moment(&clients, LONG_LEASE).await;
        for lock in LOCKS {
            nodes.nothing_is_left(lock);
            comes_free(&clients[0], lock).await;
        }
    });
}

#[test]
fn a_client_that_goes_takes_what_it_has_along() {
    block_on(async {
        let nodes = Nodes::start(3);
        let (one, two) = (nodes.connect().await, nodes.connect().await);
        let guard = one.mutex("l").acquire().lease(LONG_LEASE).await.expect("free");
        let waits = tokio::spawn(two.mutex("l").acquire().lease(LONG_LEASE).into_future());
        // It has failed at least once by then, or is about to.
        tokio::time::sleep(Duration::from_millis(50)).await;
        waits.abort();
        drop(waits.await);
        drop(guard);
        soon("one ends", one.close()).await;
        soon("the other ends", two.close()).await;
        nodes.nothing_is_left("l");
    });
}
