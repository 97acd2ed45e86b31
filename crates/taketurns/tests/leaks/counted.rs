//! A store whose engine counts what its clients have of it. A client watches an owner for as long as an
//! acquire of it is registered, and once more for as long as its guard is: what is watched is what the
//! client's own tables hold.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use taketurns::engine::{
    Answer, Engine, EngineError, EngineFuture, Guarantees, Open, Owner, Pattern, Request, Stamp,
    Wakes,
};
use taketurns::{ClientId, Name, View};

/// What all clients of one store have.
#[derive(Default)]
pub(crate) struct Counts {
    watched: Mutex<HashMap<Owner, i64>>,
    /// Calls whose future is neither done nor dropped.
    calls: AtomicUsize,
}

impl Counts {
    pub(crate) fn watched(&self) -> usize {
        self.owners().len()
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Counted in whichever order: an owner is gone when it was watched as often as not.
    fn count(&self, owner: Owner, by: i64) {
        let mut owners = self.owners();
        let count = owners.entry(owner).or_default();
        *count += by;
        if *count == 0 {
            owners.remove(&owner);
        }
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<Owner, i64>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn call<'a>(
        &'a self,
        lock: &'a Name,
        request: Request,
    ) -> EngineFuture<'a, Result<Answer, EngineError>> {
        let call = Call::start(&self.counts);
        Box::pin(async move {
            let answer = self.engine.call(lock, request).await;
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

    fn watch(&self, lock: &Name, owner: Owner) {
        self.counts.count(owner, 1);
        self.engine.watch(lock, owner);
    }

    fn unwatch(&self, owner: Owner) {
        self.engine.unwatch(owner);
        self.counts.count(owner, -1);
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
