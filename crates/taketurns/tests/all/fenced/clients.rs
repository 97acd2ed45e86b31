//! [`Guard::fence`](taketurns::Guard::fence) with the clients that people use, on locks that the engine grants.

use std::error::Error;
use std::time::Duration;

use sqlx_core::connection::Connection;
use sqlx_core::query::query;
use sqlx_postgres::PgConnection;
use taketurns::fence::{SHARED_LOCK, STALE_TOKEN, TransactionError};
use taketurns::{ErrorKind, Guard, Locks};
use taketurns_servers::others::{PgBouncer, Postgres, PostgresDatabase};

use super::{code, column, connected};
use crate::support::patience::{block_on, soon};
use crate::support::redis_fixture::PATIENT;

/// As a reader runs it, but for its `main`.
#[allow(dead_code)]
#[path = "../../../examples/fenced_transaction.rs"]
mod example;

/// An empty database: the engine makes its tables.
fn database() -> PostgresDatabase<'static> {
    let database = Postgres::shared().expect("PostgreSQL").database().expect("a database");
    database.sql("CREATE TABLE orders (id int, state text)").expect("a table");
    database
}

async fn store(database: &PostgresDatabase<'_>) -> Locks {
    let url = format!("{}?{PATIENT}", database.url());
    taketurns::connect(&url).await.expect("a store")
}

/// Takes the lock from its holder, which is as if that had been paused for longer than its lease.
async fn taken_over(locks: &Locks, name: &str) -> Guard {
    locks.break_lock(name).at_once().await.expect("broken");
    soon("the next holder", locks.mutex(name).acquire()).await.expect("acquired")
}

/// The SQLSTATE of the error below a refusal.
fn refused(error: &TransactionError) -> String {
    let source = error.source().expect("the client's own error");
    let of_tokio =
        source.downcast_ref::<tokio_postgres::Error>().map(|error| code(error).to_owned());
    let of_sqlx = || {
        let error = source.downcast_ref::<sqlx_core::Error>()?;
        Some(error.as_database_error()?.code()?.into_owned())
    };
    of_tokio.or_else(of_sqlx).expect("a client that we know")
}

#[test]
fn with_tokio_postgres_a_holder_commits_and_a_stale_one_is_refused_at_commit() {
    let database = database();
    block_on(async {
        let locks = store(&database).await;
        let mut client = connected(&database.url()).await;
        let guard = locks.mutex("orders/42").acquire().await.expect("acquired");
        for state in ["packed", "sent"] {
            let transaction = client.transaction().await.expect("begun");
            guard.fence(&transaction).await.expect("it holds");
            let write = format!("INSERT INTO orders VALUES (42, '{state}')");
            transaction.batch_execute(&write).await.expect("written");
            if state == "sent" {
                let next = taken_over(&locks, "orders/42").await;
                let error = transaction.commit().await.expect_err("it is stale");
                assert_eq!(code(&error), STALE_TOKEN);
                next.release().await.expect("released");
            } else {
                transaction.commit().await.expect("it holds");
            }
        }
        let written = column(&client, "SELECT state FROM orders").await.expect("rows");
        assert_eq!(written, ["packed"]);
        let transaction = client.transaction().await.expect("begun");
        let lost = guard.fence(&transaction).await.expect_err("it knows by now, or is told");
        let known =
            matches!(&lost, TransactionError::Guard(error) if error.kind() == ErrorKind::Lost);
        assert!(known || refused(&lost) == STALE_TOKEN, "{lost}");
    });
}

#[test]
fn with_sqlx_a_holder_commits_and_a_stale_one_is_refused_at_commit() {
    let database = database();
    block_on(async {
        let locks = store(&database).await;
        let mut client = PgConnection::connect(&database.url()).await.expect("a connection");
        let guard = locks.mutex("orders/42").acquire().await.expect("acquired");
        let mut transaction = client.begin().await.expect("begun");
        guard.fence(&mut transaction).await.expect("it holds");
        transaction.commit().await.expect("it holds");

        let mut transaction = client.begin().await.expect("begun");
        guard.fence(&mut transaction).await.expect("it holds");
        query("INSERT INTO orders VALUES (42, 'sent')")
            .execute(&mut *transaction)
            .await
            .expect("written");
        let _next = taken_over(&locks, "orders/42").await;
        let error = transaction.commit().await.expect_err("it is stale");
        let code = error.as_database_error().and_then(|error| error.code());
        assert_eq!(code.as_deref(), Some(STALE_TOKEN));
        assert_eq!(database.sql("TABLE orders").expect("rows"), "");
    });
}

