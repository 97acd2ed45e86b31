//! rslock. Its `acquire` waits for ever: it tries three times, up to 200 ms apart, and begins again.

use rslock::{LockGuard, LockManager};

use crate::load::{self, Failure, LEASE};

/// Its manager, of one server.
pub struct Client(LockManager);

impl load::Client for Client {
    type Held = LockGuard;

    async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self(LockManager::new(vec![url])))
    }

    async fn acquire(&self, name: &str) -> Result<LockGuard, Failure> {
        Ok(self.0.acquire(name, LEASE).await?)
    }

    async fn release(&self, held: LockGuard) -> Result<(), Failure> {
        held.release().await;
        Ok(())
    }
}
