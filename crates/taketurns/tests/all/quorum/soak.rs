//! Twenty clients take turns on five servers. At any time two of these are killed, stopped or cut off.
//!
//! ```text
//!   calm ── kill 0, 1 ── stop 0, 1 ── cut 0, 1 ── kill 2, 3 ── … ── calm: everyone gets one more turn
//!             └ back at once, and kept out for as long as the longest lease
//! ```
//!
//! A node that was killed is out until its quarantine ends, so the same two are stopped and cut off
//! meanwhile: never more than two are out. `QUORUM_SOAK_SECONDS=120` for longer than CI does it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use taketurns::{ErrorKind, Locks};
use taketurns_servers::fuzz::Dice;
use taketurns_servers::{Proxy, Server};

use super::nodes::{Nodes, connect, nothing_is_left};
use crate::support::history::{History, turn};
use crate::support::nemesis::{EVERY, faults, strike};
use crate::support::patience::{block_on, soon};

const CLIENTS: usize = 20;
const HOLD: Duration = Duration::from_millis(2);
const LEASE: Duration = Duration::from_secs(2);
const MAX_LEASE: Duration = Duration::from_secs(3);

/// What the clients have done so far.
#[derive(Default)]
struct Common {
    history: History,
    ends: AtomicBool,
    /// The turns of each client.
    turns: Vec<AtomicU64>,
    /// For how long each turn was waited for.
    waits: Mutex<Vec<Duration>>,
}

/// What was done in some time.
struct SoakPhase {
    turns: Vec<u64>,
    took: Duration,
    longest: Duration,
}

impl SoakPhase {
    fn per_second(&self) -> f64 {
        self.turns.iter().sum::<u64>() as f64 / self.took.as_secs_f64()
    }

    fn say(&self, what: &str) {
        let (least, most) = (self.turns.iter().min(), self.turns.iter().max());
        println!(
            "{what}: {:.0} hand-overs/s in {:.1?}, longest wait {:.2?}, {} to {} turns a client",
            self.per_second(),
            self.took,
            self.longest,
            least.unwrap_or(&0),
            most.unwrap_or(&0)
        );
    }
}

impl Common {
    fn turns(&self) -> Vec<u64> {
        self.turns.iter().map(|turns| turns.load(Ordering::Relaxed)).collect()
    }

    fn waits(&self) -> MutexGuard<'_, Vec<Duration>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is done while this happens.
    async fn during(&self, what: impl Future<Output = ()>) -> SoakPhase {
        let (start, before, waited) = (Instant::now(), self.turns(), self.waits().len());
        what.await;
        let turns = self.turns().into_iter().zip(before).map(|(now, then)| now - then).collect();
        let longest = self.waits()[waited..].iter().max().copied().unwrap_or_default();
        SoakPhase { turns, took: start.elapsed(), longest }
    }
}

async fn take_turns(locks: Locks, client: usize, common: Arc<Common>) {
    while !common.ends.load(Ordering::Relaxed) {
        let from = Instant::now();
        let guard = locks.mutex("l").acquire().lease(LEASE).await;
        common.waits().push(from.elapsed());
        turn(guard.expect("it waits for as long as it takes"), HOLD, &common.history).await;
        common.turns[client].fetch_add(1, Ordering::Relaxed);
    }
}

/// Now and then it looks in at another lock, which is free as often as not: there are races for it that
/// nobody queues in.
async fn look_in(locks: Locks, client: u64, common: Arc<Common>) {
    let mut dice = Dice::new(client);
    loop {
        let number = dice.any();
        tokio::time::sleep(Duration::from_millis(number % 200)).await;
        if common.ends.load(Ordering::Relaxed) {
            return;
        }
        let tried = match number % 3 {
            0 => locks.mutex("other").acquire().lease(LEASE).await.map(Some),
            _ => locks.mutex("other").try_acquire().lease(LEASE).await,
        };
        match tried {
            Ok(Some(guard)) => turn(guard, HOLD, &common.history).await,
            Ok(None) => {}
            Err(error) => {
                let why = [ErrorKind::NoQuorum, ErrorKind::Quarantined];
                assert!(why.contains(&error.kind()), "{error}");
            }
        }
    }
}

#[test]
fn with_two_of_five_servers_out_at_any_time_twenty_clients_take_turns() {
    let seconds = std::env::var("QUORUM_SOAK_SECONDS").ok();
    let seconds = seconds.map_or(8, |text| text.parse().expect("a number of seconds"));
    let nodes = Nodes::with_max_lease(5, MAX_LEASE);
    let start = |server: &Server| Proxy::start(server.port()).expect("a port");
    let proxies: Vec<Proxy> = nodes.servers.iter().map(start).collect();
    let url = nodes.url_of(proxies.iter().map(Proxy::url));
    block_on(async {
        let turns = (0..CLIENTS).map(|_| AtomicU64::new(0)).collect();
        let common = Arc::new(Common { turns, ..Common::default() });
        let mut tasks = Vec::new();
        for client in 0..CLIENTS {
            let locks = connect(&url).await;
            tasks.push(tokio::spawn(look_in(locks.clone(), client as u64, common.clone())));
            tasks.push(tokio::spawn(take_turns(locks, client, common.clone())));
        }

        let calm = common.during(tokio::time::sleep(EVERY * (1 + seconds as u32 / 24))).await;
        calm.say("calm");
        let struck = common.during(async {
            for (fault, pair) in faults(seconds) {
                let both = pair.map(|node| (&nodes.servers[node], &proxies[node]));
                let spell = common.during(strike(fault, both)).await;
                spell.say(&format!("  {fault:?} {pair:?}"));
            }
        });
        let struck = struck.await;
        struck.say("two of five out");
        println!("that is {:.0} %", 100.0 * struck.per_second() / calm.per_second());
        let after = common.during(async {
            let before = common.turns();
            let everyone = || common.turns().iter().zip(&before).all(|(now, then)| now > then);
            soon("everyone gets one more turn", async {
                while !everyone() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            })
            .await;
        });
        after.await.say("calm again, until everyone has had a turn");

        common.ends.store(true, Ordering::Relaxed);
        for task in tasks {
            soon("the last turns", task).await.expect("no client fails");
        }
        common.history.check();
        assert!(struck.turns.iter().all(|turns| *turns > 0), "{:?}", struck.turns);
        let each = nodes.each().await;
        for lock in ["l", "other"] {
            nothing_is_left(&each, lock).await;
        }
    });
}
