//! distributed-lock, on Redis. With one server its `acquire` fails at once if the lock is taken, whatever
//! timeout it is given, and it has no option to try again. So its caller has to, here every 100 ms, which
//! is what most others take for themselves.

use std::time::Duration;

use distributed_lock_core::{DistributedLock, LockError, LockHandle, LockProvider};
use distributed_lock_redis::{RedisLockHandle, RedisLockProvider};
use tokio::time::sleep;

use crate::load::{self, Failure};

const PAUSE: Duration = Duration::from_millis(100);

/// Its provider, of one server.
pub struct Client(RedisLockProvider);

impl load::Client for Client {
    type Held = RedisLockHandle;

    async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self(RedisLockProvider::new(url).await?))
    }

    async fn acquire(&self, name: &str) -> Result<RedisLockHandle, Failure> {
        let lock = self.0.create_lock(name);
        loop {
            match lock.acquire(None).await {
                Ok(held) => return Ok(held),
                Err(LockError::Timeout(_)) => sleep(PAUSE).await,
                Err(other) => return Err(other.into()),
            }
        }
    }

    async fn release(&self, held: RedisLockHandle) -> Result<(), Failure> {
        Ok(held.release().await?)
    }
}