#[test]
fn a_writer_and_a_member_are_fenced_and_readers_and_permits_are_not() {
    let database = database();
    block_on(async {
        let locks = store(&database).await;
        let mut client = connected(&database.url()).await;
        let pool = locks.pool("browsers");
        pool.add("b-1").await.expect("a member");
        let mut guards = vec![
            locks.rwlock("cfg").write().await.expect("acquired"),
            pool.any().await.expect("acquired"),
        ];
        for guard in guards.drain(..) {
            let transaction = client.transaction().await.expect("begun");
            guard.fence(&transaction).await.expect("it holds alone");
            transaction.commit().await.expect("it holds alone");
            guard.release().await.expect("released");
        }
        let shared = [
            locks.rwlock("cfg").read().await.expect("acquired"),
            locks.semaphore("gpu", 2).acquire().await.expect("acquired"),
        ];
        for guard in &shared {
            let transaction = client.transaction().await.expect("begun");
            let error = guard.fence(&transaction).await.expect_err("others may hold as well");
            assert_eq!(refused(&error), SHARED_LOCK);
        }
    });
}

#[test]
fn behind_a_proxy_that_pools_transactions_many_fence_at_once() {
    let database = database();
    let bouncer = PgBouncer::start(database.server()).expect("a pgbouncer");
    let url = bouncer.url_of(database.name());
    block_on(async {
        let locks = store(&database).await;
        let mut tasks = Vec::new();
        for number in 0..20 {
            let (locks, url) = (locks.clone(), url.clone());
            tasks.push(tokio::spawn(async move {
                let mut client = connected(&url).await;
                for _ in 0..5 {
                    let name = format!("order {number}");
                    let guard = locks.mutex(name).acquire().await.expect("acquired");
                    let transaction = client.transaction().await.expect("begun");
                    guard.fence(&transaction).await.expect("it holds");
                    transaction.commit().await.expect("it holds");
                    guard.release().await.expect("released");
                }
            }));
        }
        for task in tasks {
            soon("the transactions", task).await.expect("no panic");
        }
    });
}

#[test]
fn while_a_fenced_transaction_hangs_the_holder_renews_and_others_queue_and_are_served() {
    let database = database();
    block_on(async {
        let (locks, others) = (store(&database).await, store(&database).await);
        let mut client = connected(&database.url()).await;
        // Renewed every two seconds, with four to spare for a busy machine.
        let lease = Duration::from_secs(6);
        let guard = locks.mutex("a").acquire().lease(lease).await.expect("acquired");
        let transaction = client.transaction().await.expect("begun");
        guard.fence(&transaction).await.expect("it holds");

        let queued = tokio::spawn({
            let others = others.clone();
            async move { others.mutex("a").acquire().await }
        });
        soon("a place in the queue", async {
            let waits = || async {
                others.inspect("a").await.expect("a look").is_some_and(|view| view.waiting == 1)
            };
            while !waits().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        // The lease ends later each time that it is renewed, and it was renewed while the transaction hangs.
        let first = guard.left();
        soon("a renewal", async {
            let mut before = first;
            while guard.left() <= before {
                before = guard.left();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        for name in ["b", "c"] {
            let other = soon("another lock", others.mutex(name).acquire()).await.expect("acquired");
            other.release().await.expect("released");
        }
        soon("a release", guard.release()).await.expect("released");
        let next = soon("the next holder", queued).await.expect("no panic").expect("acquired");
        assert!(next.is_held());
        let error = transaction.commit().await.expect_err("it is stale");
        assert_eq!(code(&error), STALE_TOKEN);
    });
}

#[test]
fn the_example_shows_that_a_paused_writer_is_refused() {
    let database = database();
    let shown = soon("the example", async { example::pause_a_writer(&database.url()).await });
    block_on(async { shown.await.map_err(|error| error.to_string()) }).expect("it says what is so");
}
