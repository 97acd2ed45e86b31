//! Fenced transactions of PostgreSQL: `taketurns.fence` in SQL. A grant is made by the functions that a step of the engine
//! calls, with a token of the test's choice.

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
    let row = format!("SELECT ctid::text FROM taketurns.lock WHERE name = '{lock}'");
    [
        "BEGIN".to_owned(),
        format!("SELECT FROM taketurns.load('{lock}')"),
        format!(
            "SELECT 1 / taketurns.save(
                 '{lock}', ({row}), '', NULL, '', ARRAY[''], ARRAY[{token}::bigint], ARRAY[true]
             )::integer"
        ),
        "COMMIT".to_owned(),
    ]
}

/// Grants the lock, which nobody has used.
async fn granted(client: &Client, lock: &str, token: i64) {
    client.batch_execute(&grant(lock, token).join("; ")).await.expect("a grant");
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
