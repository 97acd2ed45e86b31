//! `once` and `undo` with the locks in PostgreSQL, and work that a transaction there has done.

use std::io::Write;

use taketurns_servers::others::{Postgres, PostgresDatabase};

use crate::cli::helper::{Running, Store};

/// Says that it works, and ends with the code that it reads.
const WORK: &str = "echo in; read code; exit $code";

fn database() -> PostgresDatabase<'static> {
    Postgres::shared().expect("PostgreSQL").database().expect("a database")
}

fn begin(store: &Store) -> Running {
    let mut work = store.start(&["once", "--why", "backup", "nightly", "--", "sh", "-c", WORK]);
    assert_eq!(work.line(), "in");
    work
}

/// Says in a transaction that the work of the attempt under way is done.
fn done_in_a_transaction(database: &PostgresDatabase<'_>, store: &Store) {
    let token = store.show("nightly")["last_token"].as_u64().expect("a token");
    let call = format!("SELECT taketurns.done('nightly', {token}, '3 rows')");
    database.sql(&call).expect("it is under way");
}

/// Who asks is told that it is done, and all views say so.
fn is_done(store: &Store) {
    let again = store.run(&["once", "nightly", "--", "echo", "again"]).ok();
    assert!(again.stdout.is_empty() && again.stderr.contains("with the result \"3 rows\""));
    let shown = store.show("nightly");
    assert_eq!(
        (&shown["state"], &shown["work"]["done"]["why"]),
        (&"done".into(), &"backup".into())
    );
    assert!(store.run(&["ls"]).ok().stdout.contains("done by "));
    assert!(store.run(&["show", "nightly"]).ok().stdout.contains("done by "));
}

#[test]
fn a_command_runs_once_fails_and_is_undone() {
    let database = database();
    let store = Store::at(database.url());
    let once = |command: &str| {
        store.run(&["once", "--attempts", "2", "nightly", "--", "sh", "-c", command])
    };
    for failed in 1..=2 {
        assert_eq!(once("exit 3").code, 3);
        assert_eq!(store.show("nightly")["work"]["failed"], failed);
    }
    once("true").failed(70, "nightly was given up: 2 attempts failed (--attempts)");
    assert!(store.run(&["ls"]).ok().stdout.contains("nobody [2 failed]"));
    store.run(&["undo", "nightly"]).quiet();
    assert_eq!(once("echo did it").quiet().stdout, "did it\n");
    assert!(once("echo again").ok().stderr.contains("is done by"));
    assert_eq!(store.run(&["undo", "nightly", "--json"]).quiet().json()["undone"], true);
    assert_eq!(once("echo again").quiet().stdout, "again\n");
}

#[test]
fn what_a_transaction_has_done_stays_done_if_taketurns_is_killed_after_the_commit() {
    let database = database();
    let store = Store::at(database.url());
    let mut work = begin(&store);
    done_in_a_transaction(&database, &store);
    work.kill();
    is_done(&store);
}

#[test]
fn what_a_transaction_has_done_is_seen_at_once_and_the_command_may_succeed_later() {
    let database = database();
    let store = Store::at(database.url());
    let mut work = begin(&store);
    done_in_a_transaction(&database, &store);
    let shown = store.show("nightly");
    assert_eq!(shown["work"]["done"]["result"], "3 rows", "before any step");
    writeln!(work.stdin(), "0").expect("it reads");
    assert_eq!(work.code(), 0);
    is_done(&store);
}
