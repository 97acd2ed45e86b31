//! How the conformance suite opens a Redis or Valkey store: by a URL, with a prefix that no other
//! test has, since tests share a server. How fast a server answers is not what the suite is about: on a busy machine
//! it may take longer than a client waits by default.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use taketurns::engine::{self, Engine, EngineFuture, Wakes};
use taketurns::{ClientId, Locks};
use taketurns_conformance::Fixture;

/// Options with which a client waits as long for an answer as a test waits for anything.
pub(crate) const PATIENT: &str = "connect_timeout=60&response_timeout=60";

/// Locks under a prefix that no other test has.
pub(crate) struct Redis {
    url: String,
}

impl Redis {
    /// Of the server at the URL that is made for a prefix.
    pub(crate) fn with(url_for: impl FnOnce(&str) -> String) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("t{}:", NEXT.fetch_add(1, Ordering::Relaxed));
        let url = url_for(&prefix);
        let sign = if url.contains('?') { '&' } else { '?' };
        Self { url: format!("{url}{sign}prefix={prefix}&{PATIENT}") }
    }
}

impl Fixture for Redis {
    fn open(&self, client: ClientId, wakes: Wakes) -> EngineFuture<'_, Box<dyn Engine>> {
        Box::pin(async move { engine::open(&self.url, client, wakes).await.expect("a server") })
    }

    fn pass(&self, time: Duration) -> EngineFuture<'_, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn can_skip_hours(&self) -> bool {
        false
    }

    fn connect(&self) -> EngineFuture<'_, Locks> {
        Box::pin(async move { taketurns::connect(&self.url).await.expect("a server") })
    }
}
