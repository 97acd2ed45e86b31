//! Statements and round trips, counted by the server.

use std::time::Duration;

use taketurns::engine::{self, AcquireRequest, Engine, Owner, Reply, Request, Wakes};
use taketurns::{Ask, ClientId, Label, Name};
use taketurns_servers::others::PostgresDatabase;

use super::database;

/// A client without renewals and refreshes of its own, so that only what the test asks for is counted.
struct CountedClient {
    engine: Box<dyn Engine>,
    id: ClientId,
    wakes: Wakes,
}

impl CountedClient {
    async fn open(database: &PostgresDatabase<'_>, id: u64) -> Self {
        let (id, (wakes, _)) = (ClientId::of_program(id), Wakes::channel());
        let url = format!("{}?connections=1&response_timeout=60", database.url());
        let engine = engine::open(&url, id, wakes.clone()).await.expect("a server");
        Self { engine, id, wakes }
    }

    async fn ask(&self, lock: &str, request: Request) -> Reply {
        let name = Name::new(lock).expect("a name");
        self.engine.call(&name, request).await.expect("an answer").reply
    }

    async fn acquire(&self, lock: &str, owner: u128) -> Reply {
        let name = Name::new(lock).expect("a name");
        self.wakes.register_owner(&name, Owner::from_bits(owner));
        let now_ms = self.engine.ping().await.expect("an answer").now_ms;
        let acquire = AcquireRequest {
            owner: Owner::from_bits(owner),
            client: self.id,
            ask: Ask::Mutex,
            at_least_ms: 0,
            lease_ms: 60_000,
            waiter_lease_ms: Some(60_000),
            not_after_ms: now_ms + 60_000,
            ballot: None,
            label: Label::default(),
        };
        self.ask(lock, Request::Acquire(acquire)).await
    }

    async fn release(&self, lock: &str, owner: u128) -> Reply {
        let owner = Owner::from_bits(owner);
        self.ask(lock, Request::Release { owner, bury_until_ms: 0, last_used: None }).await
    }
}

/// What the server has carried out in this database since the last look: statements that read or write tables, and how
/// many rows these touched. (BEGIN, SET and COMMIT come in the same messages.)
fn counted(database: &PostgresDatabase<'_>) -> (u32, u32) {
    let sql = format!(
        "SELECT coalesce(sum(calls) FILTER (WHERE query ~ 'taketurns'), 0) || ' ' || \
         coalesce(sum(calls) FILTER (WHERE query ~ '^COMMIT'), 0) \
         FROM pg_stat_statements JOIN pg_database d ON d.oid = dbid \
         WHERE datname = '{0}' AND query !~ 'pg_stat_statements' AND query !~ 'pg_listening'; ",
        database.name()
    );
    let row = database.server().sql("postgres", &sql).expect("counts");
    let (statements, commits) = row.split_once(' ').expect("two numbers");
    (statements.parse().expect("a number"), commits.parse().expect("a number"))
}

async fn cost<T>(
    database: &PostgresDatabase<'_>,
    work: impl Future<Output = T>,
) -> (T, (u32, u32)) {
    let before = counted(database);
    let output = work.await;
    let after = counted(database);
    (output, (after.0 - before.0, after.1 - before.1))
}

#[tokio::test]
async fn an_acquire_and_a_release_take_two_statements_and_one_commit_each() {
    let database = database();
    database
        .server()
        .sql("postgres", "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        .expect("counts");
    let client = CountedClient::open(&database, 1).await;
    // The first step looks for what to forget, and the first acquire makes the row.
    assert!(matches!(client.acquire("l", 1).await, Reply::Granted(_)));
    assert_eq!(client.release("l", 1).await, Reply::Released);
    settle().await;

    let (reply, acquire) = cost(&database, client.acquire("l", 2)).await;
    assert!(matches!(reply, Reply::Granted(_)));
    assert_eq!(acquire, (2, 1), "SELECT and UPDATE; COMMIT");
    let (reply, release) = cost(&database, client.release("l", 2)).await;
    assert_eq!(reply, Reply::Released);
    assert_eq!(release, (2, 1), "SELECT and UPDATE; COMMIT");
}

#[tokio::test]
async fn a_hand_over_takes_one_statement_more_and_a_thousand_renewals_four_transactions() {
    let database = database();
    database
        .server()
        .sql("postgres", "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        .expect("counts");
    let (holder, waiter) =
        (CountedClient::open(&database, 1).await, CountedClient::open(&database, 2).await);
    assert!(matches!(holder.acquire("l", 1).await, Reply::Granted(_)));
    assert!(matches!(waiter.acquire("l", 2).await, Reply::Queued(_)));
    settle().await;
    let (reply, hand_over) = cost(&database, holder.release("l", 1)).await;
    assert_eq!(reply, Reply::Released);
    assert_eq!(hand_over.1, 2, "COMMIT of the step, and of NOTIFY");

    let names: Vec<Name> =
        (0..1_000).map(|number| Name::new(&format!("many/{number}")).expect("a name")).collect();
    let mut calls = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let owner = 1_000 + number as u128;
        assert!(matches!(holder.acquire(name.as_str(), owner).await, Reply::Granted(_)));
        let owner = Owner::from_bits(owner);
        let renew = Request::Renew { owner, client: holder.id, lease_ms: 60_000, write_back: None };
        calls.push((name.clone(), renew));
    }
    settle().await;
    let (answers, renewals) = cost(&database, holder.engine.call_all(calls)).await;
    assert_eq!(answers.len(), 1_000);
    for answer in answers {
        assert!(matches!(answer.expect("an answer").reply, Reply::Renewed(_)));
    }
    assert_eq!(renewals, (8, 4), "256 locks each: SELECT and UPDATE; COMMIT");
}

/// A sweep, if one is due, runs after its step was answered.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(200)).await;
}
