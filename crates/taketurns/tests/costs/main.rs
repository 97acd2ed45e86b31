//! What an acquire and its release cost the client: mutexes locked, blocks allocated, clocks read. Counted and not
//! timed, so that a slow machine changes nothing. In a program of its own, since all of a process is counted.
#![cfg(feature = "simulation")]

mod blocks;

use taketurns::costs::{clocks_read, mutexes_locked};
use taketurns::{Locks, connect};
use taketurns_servers::{Flavor, Server};

const TASKS: usize = 64;
/// Enough that what is done once in a while (a table that grows, a timer that ticks) hardly counts.
const PAIRS: usize = 400;

/// What one pair costs, on average.
#[derive(Debug)]
struct Costs {
    mutexes: f64,
    blocks: f64,
    clocks: f64,
}

fn counters() -> [u64; 3] {
    [mutexes_locked(), blocks::allocated(), clocks_read()]
}

/// Each task has a lock of its own.
async fn pairs(locks: &Locks) {
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let mutex = locks.mutex(format!("costs/{task}"));
            tokio::spawn(async move {
                for _ in 0..PAIRS {
                    mutex.acquire().await.expect("free").release().await.expect("held");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
}

async fn costs(url: &str) -> Costs {
    let locks = connect(url).await.expect("a store");
    pairs(&locks).await;
    let before = counters();
    pairs(&locks).await;
    let after = counters();
    let each = |at: usize| (after[at] - before[at]) as f64 / (TASKS * PAIRS) as f64;
    let costs = Costs { mutexes: each(0), blocks: each(1), clocks: each(2) };
    println!("{url}: {costs:.2?}");
    locks.close().await;
    costs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pair_costs_no_more_than_it_did() {
    let server = Server::start(Flavor::Redis).expect("a server");
    let redis = costs(&server.url()).await;
    assert!(redis.mutexes <= 8.0 && redis.blocks <= 15.0 && redis.clocks <= 5.0, "{redis:?}");
    let memory = costs("memory:").await;
    assert!(memory.mutexes <= 7.0 && memory.blocks <= 12.0 && memory.clocks <= 6.5, "{memory:?}");
}
