//! Nothing of an acquire outlives its use, and nothing of a client outlives it: no holder, no waiter, no
//! key but idle locks that end by themselves, pools with members and the marker; no subscription, no
//! connection, no task, no thread, no descriptor, no socket, and no memory.
//!
//! Clients use all that a store has and end each use in a random way (`uses.rs`). After a fifth of the
//! uses, and after all of them, they are idle: then their tables are empty (`counted.rs`), and as many tasks run
//! and about as many bytes are allocated the second time as the first. Then they end, and nothing at all is left.
//!
//! It is a program of its own because it counts what its process has: bytes by a global allocator, threads,
//! descriptors.
//!
//! By default there are some hundred uses of each store. For all that was promised:
//! `LEAKS_ACQUIRES=100000 cargo test --release -p taketurns --test leaks -- --nocapture --test-threads 1`

mod bytes;
mod counted;
mod ending;
mod left;
mod process;
mod stores;
mod uses;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use counted::{Counts, ResourceCount};
use process::{descriptors, threads};
use stores::Store;
use taketurns::{Connect, Locks};
use taketurns_conformance::hooks::HookedStore;
use taketurns_servers::fuzz::Dice;
use taketurns_servers::{PATIENCE, eventually};
use tokio::runtime::{Builder, Runtime};
use uses::{MEMBERS, POOL, User};

/// How many uses of each store.
fn acquires() -> u64 {
    let given = std::env::var("LEAKS_ACQUIRES").ok();
    given.map_or(600, |text| text.parse().expect("LEAKS_ACQUIRES is a number"))
}

/// Half of them have a thread of their own, the others run where tasks are counted.
const CLIENTS: usize = 4;
const TASKS: u64 = 24;

/// Longer than a test waits: a place that is left behind is seen.
const WAITER_LEASE: Duration = Duration::from_secs(60);

/// What tables and buffers may have grown by, if there were more at a time than ever before.
const SLACK_BYTES: usize = 96 * 1024;
/// The least that an allocation per use would leave.
const LEAK_BYTES: usize = 8;

/// Threads, descriptors and bytes are the process's, so its tests run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn runtime(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().expect("a runtime")
}

/// The clients of one store, and where they run.
struct Party {
    clients: Vec<Locks>,
    counts: Arc<Counts>,
    drivers: Runtime,
    mutexes_only: bool,
}

impl Party {
    async fn open(store: &Store) -> Self {
        let (counts, drivers) = (Arc::<Counts>::default(), runtime(1));
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            let counted = ResourceCount { url: store.url.clone(), counts: counts.clone() };
            let connect = Connect::engine(HookedStore(counted)).waiter_lease(WAITER_LEASE);
            let opened = match number % 2 {
                0 => connect.open().await,
                _ => connect.open_on(drivers.handle().clone()).await,
            };
            clients.push(opened.expect("a store"));
        }
        if !store.mutexes_only {
            for member in MEMBERS {
                clients[0].pool(POOL).add(member).await.expect("an answer");
            }
        }
        let party = Self { clients, counts, drivers, mutexes_only: store.mutexes_only };
        party.meet_all_servers().await;
        party
    }

    /// A client connects to a server when it first needs it.
    async fn meet_all_servers(&self) {
        for client in &self.clients {
            for number in 0..10 {
                let guard = client.mutex(format!("first/{number}")).acquire().await.expect("free");
                guard.release().await.expect("held");
            }
        }
    }

    /// Uses the store this many times, by many tasks at a time. Returns how many uses succeeded.
    async fn use_it(&self, uses: u64, seed: u64) -> u64 {
        let left = Arc::new(AtomicU64::new(uses));
        let mut tasks = Vec::new();
        for number in 0..TASKS {
            let client = number as usize % CLIENTS;
            let mut user = User {
                locks: self.clients[client].clone(),
                other: self.clients[(client + 1) % CLIENTS].clone(),
                mutexes_only: self.mutexes_only,
                dice: Dice::new(seed + number),
                doing: "nothing",
            };
            let left = left.clone();
            let take = move || {
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
            };
            tasks.push(tokio::spawn(async move {
                let mut had = 0;
                while take().is_ok() {
                    let one = tokio::time::timeout(PATIENCE, user.one()).await;
                    let Ok(one) = one else { user.hangs().await };
                    had += u64::from(one);
                }
                had
            }));
        }
        let mut had = 0;
        for task in tasks {
            had += task.await.expect("no use fails");
        }
        had
    }

    fn tasks(&self) -> usize {
        self.drivers.metrics().num_alive_tasks()
    }

    /// All uses are over: the clients have nothing of them, and no more tasks than at the start.
    fn is_idle(&self, tasks: usize) -> bool {
        self.counts.owners() == 0 && self.counts.calls() == 0 && self.tasks() <= tasks
    }

    fn idle(&self, tasks: usize) -> usize {
        let idle = || self.is_idle(tasks).then(bytes::live);
        eventually("the clients are idle", idle).unwrap_or_else(|error| {
            let (owners, calls) = (self.counts.owners(), self.counts.calls());
            panic!("{error}: {owners} owners, {calls} calls, {} tasks of {tasks}", self.tasks())
        })
    }

    /// Some by `close`, some by being dropped, one with an acquire that waits.
    async fn end(mut self) -> Runtime {
        let held = self.clients[0].mutex("last").acquire().await.expect("free");
        let waits = tokio::spawn(self.clients[1].mutex("last").acquire().into_future());
        waits.abort();
        drop(held);
        let closed = self.clients.split_off(CLIENTS / 2);
        for client in closed {
            client.close().await;
        }
        self.drivers
    }
}

