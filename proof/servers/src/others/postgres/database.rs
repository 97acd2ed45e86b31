//! A database of its own on a server that others use as well.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Postgres;
use crate::{ServerClock, SetupError};

/// An empty database. Dropping it ends its connections and removes it.
#[derive(Debug)]
pub struct PostgresDatabase<'a> {
    server: &'a Postgres,
    name: String,
    /// The place of its clock, if it has one of its own.
    clock: OnceLock<usize>,
}

impl Postgres {
    /// Makes a database of its own.
    ///
    /// # Errors
    ///
    /// If the server does not run, or does not want to.
    pub fn database(&self) -> Result<PostgresDatabase<'_>, SetupError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        // Not `template1`, which a second test that makes one at this moment may be using.
        self.sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE template0"))?;
        Ok(PostgresDatabase { server: self, name, clock: OnceLock::new() })
    }
}

impl<'a> PostgresDatabase<'a> {
    /// Its server.
    pub fn server(&self) -> &'a Postgres {
        self.server
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its URL, with a user that may do anything.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// Its URL for a user. With a password this is `user:password`.
    pub fn url_of(&self, user: &str) -> String {
        self.server.url_of(user, &self.name)
    }

    /// [`Postgres::sql`] in this database.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn sql(&self, sql: &str) -> Result<String, SetupError> {
        self.server.sql(&self.name, sql)
    }

    /// Stops the clock of this database, and of no other: from now on time [passes](Self::pass) when the test says so.
    /// A server process that waits, for the row of another or for its client, does so until it gets it.
    ///
    /// # Errors
    ///
    /// If the server is not the [shared](Postgres::shared) one.
    pub fn stop_clock(&self) -> Result<(), SetupError> {
        if self.clock.get().is_some() {
            return Ok(());
        }
        let id = self.sql("SELECT oid FROM pg_database WHERE datname = current_database()")?;
        let id = id.parse().map_err(std::io::Error::other)?;
        let place = self.clocks()?.stop_database(id)?;
        if self.clock.set(place).is_err() {
            // Somebody else has stopped it meanwhile.
            self.clocks()?.forget_database(place)?;
        }
        Ok(())
    }

    /// Lets so much time pass on the clock of this database, which was [stopped](Self::stop_clock).
    ///
    /// # Errors
    ///
    /// If it was not.
    pub fn pass(&self, time: Duration) -> Result<(), SetupError> {
        let place = self.clock.get().ok_or_else(|| std::io::Error::other("the clock runs"))?;
        Ok(self.clocks()?.pass_in_database(*place, time)?)
    }

    fn clocks(&self) -> Result<&ServerClock, SetupError> {
        let clocks = self.server.builder.database_clocks.as_deref();
        Ok(clocks.ok_or_else(|| std::io::Error::other("databases have no clocks here"))?)
    }
}

impl Drop for PostgresDatabase<'_> {
    fn drop(&mut self) {
        // A server that was ended has none to remove.
        let _ = self.server.sql("postgres", &format!("DROP DATABASE {} WITH (FORCE)", self.name));
        if let (Some(place), Ok(clocks)) = (self.clock.get(), self.clocks()) {
            let _ = clocks.forget_database(*place);
        }
    }
}
