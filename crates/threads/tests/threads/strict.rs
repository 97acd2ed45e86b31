//! An engine in memory that is asked for nothing once it was closed, or the test fails: a client ends after
//! whatever it gives back.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use taketurns::engine::{
    Answer, Engine, EngineError, EngineFuture, Guarantees, MemoryEngine, MemoryStore, Open, Owner,
    Pattern, Request, Stamp, Wakes,
};
use taketurns::{ClientId, Name, View};

/// Opens it.
pub(crate) struct Strict {
    store: MemoryStore,
}

impl Strict {
    pub(crate) fn new(store: &MemoryStore) -> Self {
        Self { store: store.clone() }
    }
}

impl Open for Strict {
    fn open(
        self: Box<Self>,
        client: ClientId,
        wakes: Wakes,
    ) -> EngineFuture<'static, Result<Box<dyn Engine>, EngineError>> {
        Box::pin(async move {
            let engine = self.store.engine(client, wakes);
            let ended = AtomicBool::new(false);
            Ok(Box::new(StrictEngine { engine, ended, _open: Counted::new() }) as Box<dyn Engine>)
        })
    }
}

struct StrictEngine {
    engine: MemoryEngine,
    ended: AtomicBool,
    /// The last to be dropped.
    _open: Counted,
}

thread_local! {
    /// How many engines there are. All of an execution runs on one thread of the system.
    static OPEN: Cell<usize> = const { Cell::new(0) };
}

/// One engine that is counted until it is gone.
struct Counted;

impl Counted {
    fn new() -> Self {
        OPEN.set(OPEN.get() + 1);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        OPEN.set(OPEN.get() - 1);
    }
}

/// Waits until all engines are gone. Shuttle drops what still runs at the end of an execution, and can't drop
/// an engine while another task holds the store's lock.
pub(crate) fn all_are_gone() {
    while OPEN.get() > 0 {
        shuttle::thread::yield_now();
    }
}

impl Engine for StrictEngine {
    fn call<'a>(
        &'a self,
        lock: &'a Name,
        request: Request,
    ) -> EngineFuture<'a, Result<Answer, EngineError>> {
        Box::pin(async move {
            // A request goes some way, and so does its answer.
            shuttle::future::yield_now().await;
            assert!(!self.ended.load(Ordering::SeqCst), "after its end it asked {request:?}");
            let answer = self.engine.call(lock, request).await;
            shuttle::future::yield_now().await;
            answer
        })
    }

    /// An engine does something then, if only to note it.
    fn watch(&self, lock: &Name, owner: Owner) {
        shuttle::thread::yield_now();
        self.engine.watch(lock, owner);
    }

    fn unwatch(&self, owner: Owner) {
        shuttle::thread::yield_now();
        self.engine.unwatch(owner);
    }

    fn ping(&self) -> EngineFuture<'_, Result<Stamp, EngineError>> {
        self.engine.ping()
    }

    fn view<'a>(
        &'a self,
        lock: &'a Name,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Option<View>, EngineError>> {
        self.engine.view(lock, waiters_max)
    }

    fn list<'a>(
        &'a self,
        pattern: &'a Pattern,
        after: Option<&'a Name>,
        max: usize,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Vec<(Name, View)>, EngineError>> {
        self.engine.list(pattern, after, max, waiters_max)
    }

    fn max_lease(&self) -> Duration {
        self.engine.max_lease()
    }

    fn guarantees(&self) -> Guarantees {
        self.engine.guarantees()
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        self.ended.store(true, Ordering::SeqCst);
        self.engine.close()
    }
}
