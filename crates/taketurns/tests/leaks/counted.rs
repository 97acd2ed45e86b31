//! A store whose engine counts what its clients have of it: the calls under way, and the owners that the clients'
//! own tables know.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use taketurns::engine::{Answer, Engine, EngineError, Request, Wakes};
use taketurns::{ClientId, Name};
use taketurns_conformance::hooks::{HookedEngine, Hooks};

/// What all clients of one store have.
#[derive(Default)]
pub(crate) struct Counts {
    clients: Mutex<Vec<Wakes>>,
    /// Calls whose future is neither done nor dropped.
    calls: AtomicUsize,
}

impl Counts {
    /// How many owners acquire or hold.
    pub(crate) fn owners(&self) -> usize {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.iter().map(Wakes::owner_count).sum()
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

/// One call under way.
struct Call(Arc<Counts>);

impl Call {
    fn start(counts: &Arc<Counts>) -> Self {
        counts.calls.fetch_add(1, Ordering::Relaxed);
        Self(counts.clone())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts for the clients of the store of a URL.
pub(crate) struct ResourceCount {
    pub(crate) url: String,
    pub(crate) counts: Arc<Counts>,
}

impl Hooks for ResourceCount {
    async fn open(&self, client: ClientId, wakes: Wakes) -> Result<Box<dyn Engine>, EngineError> {
        self.counts.clients.lock().expect("no panic").push(wakes.clone());
        let engine = taketurns::engine::open(&self.url, client, wakes).await;
        engine.map_err(|error| EngineError::Broken(error.to_string()))
    }

    fn call(
        on: Arc<HookedEngine<Self>>,
        lock: Name,
        request: Request,
    ) -> impl Future<Output = Result<Answer, EngineError>> + Send + 'static {
        let (call, answer) = (Call::start(&on.hooks.counts), on.engine.call(&lock, request));
        async move {
            let _call = call;
            answer.await
        }
    }

    async fn call_all(
        on: Arc<HookedEngine<Self>>,
        calls: Vec<(Name, Request)>,
    ) -> Vec<Result<Answer, EngineError>> {
        let _call = Call::start(&on.hooks.counts);
        on.engine.call_all(calls).await
    }
}
