//! The program on PostgreSQL: every command, what people look at, and turns in order.

use serde_json::Value;
use taketurns_servers::others::{PgBouncer, Postgres, PostgresDatabase};

use crate::cli::helper::Store;
use crate::cli::order::twenty_shells_in_order;
use crate::cli::redis::every_command_works;
use crate::cli::serve::a_lock_is_listed_shown_and_counted;
use crate::cli::top::{a_break_needs_a_yes, a_lock_is_seen_and_opened};
use crate::cli::turns::processes_count;

/// How fast the server answers is not what these tests are about.
const PATIENT: &str = "connect_timeout=60&response_timeout=60";

fn database() -> PostgresDatabase<'static> {
    Postgres::shared().expect("a server").database().expect("a database")
}

fn store(database: &PostgresDatabase<'_>) -> Store {
    Store::at(format!("{}?{PATIENT}", database.url()))
}

#[test]
fn every_command_works_in_a_database() {
    let database = database();
    every_command_works(&store(&database));
}

#[test]
fn every_command_works_behind_a_proxy() {
    let database = database();
    let proxy = PgBouncer::start(database.server()).expect("pgbouncer");
    let listen = database.url().replace(':', "%3A").replace('/', "%2F").replace('@', "%40");
    let url = format!("{}?{PATIENT}&listen={listen}", proxy.url_of(database.name()));
    every_command_works(&Store::at(url));
}

#[test]
fn twenty_shells_get_their_turns_in_the_order_in_which_they_came() {
    let database = database();
    twenty_shells_in_order(&store(&database));
}

#[test]
fn ten_processes_of_ten_turns_count_to_100() {
    let database = database();
    processes_count(&store(&database), 10, 10);
}

#[test]
fn top_shows_and_breaks_locks() {
    let database = database();
    a_lock_is_seen_and_opened(&store(&database));
    a_break_needs_a_yes(&store(&self::database()));
}

#[test]
fn serve_lists_shows_and_counts_locks() {
    let database = database();
    a_lock_is_listed_shown_and_counted(&store(&database));
}

#[test]
fn doctor_looks_at_all_that_a_lock_needs() {
    let database = database();
    let store = store(&database);
    store.run(&["run", "door", "--", "true"]).quiet();
    let document = store.run(&["doctor", "--json"]).quiet().json();
    let address = format!("127.0.0.1:{}", database.server().port());
    assert_eq!(document["store"], format!("postgres://{address}/{}", database.name()));
    // The server of the tests does without fsync.
    assert_eq!(document["worst"], "warn");
    let checks = document["checks"].as_array().expect("a list");
    let of = |key: &str, check: &Value| check[key].as_str().expect("a word").to_owned();
    let worse: Vec<_> = checks.iter().filter(|check| check["level"] != "ok").collect();
    let [persistence] = worse[..] else { panic!("{worse:?}") };
    assert_eq!(of("check", persistence), "persistence");
    let names: Vec<_> = checks.iter().map(|check| of("check", check)).collect();
    let wanted = [
        "reachable",
        "tls",
        "version",
        "role",
        "database",
        "format",
        "rights",
        "locks",
        "bloat",
        "snapshot",
        "commit",
        "quarantine",
        "persistence",
        "timeouts",
        "wake-ups",
        "clock",
        "latency",
    ];
    assert_eq!(names, wanted);
    assert!(checks.iter().all(|check| check["node"] == address.as_str()), "{document}");
}
