//! Ten clients and a stranger take turns on five servers, of which two are always killed, stopped or cut
//! off. `REDLOCK_SOAK_SECONDS=120` for longer than CI does it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use taketurns::{ErrorKind, Guard, Locks};
use taketurns_servers::{Proxy, Server};

use crate::nodes::{Nodes, connect};
use crate::patience::{block_on, soon};

const CLIENTS: usize = 10;
const HOLD: Duration = Duration::from_millis(2);
const LEASE: Duration = Duration::from_secs(2);
const MAX_LEASE: Duration = Duration::from_secs(3);
/// One fault follows the other.
const EVERY: Duration = Duration::from_secs(2);
const PAIRS: [[usize; 2]; 5] = [[0, 1], [2, 3], [4, 0], [1, 2], [3, 4]];

#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    Stop,
    Cut,
}

/// One turn as its holder saw it: certain to hold from the first to the last, by a clock that nobody sets.
#[derive(Clone, Copy, Debug)]
struct Turn {
    client: usize,
    from: Instant,
    until: Instant,
}

#[derive(Default)]
struct Common {
    turns: Mutex<Vec<Turn>>,
    had: Vec<AtomicU64>,
    ends: AtomicBool,
}

impl Common {
    /// Whoever was still certain was alone. Without tokens, time is all that tells.
    fn check(&self) -> usize {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner).clone();
        turns.sort_by_key(|turn| turn.from);
        for pair in turns.windows(2) {
            let (one, next) = (&pair[0], &pair[1]);
            assert!(
                one.until <= next.from,
                "client {} was certain for {:?} more when client {} began",
                one.client,
                one.until - next.from,
                next.client
            );
        }
        turns.len()
    }

    fn had(&self) -> Vec<u64> {
        self.had.iter().map(|turns| turns.load(Ordering::Relaxed)).collect()
    }
}

async fn turn(guard: Guard, client: usize, common: &Common) {
    let from = Instant::now();
    let mut until = from;
    // The instant is taken first: it was held then.
    let mut is_held = || {
        let now = Instant::now();
        let held = guard.is_held();
        if held {
            until = now;
        }
        held
    };
    let is_ours = is_held();
    while is_held() && from.elapsed() < HOLD {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    if is_ours {
        let mut turns = common.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.push(Turn { client, from, until });
    }
    if let Err(error) = guard.release().await {
        use ErrorKind::{Indeterminate, Lost, NoQuorum, NotHeld, Unreachable};
        let known = [Lost, NotHeld, Indeterminate, Unreachable, NoQuorum].contains(&error.kind());
        assert!(known, "{error}");
    }
}

async fn take_turns(locks: Locks, client: usize, common: Arc<Common>) {
    while !common.ends.load(Ordering::Relaxed) {
        let guard = locks.mutex("l").acquire().lease(LEASE).await;
        turn(guard.expect("it waits for as long as it takes"), client, &common).await;
        common.had[client].fetch_add(1, Ordering::Relaxed);
    }
}

/// Two nodes are out for a while.
async fn strike(fault: Fault, pair: [(&Server, &Proxy); 2]) {
    for (server, proxy) in pair {
        match fault {
            Fault::Kill => {
                server.kill();
                server.restart().expect("it comes back");
            }
            Fault::Stop => server.pause(),
            Fault::Cut => {
                proxy.refuse(true).expect("a port");
                proxy.cut();
            }
        }
    }
    tokio::time::sleep(EVERY).await;
    for (server, proxy) in pair {
        match fault {
            Fault::Kill => {}
            Fault::Stop => server.resume(),
            Fault::Cut => proxy.refuse(false).expect("its port"),
        }
    }
}

#[test]
fn with_two_of_five_servers_out_at_any_time_there_are_never_two_holders() {
    let seconds = std::env::var("REDLOCK_SOAK_SECONDS").ok();
    let seconds = seconds.map_or(10, |text| text.parse().expect("a number of seconds"));
    let strikes = Duration::from_secs(seconds).as_millis() / EVERY.as_millis();
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
        let faults = [Fault::Kill, Fault::Stop, Fault::Cut].into_iter().cycle();
        let pairs = PAIRS.iter().cycle().flat_map(|pair| [pair; 3]);
        for (fault, pair) in faults.zip(pairs).take(strikes as usize) {
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
        let turns = common.check();
        println!("{turns} turns, {:?} a client", common.had());
        assert!(turns > 0);
        nodes.nothing_is_left("l");
    });
}
