//! The load: clients of their own, each with tasks that want the lock of all and others.
//!
//! A task takes turns for as long as there are faults and then as many more as it has to. It runs
//! beside the test, which breaks things meanwhile; [`Load::goes_on`] says when there were more turns,
//! so that faults come in step with the work and not with a clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use taketurns::Locks;
use taketurns_servers::{PATIENCE, eventually};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::{WAITER_LEASE, connect_for, seen, soon};
use crate::support::history::{History, turn};

/// The lock that all want.
pub(crate) const SHARED: &str = "shared";
/// Some want one of these too.
const OTHERS: [&str; 4] = ["a", "b", "c", "d"];

const CLIENTS: usize = 20;

/// What each client does.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    /// How many of its tasks want the lock of all; one more wants another.
    pub(crate) shared_tasks: usize,
    /// How many turns each task has to get after the faults.
    pub(crate) turns: u32,
    pub(crate) lease: Duration,
}

impl Default for Work {
    fn default() -> Self {
        Self { shared_tasks: 2, turns: 2, lease: Duration::from_millis(1_500) }
    }
}

/// Clients at work.
pub(crate) struct Load {
    runtime: Runtime,
    clients: Vec<Locks>,
    tasks: Vec<JoinHandle<()>>,
    common: Arc<Common>,
}

#[derive(Default)]
struct Common {
    history: History,
    turns: AtomicU64,
    calm: AtomicBool,
}

impl Load {
    /// Starts twenty clients, spread over the URLs, each with three tasks.
    pub(crate) fn start<U: AsRef<str>>(urls: &[U]) -> Self {
        Self::with(urls, Work::default())
    }

    pub(crate) fn with<U: AsRef<str>>(urls: &[U], work: Work) -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().expect("a runtime");
        let common = Arc::new(Common::default());
        let (mut clients, mut tasks) = (Vec::new(), Vec::new());
        for (number, url) in (0..CLIENTS).zip(urls.iter().cycle()) {
            clients.push(runtime.block_on(connect_for(WAITER_LEASE, url.as_ref())));
            let other = OTHERS[number % OTHERS.len()];
            let wanted = std::iter::repeat_n(SHARED, work.shared_tasks).chain([other]);
            for (task, lock) in wanted.enumerate() {
                let hold = Duration::from_millis(1 + (number as u64 + 2 * task as u64) % 5);
                let turns = take_turns(clients[number].clone(), lock, hold, work, common.clone());
                tasks.push(runtime.spawn(turns));
            }
        }
        Self { runtime, clients, tasks, common }
    }

    /// Waits for that many more turns of anybody.
    pub(crate) fn goes_on(&self, turns: u64) {
        let enough = self.turns() + turns;
        while self.turns() < enough {
            let before = self.turns();
            let is_so = || (self.turns() > before).then_some(());
            eventually("the load goes on", is_so).expect("turns are taken");
        }
    }

    pub(crate) fn turns(&self) -> u64 {
        self.common.turns.load(Ordering::Relaxed)
    }

    /// There are no faults any more: everyone has to get the turns that it still needs, nothing may
    /// be left behind, and all that was ever seen has to fit together.
    pub(crate) fn finish(self) -> LoadResult {
        self.common.calm.store(true, Ordering::Relaxed);
        let Self { runtime, clients, tasks, common } = self;
        runtime.block_on(async {
            for mut task in tasks {
                // For as long as anybody has turns: those who have theirs make room for the others.
                loop {
                    let before = common.turns.load(Ordering::Relaxed);
                    match tokio::time::timeout(PATIENCE, &mut task).await {
                        Ok(ended) => break ended.expect("no task fails"),
                        Err(_) => assert!(
                            common.turns.load(Ordering::Relaxed) > before,
                            "everyone gets its turns"
                        ),
                    }
                }
            }
            for lock in [&[SHARED][..], &OTHERS].concat() {
                let idle = |view: &taketurns::View| view.holders.len() + view.waiting == 0;
                seen("nothing is left behind", &clients[0], lock, idle).await;
            }
            for client in clients {
                soon("a client closes", client.close()).await;
            }
        });
        common.history.check();
        LoadResult { common }
    }
}

/// What the load did, once it fits together.
pub(crate) struct LoadResult {
    common: Arc<Common>,
}

impl std::ops::Deref for LoadResult {
    type Target = History;

    fn deref(&self) -> &History {
        &self.common.history
    }
}

async fn take_turns(
    locks: Locks,
    lock: &'static str,
    hold: Duration,
    work: Work,
    common: Arc<Common>,
) {
    let mut left = work.turns;
    while left > 0 {
        // Asked before the turn: those that count begin when all is well.
        left -= u32::from(common.calm.load(Ordering::Relaxed));
        let acquire = locks.mutex(lock).acquire().lease(work.lease).await;
        turn(acquire.expect("it waits for as long as it takes"), hold, &common.history).await;
        common.turns.fetch_add(1, Ordering::Relaxed);
    }
}
