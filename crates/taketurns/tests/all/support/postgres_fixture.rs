//! How the conformance suite opens a store in PostgreSQL: a database that no other test has, on a server that tests
//! share. Where the suite moves time by hand the clock of that database stands still, so that it does not matter how
//! long a step takes on a busy machine.

use std::time::Duration;

use taketurns::engine::{self, Engine, EngineFuture, Wakes};
use taketurns::{ClientId, Locks};
use taketurns_conformance::Fixture;
use taketurns_servers::others::{PgBouncer, Postgres, PostgresDatabase};

use super::redis_fixture::PATIENT;

/// A database of its own.
pub(crate) struct PostgresStore {
    database: PostgresDatabase<'static>,
    url: String,
    /// In front of the server, if the test wants one.
    _proxy: Option<PgBouncer>,
}

/// The server that the tests of this program share.
pub(crate) fn postgres() -> &'static Postgres {
    Postgres::shared().expect("a PostgreSQL")
}

impl PostgresStore {
    /// Directly.
    pub(crate) fn new() -> Self {
        let database = postgres().database().expect("a database");
        let url = format!("{}?{PATIENT}", database.url());
        Self { database, url, _proxy: None }
    }

    /// The same with these options.
    pub(crate) fn with(options: &str) -> Self {
        let store = Self::new();
        Self { url: format!("{}&{options}", store.url), ..store }
    }

    /// Behind a proxy that gives a connection for a transaction. Wake-ups come from the server itself.
    pub(crate) fn behind_proxy() -> Self {
        let database = postgres().database().expect("a database");
        let proxy = PgBouncer::start(postgres()).expect("pgbouncer");
        let listen = database.url().replace(':', "%3A").replace('/', "%2F").replace('@', "%40");
        let url = format!("{}?{PATIENT}&listen={listen}", proxy.url_of(database.name()));
        Self { database, url, _proxy: Some(proxy) }
    }
}

impl Fixture for PostgresStore {
    fn open(&self, client: ClientId, wakes: Wakes) -> EngineFuture<'_, Box<dyn Engine>> {
        Box::pin(async move {
            self.database.stop_clock().expect("a clock");
            engine::open(&self.url, client, wakes).await.expect("a server")
        })
    }

    fn pass(&self, time: Duration) -> EngineFuture<'_, ()> {
        Box::pin(async move { self.database.pass(time).expect("a clock") })
    }

    fn can_skip_hours(&self) -> bool {
        true
    }

    fn connect(&self) -> EngineFuture<'_, Locks> {
        Box::pin(async move { taketurns::connect(&self.url).await.expect("a server") })
    }
}
