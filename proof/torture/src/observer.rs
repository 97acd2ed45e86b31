//! A client that only observes: it records the order of each queue, and puts the members of the pool back, as an
//! operator would after a server has forgotten them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use taketurns::{Connect, Locks, View, WaiterView};
use taketurns_history::{EventKind, HistoryLock, LockKind};
use tokio::time::{sleep, timeout};

use crate::nemesis::QuietPeriod;
use crate::notes::HistoryWriter;
use crate::plan::MEMBERS;

/// Between two looks at all locks.
const EVERY: Duration = Duration::from_millis(100);
/// For how long it waits for an answer.
const ANSWER: Duration = Duration::from_secs(1);

/// What it looks at.
#[derive(Debug)]
pub(crate) struct ObserverConfig {
    pub(crate) url: String,
    pub(crate) locks: Vec<HistoryLock>,
    /// For how long somebody has waited when its place is final.
    pub(crate) placed_after: Duration,
}

/// It looks on until it is told to end.
pub(crate) struct QueueObserver {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl QueueObserver {
    pub(crate) fn start(
        look: ObserverConfig,
        notes: Arc<HistoryWriter>,
        quiet: Arc<QuietPeriod>,
    ) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let ended = ends.clone();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let ended = || ended.load(Ordering::SeqCst);
            runtime.expect("a runtime").block_on(watch(&look, &notes, &quiet, ended));
        });
        Self { ends, thread }
    }

    pub(crate) fn end(self) {
        self.ends.store(true, Ordering::SeqCst);
        self.thread.join().expect("an observer does not panic");
    }
}

async fn watch(
    look: &ObserverConfig,
    notes: &HistoryWriter,
    quiet: &QuietPeriod,
    ended: impl Fn() -> bool,
) {
    let store = loop {
        match Connect::new(&look.url).who("observer").open().await {
            Ok(store) => break store,
            Err(_) if ended() => return,
            Err(_) => sleep(EVERY).await,
        }
    };
    while !ended() {
        for lock in &look.locks {
            if lock.kind == LockKind::Pool {
                put_back(&store, &lock.name).await;
            }
            let view = timeout(ANSWER, store.inspect(&lock.name)).await;
            if let Ok(Ok(Some(view))) = &view
                && quiet.is_settled()
            {
                let ops = line(view, look.placed_after);
                if ops.len() > 1 {
                    notes.note(EventKind::Line { lock: lock.name.clone(), ops });
                }
            }
        }
        sleep(EVERY).await;
    }
    store.close().await;
}

/// On a file this is a step like that of others: to look is not.
async fn put_back(store: &Locks, pool: &str) {
    for member in MEMBERS {
        // If it does not work now, it will later.
        let _ = timeout(ANSWER, store.pool(pool).add(member)).await;
    }
}

/// The operations that have a place, by what they said of themselves.
fn line(view: &View, placed_after: Duration) -> Vec<u64> {
    let is_placed = |waiter: &&WaiterView| waiter.waited_for >= placed_after;
    let op = |waiter: &WaiterView| waiter.label.why().parse().ok();
    view.waiters.iter().filter(is_placed).filter_map(op).collect()
}
