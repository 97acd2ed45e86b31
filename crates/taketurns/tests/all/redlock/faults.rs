//! Nodes that are stopped, killed, or restarted empty.

use taketurns::ErrorKind;
use taketurns_servers::eventually;

use super::nodes::{LONG_LEASE, Nodes};
use crate::support::in_vain::in_vain;
use crate::support::patience::{block_on, soon};

#[test]
fn a_quorum_with_one_node_down_is_a_success_and_leaves_nothing_behind() {
    block_on(async {
        let nodes = Nodes::start(3);
        let locks = nodes.connect().await;
        nodes.servers[2].kill();
        for _ in 0..5 {
            let guard = soon("an acquire", locks.mutex("l").acquire().lease(LONG_LEASE)).await;
            let guard = guard.expect("a majority is there");
            assert!(soon("a try", locks.mutex("l").try_acquire()).await.expect("no").is_none());
            guard.release().await.expect("held");
        }
        (0..2).for_each(|node| nodes.nothing_is_left_on(node, "l"));
    });
}

#[test]
fn a_stopped_node_is_not_waited_for_and_keeps_nothing_once_it_goes_on() {
    block_on(async {
        let nodes = Nodes::start(3);
        let locks = nodes.connect().await;
        nodes.servers[1].pause();
        for _ in 0..3 {
            let guard = soon("an acquire", locks.mutex("l").acquire().lease(LONG_LEASE)).await;
            guard.expect("a majority is there").release().await.expect("held");
        }
        nodes.takes(0, "l");
        let tried = soon("a try", locks.mutex("l").try_acquire().lease(LONG_LEASE)).await;
        // One is free, one held, and one does not answer: a majority may be of either mind.
        assert!(matches!(&tried, Ok(None)), "{tried:?}");
        nodes.servers[1].resume();
        nodes.gives_back(0, "l");
        nodes.nothing_is_left("l");
    });
}

#[test]
fn with_a_majority_down_nothing_is_granted_or_left_on_the_others() {
    block_on(async {
        let nodes = Nodes::start(5);
        let locks = nodes.connect().await;
        (2..5).for_each(|node| nodes.servers[node].kill());
        let tried = soon("a try", locks.mutex("l").try_acquire().lease(LONG_LEASE)).await;
        let error = tried.expect_err("no majority");
        assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
        (0..2).for_each(|node| nodes.nothing_is_left_on(node, "l"));
        let mutex = locks.mutex("l");
        let error = in_vain(|within| mutex.acquire().lease(LONG_LEASE).within(within)).await;
        assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
        (0..2).for_each(|node| nodes.nothing_is_left_on(node, "l"));
    });
}

#[test]
fn a_node_restarted_empty_grants_nothing_while_an_old_lease_may_last() {
    block_on(async {
        let nodes = Nodes::start(3);
        let (locks, other) = (nodes.connect().await, nodes.connect().await);
        // A majority with node 1 in it, and without node 2.
        nodes.takes(2, "l");
        let acquire = locks.mutex("l").acquire().lease(LONG_LEASE);
        let guard = soon("an acquire", acquire).await.expect("two of three");
        nodes.gives_back(2, "l");
        nodes.servers[1].kill();
        nodes.servers[1].restart().expect("it comes back");
        for client in [&other, &nodes.connect().await] {
            let error = in_vain(|within| client.mutex("l").acquire().within(within)).await;
            let why = [ErrorKind::Timeout, ErrorKind::Quarantined, ErrorKind::NoQuorum];
            assert!(why.contains(&error.kind()), "{error}");
            assert_eq!(nodes.value(1, "l"), None, "it votes for nobody");
        }
        assert!(guard.is_held(), "nobody has renewed it, and nobody had to");
        guard.release().await.expect("held");
    });
}

#[test]
fn a_node_restarted_empty_does_not_help_a_newcomer_to_a_majority() {
    block_on(async {
        let nodes = Nodes::start(3);
        let locks = nodes.connect().await;
        nodes.takes(2, "l");
        let acquire = locks.mutex("l").acquire().lease(LONG_LEASE);
        let guard = soon("an acquire", acquire).await.expect("two of three");
        let handle = guard.into_handle().await.expect("held");
        nodes.gives_back(2, "l");
        // Nobody is connected who remembers.
        soon("the holder's client ends", locks.close()).await;
        nodes.servers[1].kill();
        nodes.servers[1].restart().expect("it comes back");
        let newcomer = nodes.connect().await;
        let tried = soon("a try", newcomer.mutex("l").try_acquire()).await;
        assert!(!matches!(tried, Ok(Some(_))), "two holders");
        assert_eq!(nodes.value(1, "l"), None, "it votes for nobody");
        // Only node 0 has it by now, which is no majority: whether it was held is answered by who is asked
        // first. It is given back in any case.
        let _ = soon("a release", newcomer.release(&handle)).await;
        eventually("node 0 has nothing", || nodes.value(0, "l").is_none().then_some(()))
            .expect("it is given back");
    });
}
