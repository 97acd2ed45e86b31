//! An engine in memory that is asked for nothing once it was closed, or the test fails: a client ends after
//! whatever it gives back.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use taketurns::engine::{
    AnswerFuture, Engine, EngineError, EngineFuture, Guarantees, MemoryEngine, MemoryStore, Open,
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
            let inner = Arc::new(Inner { engine, ended, _open: Counted::new() });
            Ok(Box::new(StrictEngine { inner }) as Box<dyn Engine>)
        })
    }
}

struct StrictEngine {
    inner: Arc<Inner>,
}

struct Inner {
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
    fn call(&self, lock: &Name, request: Request) -> AnswerFuture {
        let (inner, lock) = (self.inner.clone(), lock.clone());
        AnswerFuture::later(async move {
            // A request goes some way, and so does its answer.
            shuttle::future::yield_now().await;
            assert!(!inner.ended.load(Ordering::SeqCst), "after its end it asked {request:?}");
            let answer = inner.engine.call(&lock, request).await;
            shuttle::future::yield_now().await;
            answer
        })
    }

    fn ping(&self) -> EngineFuture<'_, Result<Stamp, EngineError>> {
        self.inner.engine.ping()
    }

    fn view<'a>(
        &'a self,
        lock: &'a Name,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Option<View>, EngineError>> {
        self.inner.engine.view(lock, waiters_max)
    }

    fn list<'a>(
        &'a self,
        pattern: &'a Pattern,
        after: Option<&'a Name>,
        max: usize,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Vec<(Name, View)>, EngineError>> {
        self.inner.engine.list(pattern, after, max, waiters_max)
    }

    fn max_lease(&self) -> Duration {
        self.inner.engine.max_lease()
    }

    fn guarantees(&self) -> Guarantees {
        self.inner.engine.guarantees()
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        self.inner.ended.store(true, Ordering::SeqCst);
        self.inner.engine.close()
    }
}
