//! The PostgreSQL engine on real servers: what the conformance suite does not ask. How fast a server answers is not what
//! these tests are about: their clients wait for as long as a test waits for anything.

mod blocking;
mod costs;
mod full_disk;
mod incarnations;
mod migration;
mod places;
mod refreshes;
mod refusals;
mod rights;
mod round_trips;
mod wake_ups;

use std::time::Duration;

use taketurns::{Error, ErrorKind, Locks};
use taketurns_servers::others::PostgresDatabase;

use crate::support::patience::soon;
use crate::support::postgres_fixture::postgres;
use crate::support::redis_fixture::PATIENT;

/// A database that no other test uses.
fn database() -> PostgresDatabase<'static> {
    postgres().database().expect("a database")
}

/// The URL for a client that waits long for an answer.
fn patient(url: &str) -> String {
    let sign = if url.contains('?') { '&' } else { '?' };
    format!("{url}{sign}{PATIENT}")
}

async fn connect(url: &str) -> Locks {
    taketurns::connect(&patient(url)).await.unwrap_or_else(|error| panic!("{error}"))
}

/// Connecting fails like this, in these words. Returns the error.
async fn is_refused(url: &str, kind: ErrorKind, words: &str) -> Error {
    let error = taketurns::connect(&patient(url)).await.expect_err("it can't be used");
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{words:?} is not in: {error}");
    error
}

/// Waits until the lock has this number of waiters.
async fn has_waiters(locks: &Locks, name: &str, waiting: usize) {
    let waits = async {
        while locks.inspect(name).await.expect("a look").is_none_or(|view| view.waiting != waiting)
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("it is waited for", waits).await;
}
