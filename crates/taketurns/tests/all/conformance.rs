//! The conformance suite on the engines of this crate.

use std::path::PathBuf;
use std::time::Duration;

use taketurns::engine::{Clock, Engine, EngineFuture, FileEngine, ManualClock, MemoryStore, Wakes};
use taketurns::{ClientId, Connect, Locks};
use taketurns_conformance::Fixture;

struct Memory {
    manual: ManualClock,
    store: MemoryStore,
    shared: MemoryStore,
}

impl Memory {
    fn new() -> Self {
        let manual = ManualClock::new();
        let store = MemoryStore::new(Clock::Manual(manual.clone()));
        Self { manual, store, shared: MemoryStore::new(Clock::System) }
    }
}

impl Fixture for Memory {
    fn open(&self, client: ClientId, wakes: Wakes) -> EngineFuture<'_, Box<dyn Engine>> {
        Box::pin(async move { Box::new(self.store.engine(client, wakes)) as Box<dyn Engine> })
    }

    fn pass(&self, time: Duration) -> EngineFuture<'_, ()> {
        Box::pin(async move { self.manual.advance(time) })
    }

    fn can_skip_hours(&self) -> bool {
        true
    }

    fn connect(&self) -> EngineFuture<'_, Locks> {
        let connect = Connect::engine(self.shared.clone());
        Box::pin(async move { connect.open().await.expect("a store in memory") })
    }
}

struct File {
    manual: ManualClock,
    dir: tempfile::TempDir,
}

impl File {
    fn new() -> Self {
        Self {
            manual: ManualClock::new(),
            dir: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Fixture for File {
    fn open(&self, client: ClientId, wakes: Wakes) -> EngineFuture<'_, Box<dyn Engine>> {
        Box::pin(async move {
            let clock = Clock::Manual(self.manual.clone());
            let engine = FileEngine::open(self.path("manual.db"), clock, client, wakes).await;
            Box::new(engine.expect("a store in a file")) as Box<dyn Engine>
        })
    }

    fn pass(&self, time: Duration) -> EngineFuture<'_, ()> {
        Box::pin(async move { self.manual.advance(time) })
    }

    fn can_skip_hours(&self) -> bool {
        true
    }

    fn connect(&self) -> EngineFuture<'_, Locks> {
        let url = format!("file:{}", self.path("system.db").display());
        Box::pin(async move { taketurns::connect(&url).await.expect("a store in a file") })
    }
}

/// By name within the process.
#[tokio::test]
async fn a_store_in_memory_is_shared_if_it_has_a_name() {
    for (url, shared) in [("memory:a store of this test", true), ("memory:", false)] {
        let one = taketurns::connect(url).await.expect("memory");
        let other = taketurns::connect(url).await.expect("memory");
        let _guard = one.mutex("l").acquire().await.expect("free");
        let tried = other.mutex("l").try_acquire().await.expect("memory answers");
        assert_eq!(tried.is_none(), shared, "{url}");
    }
}

mod memory {
    use super::*;
    taketurns_conformance::tests!(Memory::new());
}

mod file {
    use super::*;
    taketurns_conformance::tests!(File::new());
}
