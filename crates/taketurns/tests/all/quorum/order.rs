//! Ten who wait for one lock: in which order they get it, what they send meanwhile, and for how long they
//! wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use taketurns::Locks;
use tokio::sync::mpsc;

use super::costs::steps;
use super::nodes::{Nodes, nothing_is_left, seen};
use crate::support::patience::{block_on, soon};

const CLIENTS: usize = 10;

async fn clients(nodes: &Nodes) -> Vec<Locks> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(nodes.connect().await);
    }
    clients
}

#[test]
fn who_waits_is_granted_in_the_order_of_queueing_and_sends_refreshes_alone() {
    block_on(async {
        let nodes = Nodes::start(5);
        let (holder, each, clients) =
            (nodes.connect().await, nodes.each().await, clients(&nodes).await);
        let held = holder.mutex("l").acquire().lease(Duration::from_secs(600)).await;
        let held = held.expect("free");
        let (sender, mut granted) = mpsc::unbounded_channel();
        for (number, client) in clients.iter().enumerate() {
            let (acquire, sender) = (client.mutex("l").acquire(), sender.clone());
            tokio::spawn(async move {
                let guard = acquire.await.expect("a turn");
                let _ = sender.send((number, guard));
            });
            for node in &each {
                seen("it queues everywhere", node, "l", |view| view.waiting == number + 1).await;
            }
        }

        // Nobody polls. By default a place is refreshed every second.
        const REFRESH: Duration = Duration::from_secs(1);
        nodes.servers.iter().for_each(taketurns_servers::Server::reset_stats);
        let start = Instant::now();
        for server in &nodes.servers {
            let refreshed = async {
                while steps(server) < 2 * CLIENTS as u64 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            soon("places are kept alive", refreshed).await;
            let sent = steps(server);
            let refreshes = start.elapsed().as_secs_f64() / REFRESH.as_secs_f64();
            // One of each client may have been due when counting began, and one been under way.
            let at_most = (refreshes.floor() as u64 + 2) * CLIENTS as u64;
            assert!(sent <= at_most, "{sent} steps in the time of {refreshes:.1} refreshes");
        }

        let (mut before, mut order) = (held.token(), Vec::new());
        held.release().await.expect("held");
        for _ in 0..CLIENTS {
            let (number, guard) = soon("a turn", granted.recv()).await.expect("some are left");
            assert!(guard.token() > before);
            before = guard.token();
            order.push(number);
            guard.release().await.expect("held");
        }
        assert_eq!(order, (0..CLIENTS).collect::<Vec<_>>());
        nothing_is_left(&each, "l").await;
    });
}

#[test]
fn nobody_waits_for_more_than_one_and_a_half_times_its_share() {
    const TURNS: usize = 12;
    const HOLD: Duration = Duration::from_millis(10);
    block_on(async {
        let nodes = Nodes::start(5);
        let clients = clients(&nodes).await;
        let granted = Arc::new(AtomicU64::new(0));
        let start = Instant::now();
        let loops: Vec<_> = clients
            .iter()
            .map(|client| {
                let (mutex, granted) = (client.mutex("l"), granted.clone());
                tokio::spawn(async move {
                    let (mut longest, mut most) = (Duration::ZERO, 0);
                    for _ in 0..TURNS {
                        let (from, before) = (Instant::now(), granted.load(Ordering::SeqCst));
                        let guard = mutex.acquire().await.expect("a turn");
                        let others = granted.fetch_add(1, Ordering::SeqCst) - before;
                        (longest, most) = (longest.max(from.elapsed()), most.max(others + 1));
                        tokio::time::sleep(HOLD).await;
                        guard.release().await.expect("held");
                    }
                    (longest, most)
                })
            })
            .collect();
        let (mut longest, mut most) = (Duration::ZERO, 0);
        for turns in loops {
            let (wait, turns) = soon("all turns", turns).await.expect("no panic");
            (longest, most) = (longest.max(wait), most.max(turns));
        }
        let turn = start.elapsed() / u32::try_from(CLIENTS * TURNS).expect("few");
        let share = turn * CLIENTS as u32;
        let times = longest.as_secs_f64() / share.as_secs_f64();
        println!(
            "{CLIENTS} clients, {turn:?} a turn: the longest wait was {longest:?}, {times:.2} times \
             the share of {share:?}; a turn came after {most} grants at most"
        );
        // Counted in turns, since a busy machine makes some of them longer.
        assert!(most * 2 <= 3 * CLIENTS as u64, "{most} grants for one of {CLIENTS}");
    });
}
