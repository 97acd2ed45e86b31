//! Getting the lock, for `run` and `acquire`: with a word to whoever watches, and an open ear for
//! signals, on which the place in the queue is given up.

use std::time::Duration;

use taketurns::{Guard, Locks};

use crate::ask::AskArgs;
use crate::exit::{self, Failure};
use crate::signals::Signals;
use crate::status;
use crate::store;

/// Connects, and gives up on a signal.
pub(crate) async fn open(
    url: Option<&str>,
    program: &str,
    signals: &mut Signals,
) -> Result<Locks, Failure> {
    signals.unless("connecting", store::open(url, program)).await?
}

/// Acquires the lock as the arguments say. Failing to is a failure with the code the user chose.
pub(crate) async fn acquire(
    locks: &Locks,
    ask: &AskArgs,
    max_hold: Option<Duration>,
    signals: &mut Signals,
) -> Result<Guard, Failure> {
    let informed = async {
        tokio::select! {
            biased;
            acquired = ask.acquire(locks, max_hold) => acquired,
            () = status::keep_informed(locks, &ask.lock, ask.verbose) => unreachable!("it never ends"),
        }
    };
    let doing = format!("waiting for {}", ask.lock);
    let acquired = signals.unless(&doing, informed).await?;
    let guard =
        acquired.map_err(|error| Failure::from(error).not_had_as(ask.conflict_exit_code))?;
    guard.ok_or_else(|| {
        let message = format_args!("{} is not free, and -n says not to wait for it", ask.lock);
        Failure::new(exit::NOT_HAD, message).not_had_as(ask.conflict_exit_code)
    })
}
