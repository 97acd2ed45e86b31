//! What an acquire and a release cost each node, counted by the nodes.

use std::time::{Duration, Instant};

use taketurns::Locks;
use taketurns_servers::{Server, eventually};

use super::nodes::{LONG_LEASE, Nodes, nothing_is_left};
use crate::support::patience::{block_on, soon};

const TURNS: u64 = 20;

/// For how long the answer of a server is waited for.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(2);

/// How many steps of locks a node was asked for since the counters were reset.
pub(crate) fn steps(server: &Server) -> u64 {
    let stats = server.command_stats();
    let is_step = |name: &str| ["eval", "evalsha", "fencelock.do"].contains(&name);
    let steps = stats.iter().filter(|(name, _)| is_step(&name.to_ascii_lowercase()));
    steps.map(|(_, stats)| stats.calls).sum()
}

/// Waits until each of these nodes has taken this number of steps, and asserts that none takes more.
fn each_took(servers: &[&Server], wanted: u64) {
    for server in servers {
        let reached = || (steps(server) >= wanted).then_some(());
        eventually("what was sent arrives", reached).expect("all nodes are asked");
        assert_eq!(steps(server), wanted, "{}", server.url());
    }
}

/// Turns of one client, each of one step per node to acquire and one to release.
async fn turns(locks: &Locks, lock: &str, servers: &[&Server]) {
    for _ in 0..TURNS {
        servers.iter().for_each(|server| server.reset_stats());
        let guard =
            soon("a free lock", locks.mutex(lock).acquire().lease(LONG_LEASE)).await.expect("free");
        // One round made it: nothing more was sent by now, nor is until the release.
        each_took(servers, 1);
        guard.check().expect("held");
        guard.release().await.expect("held");
        each_took(servers, 2);
    }
}

#[test]
fn an_acquire_of_a_free_lock_is_one_command_to_each_node_and_so_is_its_release() {
    block_on(async {
        let nodes = Nodes::start(5);
        let locks = nodes.connect_for_long().await;
        // The first turn brings the scripts to the servers.
        locks.mutex("l").acquire().await.expect("free").release().await.expect("held");
        nothing_is_left(&nodes.each().await, "l").await;
        turns(&locks, "l", &nodes.servers.iter().collect::<Vec<_>>()).await;
        locks.close().await;
    });
}

#[test]
fn a_node_that_stands_still_is_not_waited_for_and_has_nothing_in_the_end() {
    block_on(async {
        let nodes = Nodes::start(5);
        let (locks, each) = (nodes.connect_for_long().await, nodes.each().await);
        locks.mutex("l").acquire().await.expect("free").release().await.expect("held");
        nothing_is_left(&each, "l").await;
        for stopped in 0..2 {
            // Those that never stood still: one that did may have more to do of what it was sent meanwhile, on a
            // connection that nobody here can look into.
            let others: Vec<&Server> = nodes.servers[stopped + 1..].iter().collect();
            // A busy machine makes some acquires that long. All of them are if they wait for the one that
            // stands still.
            let not_waited_for = async {
                loop {
                    nodes.servers[stopped].pause();
                    let start = Instant::now();
                    let guard = locks.mutex("l").acquire().lease(LONG_LEASE).await.expect("free");
                    let took = start.elapsed();
                    guard.release().await.expect("held");
                    if took < GIVEN_UP_AFTER {
                        return;
                    }
                    nodes.servers[stopped].resume();
                    nothing_is_left(&each, "l").await;
                }
            };
            soon("the one that stands still is not waited for", not_waited_for).await;
            nothing_is_left(&[&each[..stopped], &each[stopped + 1..]].concat(), "l").await;
            turns(&locks, "l", &others).await;
            nodes.servers[stopped].resume();
            // What it was sent meanwhile is worth nothing to it.
            nothing_is_left(&each, "l").await;
        }
        locks.close().await;
    });
}
