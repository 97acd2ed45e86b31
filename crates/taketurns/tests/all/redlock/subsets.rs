//! Every set of nodes held by a foreign client, who knows nothing of us.

use std::sync::Arc;

use taketurns::{ErrorKind, Locks};

use super::nodes::{LONG_LEASE, Nodes};
use crate::support::in_vain::in_vain;
use crate::support::patience::{block_on, soon};
use crate::support::reach::every_set;

/// One set: bit `n` of `held` stands for node `n`.
async fn one_set(nodes: &Nodes, locks: &Locks, held: usize) {
    let lock = format!("held-{held:05b}");
    let count = nodes.servers.len();
    let (foreign, free): (Vec<usize>, Vec<usize>) =
        (0..count).partition(|node| held & (1 << node) > 0);
    foreign.iter().for_each(|node| nodes.takes(*node, &lock));
    let can_be_had = free.len() > count / 2;
    let all_is_well = || {
        foreign.iter().for_each(|node| assert!(nodes.is_foreign(*node, &lock), "{lock}"));
        nodes.nothing_is_left(&lock);
    };

    let tried = soon("a try", locks.mutex(&lock).try_acquire().lease(LONG_LEASE)).await;
    let tried = tried.expect("an answer");
    assert_eq!(tried.is_some(), can_be_had, "{lock}");
    if let Some(guard) = tried {
        assert!(nodes.ours(&lock) > count / 2);
        guard.release().await.expect("held");
    }
    all_is_well();

    if can_be_had {
        let guard = soon("an acquire", locks.mutex(&lock).acquire().lease(LONG_LEASE)).await;
        guard.expect("a majority is free").release().await.expect("held");
    } else {
        let mutex = locks.mutex(&lock);
        let error = in_vain(|within| mutex.acquire().lease(LONG_LEASE).within(within)).await;
        assert_eq!(error.kind(), ErrorKind::Timeout, "{lock}: {error}");
    }
    all_is_well();

    for node in foreign {
        nodes.gives_back(node, &lock);
    }
    let guard = soon("a try", locks.mutex(&lock).try_acquire().lease(LONG_LEASE)).await;
    guard.expect("an answer").expect("free everywhere").release().await.expect("held");
    nodes.nothing_is_left(&lock);
}

fn all_sets(count: usize) {
    block_on(async {
        let nodes = Arc::new(Nodes::start(count));
        let locks = nodes.connect().await;
        every_set(count, |held| {
            let (nodes, locks) = (nodes.clone(), locks.clone());
            async move { one_set(&nodes, &locks, held).await }
        })
        .await;
    });
}

#[test]
fn of_three_nodes_every_set_may_be_held_by_foreign_clients() {
    all_sets(3);
}

#[test]
fn of_four_nodes_every_set_may_be_held_by_foreign_clients() {
    all_sets(4);
}

#[test]
fn of_five_nodes_every_set_may_be_held_by_foreign_clients() {
    all_sets(5);
}
