//! Nothing of a client outlives it: no thread, no descriptor, no socket. One test, since all tests of
//! a file share a process.

#[path = "support/process.rs"]
mod process;

use std::fs;
use std::time::{Duration, Instant};

use process::{descriptors, threads};

/// What a client leaves ends in the background.
async fn threads_end() {
    let patience = Instant::now() + Duration::from_secs(30);
    while threads() > 0 {
        assert!(Instant::now() < patience, "{} threads were left", threads());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_client_that_is_gone_leaves_neither_thread_nor_descriptor_nor_socket() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("locks.db");
    let url = format!("file:{}", path.display());
    // Whatever a process opens once and keeps is not a leak.
    taketurns::connect(&url).await.expect("a file").close().await;
    threads_end().await;
    let before = descriptors();
    for round in 0..10 {
        let file = taketurns::connect(&url).await.expect("a file");
        let memory = taketurns::connect("memory:").await.expect("memory");
        let guard = file.mutex("l").acquire().await.expect("free");
        let waits = file.mutex("l").acquire().within(Duration::from_millis(1));
        waits.await.expect_err("held");
        drop((guard, memory));
        if round % 2 == 0 {
            file.close().await;
        }
    }
    threads_end().await;
    assert_eq!(descriptors(), before, "descriptors were left");
    let sockets = fs::read_dir(format!("{}-wake", path.display())).expect("made").count();
    assert_eq!(sockets, 0, "sockets were left");
}
