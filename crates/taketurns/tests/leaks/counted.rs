//! A store whose engine counts what its clients have of it: the calls under way, and the owners that the clients'
//! own tables know.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use taketurns::engine::{
    Answer, AnswerFuture, Engine, EngineError, EngineFuture, Guarantees, Open, Pattern, Request,
    Stamp, Wakes,
};
use taketurns::{ClientId, Name, View};

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

/// Opens the store of a URL.
pub(crate) struct Counted {
    pub(crate) url: String,
    pub(crate) counts: Arc<Counts>,
}

impl Open for Counted {
    fn open(
        self: Box<Self>,
        client: ClientId,
        wakes: Wakes,
    ) -> EngineFuture<'static, Result<Box<dyn Engine>, EngineError>> {
        Box::pin(async move {
            self.counts.clients.lock().expect("no panic").push(wakes.clone());
            let engine = taketurns::engine::open(&self.url, client, wakes).await;
            let engine = engine.map_err(|error| EngineError::Broken(error.to_string()))?;
            Ok(Box::new(Counting { engine, counts: self.counts }) as Box<dyn Engine>)
        })
    }
}

struct Counting {
    engine: Box<dyn Engine>,
    counts: Arc<Counts>,
}

impl Engine for Counting {
    fn call(&self, lock: &Name, request: Request) -> AnswerFuture {
        let (call, answer) = (Call::start(&self.counts), self.engine.call(lock, request));
        AnswerFuture::later(async move {
            let answer = answer.await;
            drop(call);
            answer
        })
    }

    fn call_all<'a>(
        &'a self,
        calls: Vec<(Name, Request)>,
    ) -> EngineFuture<'a, Vec<Result<Answer, EngineError>>> {
        let call = Call::start(&self.counts);
        Box::pin(async move {
            let answers = self.engine.call_all(calls).await;
            drop(call);
            answers
        })
    }

    fn source(&self, lock: &Name) -> u64 {
        self.engine.source(lock)
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
        self.engine.close()
    }
}
