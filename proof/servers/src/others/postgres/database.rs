//! A database of its own on a server that others use as well.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Postgres;
use crate::SetupError;

/// An empty database. Dropping it ends its connections and removes it.
#[derive(Debug)]
pub struct PostgresDatabase<'a> {
    server: &'a Postgres,
    name: String,
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
        Ok(PostgresDatabase { server: self, name })
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
}

impl Drop for PostgresDatabase<'_> {
    fn drop(&mut self) {
        // A server that was ended has none to remove.
        let _ = self.server.sql("postgres", &format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}
