//! Giving back what the engine may have of an owner: a lock that was held, or a place in a queue.

use taketurns_core::client::Backoff;
use taketurns_core::{Name, Owner, Reply, Request, Token};

use crate::client::{Client, sleep_until_us};
use crate::clock::local_us;
use crate::engine::EngineError;
use crate::sync::Arc;
use crate::{Error, random};

/// An engine that says it is broken may mend (a disk that was full), but not for long is it worth
/// keeping anybody waiting.
const BROKEN_PATIENCE_US: u64 = 5_000_000;

/// Releases a lock or gives up a place, again and again until the engine answers or it can't matter
/// any more. Of the tokens that were reserved with the lock, those after `last_used` go back with it.
pub(crate) async fn give_up(
    client: &Arc<Client>,
    lock: &Name,
    owner: Owner,
    bury_until_ms: u64,
    last_used: Option<Token>,
    for_us: u64,
) -> Result<(), Error> {
    let started_us = local_us();
    let until_us = started_us + for_us;
    let mut backoff = Backoff::default();
    let mut unknown = None;
    loop {
        let request = Request::Release { owner, bury_until_ms, last_used };
        let error = match client.call(lock, request).await {
            Ok((Reply::NotHeld, _)) => match unknown {
                // Either an earlier try did it, or the lease was over.
                Some(why) => return Err(Error::Indeterminate { lock: lock.clone(), why }),
                None => return Err(Error::NotHeld { lock: lock.clone() }),
            },
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        let pause_us = backoff.pause_us(random::bits64());
        let until_us = match error {
            EngineError::Unsupported(_) | EngineError::Unfenced => 0,
            EngineError::Broken(_) => until_us.min(started_us + BROKEN_PATIENCE_US),
            _ => until_us,
        };
        if local_us() + pause_us >= until_us {
            return Err(Error::from_engine(lock, error));
        }
        if matches!(error, EngineError::Unknown(_) | EngineError::NoQuorum(_)) {
            unknown = Some(error.to_string());
        }
        sleep_until_us(local_us() + pause_us).await;
    }
}
