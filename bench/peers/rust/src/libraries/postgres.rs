//! PostgreSQL's advisory locks, by prepared statements. A session holds them, so a client is a connection.
//! They have no lease. Who waits is woken by the server.

use tokio_postgres::{NoTls, Statement};

use crate::load::{self, Failure};

/// A session.
pub struct Client {
    session: tokio_postgres::Client,
    lock: Statement,
    unlock: Statement,
}

impl load::Client for Client {
    /// The lock's name.
    type Held = String;

    async fn connect(url: &str) -> Result<Self, Failure> {
        let (session, connection) = tokio_postgres::connect(url, NoTls).await?;
        // It ends with the session. The next query returns its errors.
        tokio::spawn(connection);
        let lock = session.prepare("SELECT pg_advisory_lock(hashtextextended($1, 0))").await?;
        let unlock = session.prepare("SELECT pg_advisory_unlock(hashtextextended($1, 0))").await?;
        Ok(Self { session, lock, unlock })
    }

    async fn acquire(&self, name: &str) -> Result<String, Failure> {
        self.session.query_one(&self.lock, &[&name]).await?;
        Ok(name.to_owned())
    }

    async fn release(&self, held: String) -> Result<(), Failure> {
        let row = self.session.query_one(&self.unlock, &[&held]).await?;
        if row.get(0) { Ok(()) } else { Err(format!("{held} was not held").into()) }
    }
}
