//! A server or a database that won't do: one clear error each, and nothing is lost.

use taketurns::ErrorKind;
use taketurns_servers::others::{Postgres, PostgresPair};
use taketurns_servers::reserve;

use super::{connect, database, is_refused};
use crate::support::postgres_fixture::postgres;

#[tokio::test]
async fn a_wrong_password_is_refused_and_not_shown() {
    let database = database();
    let user = format!("u{}", database.name());
    database.sql(&format!("CREATE ROLE {user} LOGIN PASSWORD 'right'")).expect("a user");
    let wrong = database.url_of(&format!("{user}:hunter2"));
    let text = is_refused(&wrong, ErrorKind::Store, "password authentication failed").await;
    let text = text.to_string();
    assert!(!text.contains("hunter2") && text.contains(&user), "{text}");
    is_refused(&database.url_of(&user), ErrorKind::Store, "password").await;
    database.sql(&format!("DROP ROLE {user}")).expect("dropped");
}

#[tokio::test]
async fn a_database_or_a_server_that_is_not_there_is_named() {
    let missing = postgres().url_of("postgres", "no_such_database");
    is_refused(&missing, ErrorKind::Store, "no_such_database").await;
    let port = reserve().expect("a port");
    let url = format!("postgres://postgres@127.0.0.1:{}/app", port.number());
    is_refused(&url, ErrorKind::Unreachable, "Connection refused").await;
}

#[tokio::test]
async fn a_database_without_utf8_is_refused() {
    let server = postgres();
    server
        .sql("postgres", "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
        .expect("a database");
    is_refused(&server.url_of("postgres", "latin"), ErrorKind::Store, "LATIN1").await;
}

#[tokio::test]
async fn tables_of_a_newer_release_are_refused_and_stay() {
    let database = database();
    drop(connect(&database.url()).await);
    database.sql("UPDATE taketurns.store SET version = 99").expect("changed");
    is_refused(&database.url(), ErrorKind::Store, "newer release").await;
    assert_eq!(database.sql("SELECT version FROM taketurns.store").expect("there"), "99");
}

#[tokio::test]
async fn a_table_that_was_changed_by_hand_is_an_error_that_says_so() {
    let database = database();
    let locks = connect(&database.url()).await;
    let guard = locks.mutex("held").acquire().await.expect("free");
    database.sql("ALTER TABLE taketurns.lock RENAME COLUMN state TO condition").expect("changed");
    let error = locks.mutex("other").try_acquire().await.expect_err("no such column");
    assert_eq!(error.kind(), ErrorKind::Store, "{error}");
    assert!(error.to_string().contains("changed by hand"), "{error}");
    database.sql("ALTER TABLE taketurns.lock RENAME COLUMN condition TO state").expect("mended");
    guard.check().expect("it never stopped being held");
    guard.release().await.expect("released");
}

#[tokio::test]
async fn a_damaged_lock_is_an_error_of_that_lock_alone() {
    let database = database();
    let locks = connect(&database.url()).await;
    for name in ["bad", "good"] {
        locks.mutex(name).acquire().await.expect("free").release().await.expect("released");
    }
    database
        .sql("UPDATE taketurns.lock SET state = '\\x03ff' WHERE name = 'bad'")
        .expect("damaged");
    let error = locks.mutex("bad").acquire().await.expect_err("damaged");
    assert_eq!(error.kind(), ErrorKind::Store, "{error}");
    assert!(error.to_string().contains("damaged"), "{error}");
    let guard = locks.mutex("good").acquire().await.expect("not damaged");
    let listed = locks.list("*").await.expect("a listing");
    assert_eq!(listed.len(), 1, "the damaged one is left out");
    guard.release().await.expect("released");
}

#[tokio::test]
async fn a_standby_is_refused_and_with_several_hosts_the_primary_is_found() {
    let pair = PostgresPair::start_as(Postgres::builder().quick(), false).expect("a pair");
    is_refused(&pair.standby().url(), ErrorKind::Unreachable, "standby").await;
    let (first, second) = (pair.standby().port(), pair.primary().port());
    let url = format!("postgres://postgres@127.0.0.1:{first},127.0.0.1:{second}/postgres");
    let locks = connect(&url).await;
    locks
        .mutex("l")
        .acquire()
        .await
        .expect("the primary grants")
        .release()
        .await
        .expect("released");
}

#[tokio::test]
async fn a_role_whose_defaults_would_hurt_can_be_used() {
    let database = database();
    let user = format!("u{}", database.name());
    database
        .sql(&format!(
            "CREATE ROLE {user} SUPERUSER LOGIN PASSWORD 'p'; \
             ALTER ROLE {user} SET default_transaction_read_only = on; \
             ALTER ROLE {user} SET default_transaction_isolation = 'serializable'; \
             ALTER ROLE {user} SET synchronous_commit = on; \
             ALTER ROLE {user} SET search_path = nowhere; \
             ALTER ROLE {user} SET standard_conforming_strings = off"
        ))
        .expect("a user");
    let locks = connect(&database.url_of(&format!("{user}:p"))).await;
    let guard = locks.mutex("it's \\ \"quoted\"").acquire().await.expect("free");
    guard.release().await.expect("released");
    locks.close().await;
    database
        .sql(&format!("REASSIGN OWNED BY {user} TO postgres; DROP ROLE {user}"))
        .expect("dropped");
}
