//! The PostgreSQL engine on real servers: what the conformance suite does not ask.

mod costs;
mod incarnations;
mod migration;
mod places;
mod refusals;
mod rights;
mod wake_ups;

use taketurns::{ErrorKind, Locks};
use taketurns_servers::others::PostgresDatabase;

use crate::support::postgres_fixture::postgres;

/// A database that no other test uses.
fn database() -> PostgresDatabase<'static> {
    postgres().database().expect("a database")
}

async fn connect(url: &str) -> Locks {
    taketurns::connect(url).await.unwrap_or_else(|error| panic!("{error}"))
}

/// Connecting fails like this, in these words.
#[track_caller]
fn is_refused(connected: Result<Locks, taketurns::Error>, kind: ErrorKind, words: &str) {
    let error = connected.expect_err("it can't be used");
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{words:?} is not in: {error}");
}
