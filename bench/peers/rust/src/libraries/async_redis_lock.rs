//! async-redis-lock. It tries every 100 ms, and by default gives up after 1 s: told not to.

use async_redis_lock::{Lock, Locker, Options};

use crate::load::{self, Failure};

/// Its locker.
pub struct Client {
    locker: Locker,
    options: Options,
}

impl load::Client for Client {
    type Held = Lock;

    async fn connect(url: &str) -> Result<Self, Failure> {
        let locker = Locker::from_redis_url(url).await?;
        Ok(Self { locker, options: Options::new().timeout(None) })
    }

    async fn acquire(&self, name: &str) -> Result<Lock, Failure> {
        Ok(self.locker.acquire_with_options(&self.options, name).await?)
    }

    async fn release(&self, held: Lock) -> Result<(), Failure> {
        Ok(held.release().await?)
    }
}
