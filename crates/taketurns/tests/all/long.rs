//! What only shows over time.

use std::time::{Duration, Instant};

use taketurns::{Locks, LossCause};
use taketurns_servers::PATIENCE;

use crate::support::patience::soon;

/// Eight tasks take two locks for ten seconds. Half of them name the locks the other way round, so if two tasks could
/// deadlock, they would, and no turn would follow.
async fn all_against_all(locks: Locks) {
    let end = Instant::now() + Duration::from_secs(10);
    let mut tasks = Vec::new();
    for task in 0..8 {
        let locks = locks.clone();
        tasks.push(tokio::spawn(async move {
            let names = if task % 2 == 0 { ["a", "b"] } else { ["b", "a"] };
            let mut turns = 0_u32;
            // On a busy machine the first may take that long.
            while turns == 0 || Instant::now() < end {
                let guard = locks.all(names).acquire().await.expect("both");
                assert!(guard.is_held());
                guard.release().await.expect("held");
                turns += 1;
            }
            turns
        }));
    }
    let mut turns = Vec::new();
    for task in tasks {
        turns.push(soon("a deadlock, or somebody is starved", task).await.expect("no panic"));
    }
    println!("turns of each task: {turns:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_against_all_in_memory() {
    all_against_all(taketurns::connect("memory:").await.expect("memory")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_against_all_in_a_file() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let url = format!("file:{}", dir.path().join("locks.db").display());
    all_against_all(taketurns::connect(&url).await.expect("a file")).await;
}

/// Renewals and hand-overs on the caller's own runtime, and a guard that outlives it.
#[test]
fn on_the_callers_runtime_locks_are_kept_until_it_ends() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let guard = runtime.block_on(async {
        let handle = tokio::runtime::Handle::current();
        let locks = taketurns::connect_on("memory:", handle).await.expect("memory");
        let lease = Duration::from_secs(3);
        let guard = locks.mutex("l").acquire().lease(lease).await.expect("free");
        // Longer than it is held without renewals.
        tokio::time::sleep(lease).await;
        guard.check().expect("it was renewed");
        let waits = tokio::spawn({
            let locks = locks.clone();
            async move { locks.mutex("l").acquire().lease(lease).await.expect("a turn") }
        });
        guard.release().await.expect("held");
        waits.await.expect("no panic")
    });
    drop(runtime);
    let another = tokio::runtime::Runtime::new().expect("a runtime");
    let cause = another.block_on(guard.lost());
    assert_eq!(cause, LossCause::Unattended, "nobody renews it, and it says so");
    assert!(!guard.is_held());
    drop(guard);
}

/// Its end would have to run on the thread that waits for it.
#[test]
fn a_client_on_the_callers_runtime_can_be_dropped_there() {
    let (done, dropped) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let handle = tokio::runtime::Handle::current();
            let locks = taketurns::connect_on("memory:", handle).await.expect("memory");
            drop(locks);
        });
        done.send(()).expect("the test listens");
    });
    dropped.recv_timeout(PATIENCE).expect("it hangs");
}
