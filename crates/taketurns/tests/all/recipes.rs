//! The program of `docs/recipes/postgresql.md`, run with a real Redis and a real PostgreSQL. As it is on the page, it
//! reads its environment, so it runs in a process of its own.

use std::env;
use std::process::Command;

use taketurns_servers::others::Postgres;
use taketurns_servers::{Flavor, Server};

use crate::support::patience::{block_on, soon};

// The program, with its `main`.
include!("recipes/postgres.rs");

#[test]
fn the_program_is_the_one_on_the_page() {
    let page = include_str!("../../docs/recipes/postgresql.md");
    let program = include_str!("recipes/postgres.rs");
    assert!(page.contains(&format!("```rust,no_run\n{program}```\n")), "they differ");
}

async fn connected(database: &str) -> Client {
    let (client, connection) =
        tokio_postgres::connect(database, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

#[test]
fn a_holder_writes_the_row_and_a_stale_token_does_not() {
    const NAME: &str = "recipes::a_holder_writes_the_row_and_a_stale_token_does_not";
    if env::var_os("TAKETURNS_TEST_ALONE").is_some() {
        return main().expect("the row is written");
    }
    let (redis, postgres) = (Server::start(Flavor::Redis), Postgres::start());
    let (redis, postgres) = (redis.expect("Redis"), postgres.expect("PostgreSQL"));
    let url = postgres.url();
    let test = async {
        let client = connected(&url).await;
        let table = "CREATE TABLE orders
                         (id bigint PRIMARY KEY, state text NOT NULL, fence bigint NOT NULL DEFAULT 0);
                     INSERT INTO orders VALUES (42, 'new')";
        client.batch_execute(table).await.expect("a table");
        let mut program = Command::new(env::current_exe().expect("this program"));
        program.args(["--exact", NAME]).env("TAKETURNS_TEST_ALONE", "1");
        program.env("DATABASE", &url).env("TAKETURNS_STORE", redis.url());
        let ended = program.output().expect("started");
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        assert!(ended.status.success() && said.contains("1 passed"), "{said}");

        let refused = mark_sent(&client, 42, Token::from_raw(33)).await;
        refused.expect_err("a token far older than the one that wrote the row");
        let row = client.query_one("SELECT state, fence FROM orders", &[]).await.expect("a row");
        let (state, fence): (&str, i64) = (row.get(0), row.get(1));
        assert!(state == "sent" && fence > 33, "{state} {fence}");
    };
    block_on(soon("the recipe", test));
}
