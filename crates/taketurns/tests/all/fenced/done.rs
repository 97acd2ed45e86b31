//! `taketurns.done`, and [`Attempt::done_in`](taketurns::Attempt::done_in): work that is done with the commit of the
//! transaction that does it.

use sqlx_core::connection::Connection;
use sqlx_postgres::PgConnection;
use taketurns::fence::{DONE_BEFORE, SHARED_LOCK, STALE_TOKEN, UNKNOWN_TOKEN};
use taketurns::{Attempt, Begun, Completion, Locks, Once};
use taketurns_servers::fuzz::Dice;
use taketurns_servers::others::{Postgres, PostgresDatabase};
use tokio_postgres::{Client, Error};

use super::{code, column, connected, granted};
use crate::support::patience::{block_on, soon};

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
/// A commit at a stricter level that comes second.
const NOT_SERIALIZABLE: &str = "40001";

/// A database with a store, and with a table that says which attempt did the work.
struct WorkDatabase(PostgresDatabase<'static>);

impl WorkDatabase {
    fn new() -> Self {
        let database = Postgres::shared().expect("PostgreSQL").database().expect("a database");
        let log = "CREATE TABLE log (once text, token bigint)";
        database.sql(log).expect("a table");
        Self(database)
    }

    async fn store(&self) -> Locks {
        taketurns::connect(&self.0.url()).await.expect("a store")
    }

    async fn client(&self) -> Client {
        connected(&self.0.url()).await
    }
}

async fn attempt(once: &Once) -> Attempt {
    match soon("an attempt", once.begin()).await.expect("begun") {
        Begun::Attempt(attempt) => attempt,
        Begun::DoneBefore(done) => panic!("{done:?}"),
    }
}

async fn done_before(once: &Once) -> Completion {
    match soon("an answer", once.begin()).await.expect("an answer") {
        Begun::DoneBefore(done) => done,
        Begun::Attempt(attempt) => panic!("it was done, and this may do it again: {attempt:?}"),
    }
}

/// Begins a transaction that does the work, up to its commit.
async fn work(client: &Client, level: &str, once: &str, token: u64) -> Result<(), Error> {
    let statements = format!(
        "BEGIN ISOLATION LEVEL {level}; INSERT INTO log VALUES ('{once}', {token});
         SELECT taketurns.done('{once}', {token}, 'said')"
    );
    client.batch_execute(&statements).await
}

/// The SQLSTATE with which a call is refused at once.
async fn refused(client: &Client, call: &str) -> String {
    let error = client.batch_execute(&format!("BEGIN; SELECT {call}")).await.expect_err(call);
    client.batch_execute("ROLLBACK").await.expect("a connection");
    code(&error).to_owned()
}

async fn written(client: &Client) -> Vec<String> {
    column(client, "SELECT token FROM log").await.expect("rows")
}

#[test]
fn work_is_done_with_the_commit_and_not_if_the_transaction_is_rolled_back() {
    let database = WorkDatabase::new();
    block_on(async {
        let (locks, others) = (database.store().await, database.store().await);
        let client = database.client().await;
        for level in LEVELS {
            client.batch_execute("TRUNCATE log").await.expect("empty");
            let once = locks.once(format!("in {level}")).why("a test");
            let attempt = attempt(&once).await;
            let (name, token) = (attempt.name().to_string(), attempt.token().raw());
            work(&client, level, &name, token).await.expect("under way");
            client.batch_execute("ROLLBACK").await.expect("undone");
            assert_eq!(once.completion().await.expect("a look"), None, "{level}");
            work(&client, level, &name, token).await.expect("under way");
            client.batch_execute("COMMIT").await.expect("done");

            // Seen at once by all who look or ask, before its worker says anything.
            let seen = once.completion().await.expect("a look").expect("done");
            let told = done_before(&others.once(name)).await;
            for done in [&seen, &told] {
                assert_eq!((done.token.raw(), done.result.as_str()), (token, "said"), "{level}");
                assert!(done.by.to_string().contains("a test"), "{}", done.by);
            }
            assert_eq!((seen.at_ms, seen.until_ms), (told.at_ms, told.until_ms));
            drop(attempt);
            assert_eq!(written(&client).await, [token.to_string()], "{level}");
        }
    });
}

#[test]
fn a_commit_is_refused_once_the_attempt_has_ended() {
    let database = WorkDatabase::new();
    block_on(async {
        let (locks, client) = (database.store().await, database.client().await);
        for (at, level) in LEVELS.into_iter().enumerate() {
            let wanted = if at == 0 { STALE_TOKEN } else { NOT_SERIALIZABLE };
            for is_granted_again in [false, true] {
                let once = locks.once(format!("{level} {is_granted_again}"));
                let stale = attempt(&once).await;
                let (name, token) = (stale.name().to_string(), stale.token().raw());
                work(&client, level, &name, token).await.expect("under way");
                locks.break_lock(&name).at_once().await.expect("broken");
                let next = if is_granted_again { Some(attempt(&once).await) } else { None };
                let error = client.batch_execute("COMMIT").await.expect_err("it is stale");
                assert_eq!(code(&error), wanted, "{level}: {error:?}");
                let again = format!("taketurns.done('{name}', {token})");
                assert_eq!(refused(&client, &again).await, STALE_TOKEN, "{level}");
                drop((stale, next));
                assert_eq!(once.completion().await.expect("a look"), None, "{level}");
            }
        }
        assert_eq!(written(&client).await, [""; 0]);
    });
}

#[test]
fn a_second_transaction_of_the_attempt_is_told_that_it_was_done_before() {
    let database = WorkDatabase::new();
    block_on(async {
        let locks = database.store().await;
        let (client, second) = (database.client().await, database.client().await);
        for (at, level) in LEVELS.into_iter().enumerate() {
            client.batch_execute("TRUNCATE log").await.expect("empty");
            let once = locks.once(level);
            let attempt = attempt(&once).await;
            let token = attempt.token().raw();
            let again = format!("taketurns.done('{level}', {token})");
            work(&client, level, level, token).await.expect("under way");
            work(&second, level, level, token).await.expect("under way");
            client.batch_execute("COMMIT").await.expect("done");
            let error = second.batch_execute("COMMIT").await.expect_err("done before");
            let wanted = if at == 0 { DONE_BEFORE } else { NOT_SERIALIZABLE };
            assert_eq!(code(&error), wanted, "{level}: {error:?}");
            assert_eq!(refused(&client, &again).await, DONE_BEFORE, "the lock does not know it");
            attempt.done().await.expect("this is so");
            assert_eq!(refused(&client, &again).await, DONE_BEFORE, "the lock knows it");
            assert!(once.undo().await.expect("undone"));
            assert_eq!(refused(&client, &again).await, DONE_BEFORE, "a new attempt is needed");
            assert_eq!(written(&client).await, [token.to_string()], "{level}");
        }
        let once = locks.once("said by its worker");
        let attempt = attempt(&once).await;
        let again = format!("taketurns.done('said by its worker', {})", attempt.token());
        attempt.done().await.expect("done");
        assert_eq!(refused(&client, &again).await, DONE_BEFORE);
    });
}

#[test]
fn those_who_wait_are_told_when_the_attempt_is_dropped_after_the_commit() {
    let database = WorkDatabase::new();
    block_on(async {
        let (locks, others) = (database.store().await, database.store().await);
        let mut client = database.client().await;
        let attempt = attempt(&locks.once("a")).await;
        let waiting = tokio::spawn(async move { done_before(&others.once("a")).await });
        soon("a place in the queue", async {
            let waits = || async { locks.inspect("a").await.expect("a look").expect("held") };
            while waits().await.waiting == 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let transaction = client.transaction().await.expect("begun");
        attempt.done_in(&transaction, "3 rows").await.expect("under way");
        transaction.commit().await.expect("done");
        drop(attempt);
        let done = soon("the waiter", waiting).await.expect("told");
        assert_eq!((done.result.as_str(), done.failed), ("3 rows", 0));
    });
}

#[test]
fn with_sqlx_it_is_the_same() {
    let database = WorkDatabase::new();
    block_on(async {
        let locks = database.store().await;
        let mut client = PgConnection::connect(&database.0.url()).await.expect("a connection");
        let attempt = attempt(&locks.once("a")).await;
        let mut transaction = client.begin().await.expect("begun");
        attempt.done_in(&mut transaction, "").await.expect("under way");
        transaction.commit().await.expect("done");
        let mut transaction = client.begin().await.expect("begun");
        let error = attempt.done_in(&mut transaction, "").await.expect_err("done before");
        assert!(error.to_string().contains("was done before"), "{error}");
        drop(transaction);
        assert_eq!(done_before(&locks.once("a")).await.token, attempt.token());
    });
}

#[test]
fn a_step_that_would_end_the_attempt_waits_for_a_commit_that_has_begun_and_finds_it_done() {
    let database = WorkDatabase::new();
    block_on(async {
        let (locks, client) = (database.store().await, database.client().await);
        let once = locks.once("a");
        let attempt = attempt(&once).await;
        work(&client, "READ COMMITTED", "a", attempt.token().raw()).await.expect("under way");
        // As at the beginning of a COMMIT, which no client can stop in the middle.
        client.batch_execute("SET CONSTRAINTS ALL IMMEDIATE").await.expect("valid");
        let breaks = tokio::spawn({
            let locks = locks.clone();
            async move { locks.break_lock("a").at_once().await }
        });
        let looks = database.client().await;
        soon("the step waits", async {
            let waiting = "SELECT 1 FROM pg_stat_activity
                           WHERE wait_event_type = 'Lock' AND datname = current_database()";
            while column(&looks, waiting).await.expect("a list").is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        client.batch_execute("COMMIT").await.expect("it is the first");
        let broken = soon("the step", breaks).await.expect("no panic").expect("carried out");
        assert_eq!(broken, 0, "nobody held it any more");
        assert_eq!(done_before(&once).await.token, attempt.token());
    });
}

#[test]
fn a_transaction_that_hangs_holds_up_nobody() {
    let database = WorkDatabase::new();
    block_on(async {
        let (locks, client) = (database.store().await, database.client().await);
        let once = locks.once("a");
        let hangs = attempt(&once).await;
        work(&client, "SERIALIZABLE", "a", hangs.token().raw()).await.expect("under way");
        locks.break_lock("a").at_once().await.expect("broken");
        let next = attempt(&once).await;
        next.done().await.expect("done");
        client.batch_execute("COMMIT").await.expect_err("it is stale");
        assert_eq!(written(&client).await, [""; 0]);
    });
}

#[test]
fn what_is_no_attempt_is_refused() {
    let database = WorkDatabase::new();
    block_on(async {
        let (locks, client) = (database.store().await, database.client().await);
        let guard = locks.mutex("mutex").acquire().await.expect("acquired");
        let shared = locks.semaphore("gpu", 2).acquire().await.expect("acquired");
        let attempt = attempt(&locks.once("a")).await;
        let (mutex, gpu, token) = (guard.token(), shared.token(), attempt.token());
        let long = "é".repeat(129);
        for (call, wanted) in [
            (format!("'mutex', {mutex}"), UNKNOWN_TOKEN),
            (format!("'gpu', {gpu}"), SHARED_LOCK),
            ("'unheard of', 1".to_owned(), UNKNOWN_TOKEN),
            ("NULL, 1".to_owned(), UNKNOWN_TOKEN),
            ("'a', NULL".to_owned(), UNKNOWN_TOKEN),
            (format!("'a', {token} + 1"), UNKNOWN_TOKEN),
            (format!("'a', {token} - 1"), STALE_TOKEN),
            (format!("'a', {token}, NULL"), "22023"),
            (format!("'a', {token}, '{long}'"), "22023"),
            (format!("'a', {token}, E'two\\nlines'"), "22023"),
            (format!("'a', {token}, E'\\u0085'"), "22023"),
        ] {
            let call = format!("taketurns.done({call})");
            assert_eq!(refused(&client, &call).await, wanted, "{call}");
        }
        let allowed = format!("SELECT taketurns.done('a', {token}, '{}')", &long[2..]);
        client.batch_execute(&allowed).await.expect("256 bytes");
    });
}

#[test]
fn only_who_may_execute_the_function_can_say_that_work_is_done() {
    let database = WorkDatabase::new();
    block_on(async {
        let (locks, admin) = (database.store().await, database.client().await);
        let attempt = attempt(&locks.once("a")).await;
        let role = format!("app_{}", database.0.name());
        let role_may = |what: &str| format!("GRANT {what} TO {role}");
        let made = format!("CREATE ROLE {role} LOGIN PASSWORD 'secret'");
        admin.batch_execute(&made).await.expect("a role");
        admin.batch_execute(&role_may("USAGE ON SCHEMA taketurns")).await.expect("a right");
        let app = connected(&database.0.url_of(&format!("{role}:secret"))).await;
        let call = format!("taketurns.done('a', {})", attempt.token());
        assert_eq!(refused(&app, &call).await, "42501");
        let execute = role_may("EXECUTE ON FUNCTION taketurns.done");
        admin.batch_execute(&execute).await.expect("a right");
        app.batch_execute(&format!("SELECT {call}")).await.expect("done");
        for forbidden in [
            "UPDATE taketurns.fence SET attempt = 'done'",
            "SELECT taketurns.refuse_ended('a', 1, 1, 'open')",
        ] {
            let error = app.batch_execute(forbidden).await.expect_err(forbidden);
            assert_eq!(code(&error), "42501", "{forbidden}: {error:?}");
        }
        drop(app);
        let gone = format!("DROP OWNED BY {role}; DROP ROLE {role}");
        admin.batch_execute(&gone).await.expect("no role");
    });
}

#[test]
fn work_that_nobody_asks_for_is_not_forgotten_and_a_sweep_takes_it_over() {
    let database = WorkDatabase::new();
    block_on(async {
        let (locks, client) = (database.store().await, database.client().await);
        let once = locks.once("a");
        let attempt = attempt(&once).await;
        work(&client, "READ COMMITTED", "a", attempt.token().raw()).await.expect("under way");
        client.batch_execute("COMMIT").await.expect("done");
        let long_ago = "UPDATE taketurns.lock SET forget_at_ms = 1 WHERE name = 'a'";
        client.batch_execute(long_ago).await.expect("a row");
        let other = locks.mutex("other");
        soon("a sweep", async {
            let state = "SELECT attempt FROM taketurns.fence WHERE name = 'a'";
            while column(&client, state).await.expect("a row") != ["recorded"] {
                other.acquire().await.expect("free").release().await.expect("released");
            }
        })
        .await;
        let done = once.completion().await.expect("a look").expect("done");
        assert_eq!((done.token, done.result.as_str()), (attempt.token(), "said"));
    });
}

#[test]
fn a_lock_whose_row_was_deleted_by_hand_says_so_instead_of_working_again() {
    let database = WorkDatabase::new();
    block_on(async {
        let (locks, client) = (database.store().await, database.client().await);
        let once = locks.once("a");
        let attempt = attempt(&once).await;
        work(&client, "READ COMMITTED", "a", attempt.token().raw()).await.expect("under way");
        client.batch_execute("COMMIT").await.expect("done");
        client.batch_execute("DELETE FROM taketurns.lock").await.expect("deleted");
        let error = once.begin().await.expect_err("it may be done");
        assert!(error.to_string().contains("'recorded'"), "{error}");
        let as_it_says = "UPDATE taketurns.fence SET attempt = 'recorded' WHERE name = 'a'";
        client.batch_execute(as_it_says).await.expect("written");
        drop(soon("an attempt", once.begin()).await.expect("begun"));
    });
}

/// What one worker does with its attempt.
async fn one_attempt(client: &Client, attempt: Attempt, level: &str, dice: &mut Dice) {
    let (name, token) = (attempt.name().to_string(), attempt.token().raw());
    let is_rolled_back = dice.percent(25);
    let end = if is_rolled_back { "ROLLBACK" } else { "COMMIT" };
    let is_committed = match work(client, level, &name, token).await {
        Ok(()) => client.batch_execute(end).await.is_ok() && !is_rolled_back,
        Err(_) => client.batch_execute("ROLLBACK").await.is_err(),
    };
    // Whatever its worker says after the commit, the work is done.
    match dice.below(3) {
        0 if is_committed => drop(attempt.done().await),
        1 => drop(attempt.fail().await),
        _ => drop(attempt),
    }
}

#[test]
fn among_many_workers_that_fail_and_are_broken_each_work_is_written_once() {
    const WORKS: usize = 12;
    const WORKERS: u64 = 4;
    let database = WorkDatabase::new();
    block_on(async {
        let mut tasks = Vec::new();
        for number in 0..WORKERS {
            let (locks, client) = (database.store().await, database.client().await);
            tasks.push(tokio::spawn(async move {
                let mut dice = Dice::new(number);
                for at in 0..WORKS {
                    let once = locks.once(format!("work {at}"));
                    while let Begun::Attempt(attempt) = once.begin().await.expect("an answer") {
                        one_attempt(&client, attempt, LEVELS[at % LEVELS.len()], &mut dice).await;
                    }
                }
            }));
        }
        let breaker = database.store().await;
        tasks.push(tokio::spawn(async move {
            let mut dice = Dice::new(WORKERS);
            for _ in 0..10 * WORKS {
                let name = format!("work {}", dice.below(WORKS));
                breaker.break_lock(name).at_once().await.expect("an answer");
            }
        }));
        for task in tasks {
            soon("the workers", task).await.expect("no panic");
        }
        let (locks, client) = (database.store().await, database.client().await);
        for at in 0..WORKS {
            let name = format!("work {at}");
            let done = locks.once(&*name).completion().await.expect("a look").expect("done");
            let rows = format!("SELECT token FROM log WHERE once = '{name}'");
            let rows = column(&client, &rows).await.expect("rows");
            assert_eq!(rows, [done.token.to_string()], "{name}");
        }
    });
}

#[test]
fn a_lock_that_is_granted_by_an_older_release_has_no_attempt() {
    let database = WorkDatabase::new();
    block_on(async {
        database.store().await.close().await;
        let client = database.client().await;
        granted(&client, "a", 1_000_000).await;
        assert_eq!(refused(&client, "taketurns.done('a', 1000000)").await, UNKNOWN_TOKEN);
    });
}
