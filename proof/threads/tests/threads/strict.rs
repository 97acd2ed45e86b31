//! An engine in memory that is asked for nothing once it was closed, or the test fails: a client ends after
//! whatever it gives back.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use taketurns::engine::{Answer, Engine, EngineError, MemoryStore, Request, Wakes};
use taketurns::{ClientId, Name};

use crate::hooks::{HookedEngine, Hooks};

/// A store, and what becomes of one client's engine.
pub(crate) struct Strict {
    store: MemoryStore,
    ended: AtomicBool,
    /// Dropped after the engine.
    _open: Counted,
}

impl Strict {
    pub(crate) fn new(store: &MemoryStore) -> Self {
        Self { store: store.clone(), ended: AtomicBool::new(false), _open: Counted::new() }
    }
}

impl Hooks for Strict {
    async fn open(&self, client: ClientId, wakes: Wakes) -> Result<Box<dyn Engine>, EngineError> {
        Ok(Box::new(self.store.engine(client, wakes)))
    }

    async fn call(
        on: Arc<HookedEngine<Self>>,
        lock: Name,
        request: Request,
    ) -> Result<Answer, EngineError> {
        // A request goes some way, and so does its answer.
        shuttle::future::yield_now().await;
        let ended = on.hooks.ended.load(Ordering::SeqCst);
        assert!(!ended, "after its end it asked {request:?}");
        let answer = on.engine.call(&lock, request).await;
        shuttle::future::yield_now().await;
        answer
    }

    fn close(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }
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
