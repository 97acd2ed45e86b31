//! rlock. It waits for ever by default, and tries every 100 ms.

use rlock::async_lock::{RLock, RLockGuard};

use crate::load::{self, Failure};

/// Its manager.
pub struct Client(RLock);

impl load::Client for Client {
    type Held = RLockGuard;

    async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self(RLock::new(url).await?))
    }

    async fn acquire(&self, name: &str) -> Result<RLockGuard, Failure> {
        Ok(self.0.acquire_mutex(name).await?)
    }

    async fn release(&self, mut held: RLockGuard) -> Result<(), Failure> {
        Ok(held.release().await?)
    }
}
