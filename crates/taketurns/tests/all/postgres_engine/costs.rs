//! Statements and transactions, counted by the server.

use taketurns::engine::{self, AcquireRequest, Engine, Owner, Reply, Request, Wakes};
use taketurns::{Ask, ClientId, Label, Name};
use taketurns_servers::eventually;
use taketurns_servers::others::PostgresDatabase;

use super::{database, patient};

/// As of the engine: one step in this many looks for locks to forget, from a client's first step on.
pub(super) const STEPS_PER_SWEEP: u32 = 64;

/// A client without renewals and refreshes of its own, so that only what the test asks for is counted.
pub(super) struct CountedClient {
    pub(super) engine: Box<dyn Engine>,
    pub(super) id: ClientId,
    wakes: Wakes,
}

impl CountedClient {
    pub(super) async fn open(database: &PostgresDatabase<'_>, id: u64) -> Self {
        Self::at(&database.url(), id).await
    }

    pub(super) async fn at(url: &str, id: u64) -> Self {
        let (id, (wakes, _)) = (ClientId::of_program(id), Wakes::channel());
        let url = patient(&format!("{url}?connections=1"));
        let engine = engine::open(&url, id, wakes.clone()).await.expect("a server");
        Self { engine, id, wakes }
    }

    pub(super) async fn ask(&self, lock: &str, request: Request) -> Reply {
        let name = Name::new(lock).expect("a name");
        self.engine.call(&name, request).await.expect("an answer").reply
    }

    pub(super) async fn acquire(&self, lock: &str, owner: u128) -> Reply {
        let name = Name::new(lock).expect("a name");
        self.wakes.register_owner(&name, Owner::from_bits(owner));
        self.ask(lock, self.request(owner).await).await
    }

    /// An acquire. Without its owner being registered, this client does not look for messages.
    pub(super) async fn request(&self, owner: u128) -> Request {
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
        Request::Acquire(acquire)
    }

    pub(super) async fn release(&self, lock: &str, owner: u128) -> Reply {
        let owner = Owner::from_bits(owner);
        self.ask(lock, Request::Release { owner, bury_until_ms: 0, last_used: None }).await
    }
}

/// How often the server has carried out statements like these in this database.
fn calls(database: &PostgresDatabase<'_>, which: &str) -> u32 {
    let sql = format!(
        "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements JOIN pg_database d ON d.oid = dbid \
         WHERE datname = '{}' AND query ~ '{which}'",
        database.name()
    );
    let calls = database.server().sql("postgres", &sql).expect("counts");
    calls.parse().expect("a number")
}

/// Statements that read or write locks or tell somebody, and transactions that wrote. (BEGIN, SET and COMMIT come in the
/// same messages. A holder looks for notices once a second, which is not counted.)
fn counted(database: &PostgresDatabase<'_>) -> (u32, u32) {
    let statements = "taketurns[.](lock|place|fence)|pg_notify";
    (calls(database, statements), calls(database, "^COMMIT"))
}

/// A sweep runs after its step was answered. Waits until all that are due have ended.
pub(super) fn settle(database: &PostgresDatabase<'_>, sweeps: u32) {
    let busy = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND state <> 'idle'",
        database.name()
    );
    eventually("the clients are idle", || {
        let swept = calls(database, "DELETE FROM taketurns.notice WHERE written_ms");
        assert!(swept <= sweeps, "{swept} sweeps");
        let busy = database.server().sql("postgres", &busy).expect("an answer");
        (swept == sweeps && busy == "0").then_some(())
    })
    .expect("they were swept");
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

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_and_a_release_take_two_statements_and_one_commit_each() {
    let database = database();
    database.stop_clock().expect("a clock");
    let client = CountedClient::open(&database, 1).await;
    // The first acquire makes the row.
    assert!(matches!(client.acquire("l", 1).await, Reply::Granted(_)));
    assert_eq!(client.release("l", 1).await, Reply::Released);
    settle(&database, 1);

    let (reply, acquire) = cost(&database, client.acquire("l", 2)).await;
    assert!(matches!(reply, Reply::Granted(_)));
    assert_eq!(acquire, (2, 1), "SELECT and UPDATE; COMMIT");
    let (reply, release) = cost(&database, client.release("l", 2)).await;
    assert_eq!(reply, Reply::Released);
    assert_eq!(release, (2, 1), "SELECT and UPDATE; COMMIT");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_takes_one_statement_more_and_a_thousand_renewals_four_transactions() {
    let database = database();
    database.stop_clock().expect("a clock");
    let (holder, waiter) =
        (CountedClient::open(&database, 1).await, CountedClient::open(&database, 2).await);
    assert!(matches!(holder.acquire("l", 1).await, Reply::Granted(_)));
    assert!(matches!(waiter.acquire("l", 2).await, Reply::Queued(_)));
    settle(&database, 2);
    let (reply, hand_over) = cost(&database, holder.release("l", 1)).await;
    assert_eq!(reply, Reply::Released);
    assert_eq!(hand_over, (3, 2), "SELECT and UPDATE; COMMIT; NOTIFY; COMMIT");

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
    // Of the holder: an acquire, a release, and a thousand acquires. The waiter had one.
    settle(&database, 1_002_u32.div_ceil(STEPS_PER_SWEEP) + 1);
    let (answers, renewals) = cost(&database, holder.engine.call_all(calls)).await;
    assert_eq!(answers.len(), 1_000);
    for answer in answers {
        assert!(matches!(answer.expect("an answer").reply, Reply::Renewed(_)));
    }
    assert_eq!(renewals, (8, 4), "256 locks each: SELECT and UPDATE; COMMIT");
}
