//! What it costs a client to use again a lock that it keeps: nothing is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use taketurns::engine::{Answer, Engine, EngineError, Request, Wakes};
use taketurns::{ClientId, Connect, Keep, Name};
use taketurns_conformance::hooks::{HookedEngine, HookedStore, Hooks};

use crate::support::patience::block_on;

const PAIRS: usize = 1_000;

/// Counts the requests of one client.
struct Count(Arc<AtomicUsize>);

impl Hooks for Count {
    async fn open(&self, client: ClientId, wakes: Wakes) -> Result<Box<dyn Engine>, EngineError> {
        let engine = taketurns::engine::open("memory:", client, wakes).await;
        engine.map_err(|error| EngineError::Broken(error.to_string()))
    }

    async fn call(
        on: Arc<HookedEngine<Self>>,
        lock: Name,
        request: Request,
    ) -> Result<Answer, EngineError> {
        on.hooks.0.fetch_add(1, Ordering::Relaxed);
        on.engine.call(&lock, request).await
    }
}

#[test]
fn a_kept_lock_is_used_again_without_a_request() {
    block_on(async {
        let requests = Arc::new(AtomicUsize::new(0));
        let sent = || requests.load(Ordering::Relaxed);
        let store = HookedStore(Count(requests.clone()));
        let locks = Connect::engine(store).open().await.expect("a store");
        let mutex = locks.mutex("l");
        let mut last = None;
        for _ in 0..PAIRS {
            let guard = mutex.acquire().keep(Keep::UntilWanted).await.expect("free");
            assert!(Some(guard.token()) > last);
            last = Some(guard.token());
            guard.release().await.expect("held");
        }
        assert_eq!(sent(), 1, "one grant serves all");
        drop(mutex);
        locks.close().await;
        assert_eq!(sent(), 2, "and is given back at the end");
    });
}
