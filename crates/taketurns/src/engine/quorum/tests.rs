//! Quorums of nodes in this process.

use std::time::Duration;

use taketurns_servers::PATIENCE;

use crate::{Locks, connect};

/// A third of it is longer than any test waits.
const LONG: Duration = Duration::from_secs(600);

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

#[tokio::test]
async fn a_handle_that_others_renew_is_good_here_too() {
    let url = url(3);
    let (here, there) = (locks(&url).await, locks(&url).await);
    let lease = Duration::from_secs(2);
    let guard = here.mutex("a").acquire().lease(lease).await.expect("free");
    let handle = guard.into_handle().await.expect("held");
    let text = handle.expose();
    let elsewhere = crate::Handle::parse(&text).expect("its own form");
    // Nothing renews it here, and what was known here is over.
    there.renew(&elsewhere, Some(Duration::from_secs(60))).await.expect("held");
    tokio::time::sleep(lease).await;
    here.renew(&handle, None).await.expect("held still");
    here.release(&handle).await.expect("held");
}

#[tokio::test]
async fn an_adopter_is_told_that_its_lock_was_broken() {
    let url = url(3);
    let (here, there) = (locks(&url).await, locks(&url).await);
    let guard = here.mutex("a").acquire().lease(LONG).await.expect("free");
    let text = guard.into_handle().await.expect("held").expose();
    let handle = crate::Handle::parse(&text).expect("its own form");
    let adopted = there.adopt(handle).await.expect("held");
    here.break_lock("a").await.expect("broken");
    // Long before the next renewal.
    let lost = tokio::time::timeout(PATIENCE, adopted.lost()).await;
    assert_eq!(lost.expect("told"), crate::LossCause::Revoked);
}
