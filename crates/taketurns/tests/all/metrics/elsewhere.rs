//! With a recorder for the whole process, and clients on threads of their own.

use std::env;
use std::process::Command;
use std::time::Duration;

use metrics_util::debugging::DebuggingRecorder;

use super::poll_once;
use super::recorded::RecordedMetrics;
use crate::support::patience::{block_on, soon};

const CANCELLED: usize = 5_000;

/// Set where nothing but this test runs.
const ALONE: &str = "TAKETURNS_TEST_ALONE";

/// The recorder sees all threads that have none of their own, so the test runs in a process of its own.
#[test]
fn nothing_is_left_of_thousands_of_acquires_that_were_dropped_at_any_moment() {
    const NAME: &str = "metrics::elsewhere::\
        nothing_is_left_of_thousands_of_acquires_that_were_dropped_at_any_moment";
    if env::var_os(ALONE).is_some() {
        return nothing_is_left();
    }
    let mut alone = Command::new(env::current_exe().expect("this program"));
    let alone = alone.args(["--exact", NAME]).env(ALONE, "1").output().expect("started");
    let said = String::from_utf8_lossy(&alone.stdout);
    assert!(alone.status.success() && said.contains("1 passed"), "{said}");
}

fn nothing_is_left() {
    let recorder = DebuggingRecorder::new();
    let mut recorded = RecordedMetrics::of(&recorder);
    recorder.install().expect("the only one");
    block_on(async {
        let locks = taketurns::connect("memory:").await.expect("a store");
        for lock in ["a", "b", "c"] {
            let guard = locks.mutex(lock).acquire().await.expect("free");
            poll_once(locks.mutex(lock).acquire().into_future());
            drop(guard);
        }
        let tasks: Vec<_> = (0..CANCELLED)
            .map(|number| {
                let locks = locks.clone();
                let lock = format!("l-{}", number % 7);
                let within = Duration::from_micros(number as u64 % 400);
                tokio::spawn(async move {
                    let acquire = locks.mutex(lock).acquire().into_future();
                    // Some are dropped while they wait, some as they are granted, some just after.
                    let guard = tokio::time::timeout(within, acquire).await;
                    drop(guard);
                })
            })
            .collect();
        for task in tasks {
            soon("a task", task).await.expect("its end");
        }
        let rests = |recorded: &mut RecordedMetrics| {
            recorded.gauge("taketurns_held") == 0.0 && recorded.gauge("taketurns_waiting") == 0.0
        };
        recorded.until("nobody holds and nobody waits", rests).await;
        let waited = recorded.counts("taketurns_acquire_wait_seconds");
        let (granted, cancelled) = (
            waited.get("{outcome=granted,kind=mutex}").copied().unwrap_or(0),
            waited.get("{outcome=cancelled,kind=mutex}").copied().unwrap_or(0),
        );
        assert!(cancelled >= 3, "{waited:?}");
        assert_eq!(granted + cancelled, 6 + CANCELLED as u64, "{waited:?}");
        let held = recorded.counts("taketurns_hold_seconds").values().sum::<u64>();
        assert_eq!(held, granted, "each that was had was let go of");
        locks.close().await;
    });
}
