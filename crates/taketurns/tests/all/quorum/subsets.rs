//! Every set of nodes held by somebody else, who knows nothing of the quorum.

use taketurns::{ErrorKind, Handle, Locks};

use super::nodes::{LONG_LEASE, Nodes, nothing_is_left, seen};
use crate::support::in_vain::in_vain;
use crate::support::patience::{block_on, soon};
use crate::support::reach::every_set;

/// What somebody holds on one node.
struct Foreign<'a> {
    node: &'a Locks,
    handle: Handle,
}

impl Foreign<'_> {
    /// It is held as it was, and nobody else holds or waits.
    async fn is_untouched(&self, lock: &str) {
        let view = seen("only the foreigner", self.node, lock, |view| view.waiting == 0).await;
        let [holder] = &view.holders[..] else { panic!("{lock}: {view:?}") };
        assert_eq!(holder.token, Some(self.handle.token()), "{lock}");
        assert_eq!(holder.client, self.node.client_id(), "{lock}");
        self.node.renew(&self.handle, None).await.expect("it can be renewed");
    }
}

/// One set: bit `n` of `held` stands for node `n`.
async fn one_set(quorum: &Locks, nodes: &[Locks], held: usize) {
    let lock = format!("held-{held:05b}");
    let (mut foreign, mut free) = (Vec::new(), Vec::new());
    for (number, node) in nodes.iter().enumerate() {
        if held & (1 << number) == 0 {
            free.push(node.clone());
            continue;
        }
        let acquire = node.mutex(&lock).acquire().lease(LONG_LEASE);
        let handle = acquire.await.expect("free").into_handle().await.expect("held");
        foreign.push(Foreign { node, handle });
    }
    let can_be_had = free.len() > nodes.len() / 2;
    let all_is_well = async || {
        for foreign in &foreign {
            foreign.is_untouched(&lock).await;
        }
        nothing_is_left(&free, &lock).await;
    };

    let tried = quorum.mutex(&lock).try_acquire().lease(LONG_LEASE).await.expect("an answer");
    assert_eq!(tried.is_some(), can_be_had, "{lock}");
    if let Some(guard) = tried {
        guard.check().expect("held");
        guard.release().await.expect("held");
    }
    all_is_well().await;

    let mutex = quorum.mutex(&lock);
    if can_be_had {
        let guard = soon("an acquire", mutex.acquire().lease(LONG_LEASE)).await;
        let guard = guard.expect("a majority is free");
        guard.check().expect("held");
        guard.release().await.expect("held");
    } else {
        let error = in_vain(|within| mutex.acquire().lease(LONG_LEASE).within(within)).await;
        assert_eq!(error.kind(), ErrorKind::Timeout, "{lock}: {error}");
    }
    all_is_well().await;

    for Foreign { node, handle } in foreign {
        node.release(&handle).await.expect("still held");
    }
    let guard = quorum.mutex(&lock).try_acquire().lease(LONG_LEASE).await.expect("an answer");
    guard.expect("free everywhere").release().await.expect("held");
    nothing_is_left(nodes, &lock).await;
}

fn all_sets(count: usize) {
    block_on(async {
        let nodes = Nodes::start(count);
        let (quorum, each) = (nodes.connect_for_long().await, nodes.each().await);
        every_set(count, |held| {
            let (quorum, each) = (quorum.clone(), each.clone());
            async move { one_set(&quorum, &each, held).await }
        })
        .await;
    });
}

#[test]
fn of_four_nodes_every_set_may_be_held_by_others() {
    all_sets(4);
}

#[test]
fn of_five_nodes_every_set_may_be_held_by_others() {
    all_sets(5);
}
