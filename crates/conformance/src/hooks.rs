//! Puts a test between a client and its engine: the test sees every call and wake-up, and may change, delay or refuse
//! it.
//!
//! ```text
//!   client ── call, call_all, close ──▶ Hooks ──▶ the engine that Hooks::open opened
//!          ◀── wake-ups ───────────────       ◀──
//! ```
//!
//! What has no hook is forwarded unchanged.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use taketurns::engine::{
    Answer, AnswerFuture, Engine, EngineError, EngineFuture, Guarantees, Open, Pattern, Request,
    Stamp, Wakes,
};
use taketurns::{ClientId, Name, View};

/// What a test does between one client and its engine. Only [`Hooks::open`] is required.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use taketurns::engine::{Answer, Engine, EngineError, Request, Wakes};
/// use taketurns::{ClientId, Connect, Name};
/// use taketurns_conformance::hooks::{HookedEngine, HookedStore, Hooks};
///
/// /// Counts the requests of one client.
/// struct Count(Arc<AtomicUsize>);
///
/// impl Hooks for Count {
///     async fn open(&self, client: ClientId, wakes: Wakes) -> Result<Box<dyn Engine>, EngineError> {
///         let engine = taketurns::engine::open("memory:", client, wakes).await;
///         engine.map_err(|error| EngineError::Broken(error.to_string()))
///     }
///
///     async fn call(on: Arc<HookedEngine<Self>>, lock: Name, request: Request) -> Result<Answer, EngineError> {
///         on.hooks.0.fetch_add(1, Ordering::Relaxed);
///         on.engine.call(&lock, request).await
///     }
/// }
///
/// # taketurns_conformance::run(async {
/// let requests = Arc::new(AtomicUsize::new(0));
/// let locks = Connect::engine(HookedStore(Count(requests.clone()))).open().await.unwrap();
/// locks.mutex("import").acquire().await.unwrap().release().await.unwrap();
/// assert_eq!(requests.load(Ordering::Relaxed), 2);
/// # });
/// ```
pub trait Hooks: Sized + Send + Sync + 'static {
    /// Opens the engine for a client. To see or change wake-ups, give the engine other `wakes`, such as those of
    /// [`Wakes::intercept`], and forward what arrives.
    fn open(
        &self,
        client: ClientId,
        wakes: Wakes,
    ) -> impl Future<Output = Result<Box<dyn Engine>, EngineError>> + Send;

    /// Carries out one request. Default: forwards it.
    fn call(
        on: Arc<HookedEngine<Self>>,
        lock: Name,
        request: Request,
    ) -> impl Future<Output = Result<Answer, EngineError>> + Send + 'static {
        on.engine.call(&lock, request)
    }

    /// Carries out several requests. Default: each by itself, through [`Hooks::call`].
    fn call_all(
        on: Arc<HookedEngine<Self>>,
        calls: Vec<(Name, Request)>,
    ) -> impl Future<Output = Vec<Result<Answer, EngineError>>> + Send {
        let call = |(lock, request)| Self::call(on.clone(), lock, request);
        join_all(calls.into_iter().map(call))
    }

    /// Learns that the client ends its connection, before the engine does. Default: does nothing.
    fn close(&self) {}
}

/// An engine with its hooks.
pub struct HookedEngine<H> {
    /// The engine that [`Hooks::open`] opened. Dropped before the hooks.
    pub engine: Arc<dyn Engine>,
    /// The hooks between the engine and its client.
    pub hooks: H,
}

/// Opens a [`HookedEngine`] for one client: give it to [`taketurns::Connect::engine`].
pub struct HookedStore<H>(pub H);

impl<H: Hooks> Open for HookedStore<H> {
    fn open(
        self: Box<Self>,
        client: ClientId,
        wakes: Wakes,
    ) -> EngineFuture<'static, Result<Box<dyn Engine>, EngineError>> {
        Box::pin(async move {
            let hooks = self.0;
            let engine = hooks.open(client, wakes).await?.into();
            let forwarding = Forwarding(Arc::new(HookedEngine { engine, hooks }));
            Ok(Box::new(forwarding) as Box<dyn Engine>)
        })
    }
}

/// A [`HookedEngine`] as its client sees it. Shared with the calls that are under way.
struct Forwarding<H>(Arc<HookedEngine<H>>);

impl<H: Hooks> Engine for Forwarding<H> {
    fn call(&self, lock: &Name, request: Request) -> AnswerFuture {
        AnswerFuture::later(H::call(self.0.clone(), lock.clone(), request))
    }

    fn call_all<'a>(
        &'a self,
        calls: Vec<(Name, Request)>,
    ) -> EngineFuture<'a, Vec<Result<Answer, EngineError>>> {
        Box::pin(H::call_all(self.0.clone(), calls))
    }

    fn source(&self, lock: &Name) -> u64 {
        self.0.engine.source(lock)
    }

    fn ping(&self) -> EngineFuture<'_, Result<Stamp, EngineError>> {
        self.0.engine.ping()
    }

    fn view<'a>(
        &'a self,
        lock: &'a Name,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Option<View>, EngineError>> {
        self.0.engine.view(lock, waiters_max)
    }

    fn list<'a>(
        &'a self,
        pattern: &'a Pattern,
        after: Option<&'a Name>,
        max: usize,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Vec<(Name, View)>, EngineError>> {
        self.0.engine.list(pattern, after, max, waiters_max)
    }

    fn max_lease(&self) -> Duration {
        self.0.engine.max_lease()
    }

    fn max_waiter_lease(&self) -> Duration {
        self.0.engine.max_waiter_lease()
    }

    fn guarantees(&self) -> Guarantees {
        self.0.engine.guarantees()
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        self.0.hooks.close();
        self.0.engine.close()
    }
}
