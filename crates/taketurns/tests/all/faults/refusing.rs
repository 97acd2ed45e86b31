//! Stores that say why they do nothing: too few of their nodes are there, or they can't do what is asked.

use std::sync::Arc;
use std::time::Duration;

use super::faulty::Faults;
use super::{connect, is_left_alone, soon, store};
use taketurns::{Error, ErrorKind};

#[tokio::test]
async fn too_few_nodes_are_waited_for_as_a_store_that_is_down_is() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let locks = connect(&store, &faults).await;
    faults.too_few(true);
    let within = Duration::from_millis(50);
    let error = locks.mutex("l").acquire().within(within).await.expect_err("too few");
    assert_eq!(error.to_string(), "2 of 3 nodes are needed: redis://a does not answer");
    let error = locks.mutex("l").try_acquire().await.expect_err("too few");
    assert!(matches!(error, Error::NoQuorum(missing) if missing.needed == 2));
    let patient = tokio::spawn(async move { locks.mutex("l").acquire().await });
    tokio::time::sleep(within).await;
    faults.too_few(false);
    let guard = soon("it waits through the outage", patient).await.expect("no panic");
    let guard = guard.expect("granted");
    faults.too_few(true);
    let releasing = guard.release();
    tokio::time::sleep(within).await;
    faults.too_few(false);
    // None of them was carried out, so it is known how it went.
    soon("it is tried again", releasing).await.expect("released");
    is_left_alone(&store, "l").await;
}

#[tokio::test]
async fn what_a_store_can_not_do_is_asked_for_once() {
    let (store, faults) = (store(), Arc::new(Faults::default()));
    let locks = connect(&store, &faults).await;
    let guard = locks.mutex("l").acquire().await.expect("free");
    faults.unable(true);
    let error = soon("no wait helps", locks.mutex("m").acquire()).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(error.to_string(), "this store can't do that: it has no such locks");
    assert_eq!(faults.refused(), 1);
    let error = soon("nor here", guard.release()).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(faults.refused(), 2);
}