/// The whole life of some clients of a store.
fn leaves_nothing(store: &Store) {
    let users = runtime(2);
    // Whatever a process opens once and keeps is not a leak.
    users.block_on(async { taketurns::connect(&store.url).await.expect("a store").close().await });
    eventually("no thread is left", || (threads() == 0).then_some(())).expect("threads end");
    let (started, all) = (Instant::now(), acquires());
    let (descriptors_before, bytes_before) = (descriptors(), bytes::live());

    let party = users.block_on(Party::open(store));
    let tasks = party.tasks();
    let mut had = users.block_on(party.use_it(all / 5, 1));
    let first = party.idle(tasks);
    had += users.block_on(party.use_it(all - all / 5, 2));
    let may_be = first + SLACK_BYTES + (all - all / 5) as usize * LEAK_BYTES;
    party.idle(tasks);
    let grown = || Some(bytes::live()).filter(|live| *live <= may_be);
    let second = eventually("no memory is left", grown)
        .unwrap_or_else(|error| panic!("{error}: {first} bytes, then {}", bytes::live()));

    // While the clients are there: a client that ends does not wait for the last reply of a node that is behind.
    users.block_on(nobody_is_there(store));
    let drivers = users.block_on(party.end());
    let no_task = || (drivers.metrics().num_alive_tasks() == 0).then_some(());
    eventually("no task is left", no_task).unwrap_or_else(|error| {
        panic!("{error}: {} are", drivers.metrics().num_alive_tasks());
    });
    drivers.shutdown_background();
    users.block_on(nobody_is_there(store));
    let ended = eventually("no thread is left", || (threads() == 0).then_some(()));
    ended.unwrap_or_else(|error| panic!("{error}: {} are", threads()));
    eventually("no descriptor is left", || (descriptors() == descriptors_before).then_some(()))
        .unwrap_or_else(|error| panic!("{error}: {descriptors_before}, then {}", descriptors()));
    store.has_nothing();
    let last = bytes::live();
    assert!(last <= bytes_before + SLACK_BYTES, "{bytes_before} bytes before, {last} after");
    println!(
        "{}: {all} acquires, {} given up, {:.0} s; bytes {first} after a fifth, {second} after all; \
         {bytes_before} before and {last} after",
        store.name,
        all - had,
        started.elapsed().as_secs_f64(),
    );
}

/// Somebody who comes later sees neither holders nor waiters.
async fn nobody_is_there(store: &Store) {
    let looks = taketurns::connect(&store.url).await.expect("a store");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = looks.list("*").await.expect("an answer");
        assert!(seen.len() > 1, "there was nothing to look at");
        let used = |view: &taketurns::View| !view.holders.is_empty() || view.waiting > 0;
        let left: Vec<_> = seen.iter().filter(|(_, view)| used(view)).collect();
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "these are left: {left:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    looks.close().await;
}
