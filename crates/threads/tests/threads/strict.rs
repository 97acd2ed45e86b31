//! An engine in memory that is asked for nothing once it was closed, or the test fails: a client ends after
//! whatever it gives back.

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
            Ok(Box::new(StrictEngine { engine, ended: AtomicBool::new(false) }) as Box<dyn Engine>)
        })
    }
}

struct StrictEngine {
    engine: MemoryEngine,
    ended: AtomicBool,
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
