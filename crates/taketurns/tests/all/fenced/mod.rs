//! Fenced transactions of PostgreSQL: `taketurns.fence` in SQL, without the engine. A grant is what
//! `schema/1-fence.sql` says of one.

mod clients;
mod done;
mod function;
mod interleavings;

use taketurns::engine::postgres_schema;
use taketurns_servers::others::{Postgres, PostgresDatabase};
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

/// A database with our tables.
struct FencedDatabase(PostgresDatabase<'static>);

impl FencedDatabase {
    fn new() -> Self {
        let server = Postgres::shared().expect("PostgreSQL");
        let database = server.database().expect("a database");
        database.sql(&postgres_schema(0)).expect("our tables");
        Self(database)
    }

    /// A client, as the user that may do anything.
    async fn connect(&self) -> Client {
        connected(&self.0.url()).await
    }
}

async fn connected(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// The statements of a step of the engine that grants the lock with this token.
fn grant(lock: &str, token: i64) -> [String; 4] {
    [
        "BEGIN".to_owned(),
        format!("SELECT 1 FROM taketurns.lock WHERE name = '{lock}' FOR UPDATE"),
        format!(
            "INSERT INTO taketurns.fence AS f VALUES ('{lock}', '', {token}, true) ON CONFLICT (name, member)
             DO UPDATE SET token = greatest(f.token, {token}), exclusive = true"
        ),
        "COMMIT".to_owned(),
    ]
}

/// Makes the lock known, and grants it.
async fn granted(client: &Client, lock: &str, token: i64) {
    let row = format!(
        "INSERT INTO taketurns.lock VALUES ('{lock}', '', NULL, '') ON CONFLICT DO NOTHING"
    );
    let statements = grant(lock, token).join("; ");
    client.batch_execute(&format!("{row}; {statements}")).await.expect("a grant");
}

/// The SQLSTATE of an error of the server.
fn code(error: &Error) -> &str {
    error.code().expect("the server says why").code()
}

/// The first columns of the rows that a statement returns.
async fn column(client: &Client, sql: &str) -> Result<Vec<String>, Error> {
    let messages = client.simple_query(sql).await?;
    let value = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    Ok(messages.iter().filter_map(value).collect())
}
