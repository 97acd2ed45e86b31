//! Quorums of nodes in this process.

use std::time::Duration;

use crate::{Locks, connect};

/// A quorum of nodes that nobody else has.
fn url(nodes: usize) -> String {
    let id = crate::random::bits64();
    let nodes: Vec<String> = (0..nodes).map(|node| format!("memory:{id:x}-{node}")).collect();
    format!("quorum:{}", nodes.join(","))
}

async fn locks(url: &str) -> Locks {
    connect(url).await.expect("a quorum")
}

#[tokio::test]
async fn a_lock_is_held_by_one_at_a_time_and_handed_over_in_order() {
    let url = url(5);
    let (first, second) = (locks(&url).await, locks(&url).await);
    let guard = first.mutex("a").acquire().await.expect("free");
    assert!(second.mutex("a").try_acquire().await.expect("an answer").is_none());
    let token = guard.token();
    let waits = tokio::spawn(async move {
        let guard = second.mutex("a").acquire().await.expect("handed over");
        (guard.token(), guard)
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    guard.release().await.expect("held");
    let (next, guard) = waits.await.expect("no panic");
    assert!(next > token);
    guard.release().await.expect("held");
}
