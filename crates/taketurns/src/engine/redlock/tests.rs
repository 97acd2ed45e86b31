//! Redlocks of nodes in this process.

use std::time::Duration;

use taketurns_servers::PATIENCE;

use super::super::MemoryStore;
use super::super::nodes::NodeList;
use super::OpenRedlock;
use crate::{Connect, Locks};

/// A third of it is longer than any test waits.
const LONG: Duration = Duration::from_secs(600);

/// Nodes that nobody else has.
struct NodeSet(Vec<String>);

impl NodeSet {
    fn new(count: usize) -> Self {
        let id = crate::random::bits64();
        Self((0..count).map(|node| format!("{id:x}-{node}")).collect())
    }

    async fn connect(&self) -> Locks {
        self.connect_to(true).await
    }

    async fn connect_to(&self, unfenced: bool) -> Locks {
        let urls: Vec<String> = self.0.iter().map(|name| format!("memory:{name}")).collect();
        let members = NodeList::parse(&urls.join(",")).expect("nodes");
        Connect::engine(OpenRedlock::new(members, unfenced)).open().await.expect("a store")
    }

    /// Nobody holds it, on any node.
    async fn are_free(&self, lock: &str) {
        for name in &self.0 {
            let node = Connect::engine(MemoryStore::named(name)).open().await.expect("a store");
            let view = node.inspect(lock).await.expect("a store").unwrap_or_default();
            assert!(view.holders.is_empty(), "{view:?}");
        }
    }
}

#[tokio::test]
async fn a_lock_has_one_holder_at_a_time_and_waiters_get_it() {
    let nodes = NodeSet::new(5);
    let (first, second) = (nodes.connect().await, nodes.connect().await);
    let guard = first.mutex("a").acquire().await.expect("free");
    assert_eq!(guard.token(), crate::Token::UNFENCED);
    assert!(second.mutex("a").try_acquire().await.expect("an answer").is_none());
    let waits = tokio::spawn(second.mutex("a").acquire().into_future());
    tokio::time::sleep(Duration::from_millis(50)).await;
    guard.release().await.expect("held");
    waits.await.expect("no panic").expect("free").release().await.expect("held");
}

#[tokio::test]
async fn tasks_of_one_client_go_in_order() {
    let nodes = NodeSet::new(3);
    let (locks, other) = (nodes.connect().await, nodes.connect().await);
    let guard = other.mutex("a").acquire().await.expect("free");
    let (sender, mut turns) = tokio::sync::mpsc::unbounded_channel();
    for task in 0..5 {
        let (mutex, sender) = (locks.mutex("a"), sender.clone());
        tokio::spawn(async move {
            let guard = mutex.acquire().await.expect("it waits for as long as it takes");
            sender.send(task).expect("somebody counts");
            guard.release().await.expect("held");
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    guard.release().await.expect("held");
    for task in 0..5 {
        assert_eq!(turns.recv().await, Some(task));
    }
}

#[tokio::test]
async fn a_handle_that_others_renew_is_good_here_too() {
    let nodes = NodeSet::new(3);
    let (here, there) = (nodes.connect().await, nodes.connect().await);
    let lease = Duration::from_secs(2);
    let guard = here.mutex("a").acquire().lease(lease).await.expect("free");
    let handle = guard.into_handle().await.expect("held");
    let elsewhere = crate::Handle::parse(&handle.expose()).expect("its own form");
    // Nothing renews it here, and what was known here is over.
    there.renew(&elsewhere, Some(Duration::from_secs(60))).await.expect("held");
    tokio::time::sleep(lease).await;
    here.renew(&handle, None).await.expect("held still");
    here.release(&handle).await.expect("held");
}

#[tokio::test]
async fn the_holder_is_told_that_its_lock_was_broken() {
    let nodes = NodeSet::new(3);
    let (here, there) = (nodes.connect().await, nodes.connect().await);
    let guard = here.mutex("a").acquire().lease(LONG).await.expect("free");
    there.break_lock("a").await.expect("broken");
    // Long before the next renewal.
    let lost = tokio::time::timeout(PATIENCE, guard.lost()).await;
    assert_eq!(lost.expect("told"), crate::LossCause::Revoked);
}

#[tokio::test]
async fn without_unfenced_ok_nothing_is_granted() {
    let nodes = NodeSet::new(3);
    let locks = nodes.connect_to(false).await;
    let error = locks.mutex("a").acquire().await.expect_err("no token");
    assert_eq!(error.kind(), crate::ErrorKind::Unfenced, "{error}");
    nodes.are_free("a").await;
}

#[tokio::test]
async fn who_has_some_votes_and_no_majority_is_not_shown_as_waiting() {
    let nodes = NodeSet::new(3);
    let locks = nodes.connect().await;
    let guard = locks.mutex("a").acquire().await.expect("free");
    guard.release().await.expect("held");
    let node = Connect::engine(MemoryStore::named(&nodes.0[2])).open().await.expect("a store");
    let vote = node.mutex("a").acquire().await.expect("free");
    for _ in 0..20 {
        let view = locks.inspect("a").await.expect("a store").unwrap_or_default();
        assert_eq!((view.holders.len(), view.waiting), (0, 0), "{view:?}");
    }
    vote.release().await.expect("held");
}
