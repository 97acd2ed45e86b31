//! Ten clients and a foreign client take turns on five servers. At any time two of these are killed, stopped or cut off.
//! `REDLOCK_SOAK_SECONDS=120` runs it for longer than CI does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use taketurns::{ErrorKind, Locks};
use taketurns_servers::turns::{TurnLog, check};
use taketurns_servers::{Proxy, Server};

use super::nodes::{Nodes, connect};
use crate::support::nemesis::{faults, strike};
use crate::support::patience::{block_on, soon};
use crate::support::turns::turn;

const CLIENTS: usize = 10;
const HOLD: Duration = Duration::from_millis(2);
const LEASE: Duration = Duration::from_secs(2);
const MAX_LEASE: Duration = Duration::from_secs(3);

#[derive(Default)]
struct Common {
    turns: TurnLog,
    had: Vec<AtomicU64>,
    ends: AtomicBool,
}

impl Common {
    fn had(&self) -> Vec<u64> {
        self.had.iter().map(|turns| turns.load(Ordering::Relaxed)).collect()
    }
}

async fn take_turns(locks: Locks, client: usize, common: Arc<Common>) {
    while !common.ends.load(Ordering::Relaxed) {
        let guard = locks.mutex("l").acquire().lease(LEASE).await;
        let guard = guard.expect("it waits for as long as it takes");
        if let Err(error) = turn(guard, &client.to_string(), HOLD, &common.turns).await {
            use ErrorKind::{Indeterminate, Lost, NoQuorum, NotHeld, Unreachable};
            let known = [Lost, NotHeld, Indeterminate, Unreachable, NoQuorum];
            assert!(known.contains(&error.kind()), "{error}");
        }
        common.had[client].fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn with_two_of_five_servers_out_at_any_time_there_are_never_two_holders() {
    let seconds = std::env::var("REDLOCK_SOAK_SECONDS").ok();
    let seconds = seconds.map_or(10, |text| text.parse().expect("a number of seconds"));
    let nodes = Nodes::with_max_lease(5, MAX_LEASE);
    let start = |server: &Server| Proxy::start(server.port()).expect("a port");
    let proxies: Vec<Proxy> = nodes.servers.iter().map(start).collect();
    let url = nodes.url_of(proxies.iter().map(Proxy::url));
    block_on(async {
        let had = (0..CLIENTS).map(|_| AtomicU64::new(0)).collect();
        let common = Arc::new(Common { had, ..Common::default() });
        let mut tasks = Vec::new();
        for client in 0..CLIENTS {
            let locks = connect(&url).await;
            tasks.push(tokio::spawn(take_turns(locks, client, common.clone())));
        }
        for (fault, pair) in faults(seconds) {
            let before: u64 = common.had().iter().sum();
            strike(fault, pair.map(|node| (&nodes.servers[node], &proxies[node]))).await;
            let turns = common.had().iter().sum::<u64>() - before;
            println!("{fault:?} {pair:?}: {turns} turns");
        }
        let before = common.had();
        soon("everyone gets one more turn", async {
            while common.had().iter().zip(&before).any(|(now, then)| now == then) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        common.ends.store(true, Ordering::Relaxed);
        for task in tasks {
            soon("the last turns", task).await.expect("no client fails");
        }
        // Without tokens, time is all that tells.
        let turns = common.turns.all();
        check(&turns);
        println!("{} turns, {:?} a client", turns.len(), common.had());
        nodes.nothing_is_left("l");
    });
}
