//! A node that is far away costs nobody anything.

use std::time::{Duration, Instant};

use taketurns_servers::Proxy;

use super::nodes::{Nodes, connect};
use crate::support::patience::{block_on, soon};

/// What is sent there arrives that much later, and so does what comes back.
const FAR: Duration = Duration::from_millis(300);

const TURNS: usize = 15;

/// The time of a turn in the middle, from the first request to the grant.
async fn median(locks: &taketurns::Locks) -> Duration {
    let mut times = Vec::new();
    for _ in 0..TURNS {
        let start = Instant::now();
        let guard = soon("a free lock", locks.mutex("l").acquire()).await.expect("free");
        times.push(start.elapsed());
        guard.release().await.expect("held");
    }
    times.sort_unstable();
    times[TURNS / 2]
}

#[test]
fn a_node_that_answers_late_makes_no_acquire_longer() {
    block_on(async {
        let nodes = Nodes::start(5);
        let proxy = Proxy::start(nodes.servers[1].port()).expect("a port");
        let mut urls: Vec<String> =
            nodes.servers.iter().map(taketurns_servers::Server::url).collect();
        urls[1] = proxy.url();
        let locks = connect(&nodes.url_of(urls)).await;
        let near = median(&locks).await;
        proxy.delay(FAR);
        // A busy machine makes some acquires that long. All of them are with that node's answer.
        let not_waited_for = async {
            loop {
                let far = median(&locks).await;
                println!("an acquire takes {near:?}, and {far:?} with a node {FAR:?} away");
                if far < 2 * FAR {
                    return;
                }
            }
        };
        soon("the far one is not waited for", not_waited_for).await;
    });
}
