//! Holding: renewed by a majority, lost for good, carried elsewhere, waited for.

use std::time::Duration;

use taketurns::{Handle, LossCause};
use taketurns_servers::eventually;

use super::nodes::{LONG_LEASE, Nodes};
use crate::support::patience::{block_on, soon};

const SHORT: Duration = Duration::from_secs(3);

#[test]
fn a_majority_extends_a_lease_and_a_lost_key_is_not_created_anew() {
    block_on(async {
        let nodes = Nodes::start(3);
        let (_locks, guard) = nodes.held_by_all("l", SHORT).await;
        nodes.servers[0].cli(&["DEL", "l"]);
        // Longer than it is held without renewals.
        tokio::time::sleep(SHORT).await;
        assert!(guard.is_held(), "by the other two");
        assert_eq!(nodes.value(0, "l"), None, "what is lost stays lost");
        guard.release().await.expect("held");
        nodes.nothing_is_left("l");
    });
}

#[test]
fn a_failed_extension_says_lost_and_releases_what_is_left() {
    block_on(async {
        let nodes = Nodes::start(3);
        let (_locks, guard) = nodes.held_by_all("l", LONG_LEASE).await;
        for node in 0..2 {
            nodes.gives_back(node, "l");
            nodes.takes(node, "l");
        }
        // As a renewal that comes at its time would.
        let handle = guard.into_handle().await.expect_err("the renewal that it takes fails");
        assert_eq!(handle.kind(), taketurns::ErrorKind::Lost, "{handle}");
        (0..2).for_each(|node| {
            assert!(nodes.is_foreign(node, "l"), "a foreign client's is left alone")
        });
        nodes.nothing_is_left("l");
    });
}

#[test]
fn a_guard_is_told_that_its_lock_was_taken_away() {
    block_on(async {
        let nodes = Nodes::start(3);
        let (_locks, guard) = nodes.held_by_all("l", SHORT).await;
        for node in 0..2 {
            nodes.servers[node].cli(&["DEL", "l"]);
        }
        // That is how foreign clients break a lock. What is left of it ends with its lease.
        let cause = soon("it is told", guard.lost()).await;
        // Whichever is heard first, of a wake-up and a renewal that finds nothing.
        assert!(matches!(cause, LossCause::Revoked | LossCause::Gone), "{cause:?}");
        nodes.nothing_is_left("l");
    });
}

#[test]
fn a_handle_is_good_in_another_client() {
    block_on(async {
        let nodes = Nodes::start(3);
        let (here, there) = (nodes.connect().await, nodes.connect().await);
        let acquire = here.mutex("l").acquire().lease(LONG_LEASE);
        let guard = soon("an acquire", acquire).await.expect("free");
        let text = guard.into_handle().await.expect("held").expose();
        let handle = Handle::parse(&text).expect("its own form");
        there.renew(&handle, None).await.expect("held");
        there.release(&handle).await.expect("held");
        nodes.nothing_is_left("l");
        assert!(there.renew(&handle, None).await.is_err(), "it is never brought back");
        nodes.nothing_is_left("l");
    });
}

#[test]
fn what_was_won_in_vain_is_left_to_others_while_it_is_waited_for() {
    block_on(async {
        let nodes = Nodes::start(3);
        let locks = nodes.connect().await;
        (0..2).for_each(|node| nodes.takes(node, "l"));
        let waits = tokio::spawn(locks.mutex("l").acquire().lease(LONG_LEASE).into_future());
        eventually("it tries", || (nodes.ours("l") == 1).then_some(())).expect("node 2 is free");
        eventually("the foreign client gets the last one, too", || {
            nodes.servers[2]
                .cli(&["SET", "l", "another's", "NX", "PX", "600000"])
                .is_ok()
                .then_some(())
        })
        .expect("it is given back between two rounds");
        assert!(!waits.is_finished());
        waits.abort();
    });
}

#[test]
fn a_waiter_gets_it_from_a_foreign_client_and_from_ours() {
    block_on(async {
        let nodes = Nodes::start(3);
        let (one, two) = (nodes.connect().await, nodes.connect().await);
        (0..2).for_each(|node| nodes.takes(node, "l"));
        let waits = tokio::spawn(one.mutex("l").acquire().lease(LONG_LEASE).into_future());
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!waits.is_finished());
        (0..2).for_each(|node| nodes.gives_back(node, "l"));
        let guard = soon("the foreign client's", waits).await.expect("no panic").expect("free");
        let waits = tokio::spawn(two.mutex("l").acquire().lease(LONG_LEASE).into_future());
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!waits.is_finished());
        guard.release().await.expect("held");
        let guard = soon("ours", waits).await.expect("no panic").expect("free");
        guard.release().await.expect("held");
        nodes.nothing_is_left("l");
    });
}
