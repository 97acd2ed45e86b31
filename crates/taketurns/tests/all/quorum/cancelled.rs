//! Futures that are dropped at any point, and clients that go: nothing of them stays on any node.

use std::time::Duration;

use taketurns_servers::fuzz::Dice;

use super::nodes::{LONG_LEASE, Nodes, nothing_is_left};
use crate::support::patience::{block_on, soon};

const LOCKS: [&str; 3] = ["a", "b", "c"];
const TASKS: u64 = 8;
const TURNS: u64 = 40;

#[test]
fn whatever_is_dropped_leaves_nothing_on_any_node() {
    block_on(async {
        let nodes = Nodes::start(5);
        let clients = [
            nodes.connect_for_long().await,
            nodes.connect_for_long().await,
            nodes.connect_for_long().await,
        ];
        let task = |task: u64| {
            let clients = clients.clone();
            tokio::spawn(async move {
                let mut dice = Dice::new(task);
                for _ in 0..TURNS {
                    let number = dice.any();
                    let locks = &clients[(number % 3) as usize];
                    let mutex = locks.mutex(LOCKS[(number / 3 % 3) as usize]);
                    // From before anything is sent until after it is granted.
                    let after = Duration::from_micros(number / 9 % 8_000);
                    let acquire = async {
                        match number % 2 {
                            0 => mutex.acquire().lease(LONG_LEASE).await.map(Some),
                            _ => mutex.try_acquire().lease(LONG_LEASE).await,
                        }
                    };
                    // The guard is dropped too, if there is one.
                    drop(tokio::time::timeout(after, acquire).await);
                }
            })
        };
        let tasks: Vec<_> = (0..TASKS).map(task).collect();
        for task in tasks {
            soon("all are dropped", task).await.expect("no panic");
        }
        let each = nodes.each().await;
        for lock in LOCKS {
            nothing_is_left(&each, lock).await;
            // An acquire that was dropped before it was sent may still come and go. None stays.
            let guard = soon("it is free", clients[0].mutex(lock).acquire()).await;
            guard.expect("free").release().await.expect("held");
        }
    });
}

#[test]
fn a_client_that_goes_takes_what_it_has_along() {
    block_on(async {
        let nodes = Nodes::start(5);
        let (one, two) = (nodes.connect_for_long().await, nodes.connect_for_long().await);
        let each = nodes.each().await;
        let guard = one.mutex("l").acquire().lease(LONG_LEASE).await.expect("free");
        let waits = tokio::spawn(two.mutex("l").acquire().lease(LONG_LEASE).into_future());
        super::nodes::seen("it waits", &one, "l", |view| view.waiting == 1).await;
        waits.abort();
        drop(waits.await);
        drop(guard);
        soon("one ends", one.close()).await;
        soon("the other ends", two.close()).await;
        nothing_is_left(&each, "l").await;
    });
}
