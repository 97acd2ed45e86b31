//! PostgreSQL servers, good and bad.

use std::time::Duration;

use taketurns::doctor::{Level, Report};
use taketurns_servers::eventually;
use taketurns_servers::others::{PgBouncer, Postgres, PostgresPair};
use tokio_postgres::NoTls;

use super::{bad, is};
use crate::support::patience::block_on;
use crate::support::postgres_fixture::postgres;
use crate::support::redis_fixture::PATIENT;

/// How fast a server answers is not what these tests are about.
fn examined(url: &str) -> Report {
    let sign = if url.contains('?') { '&' } else { '?' };
    super::examined(&format!("{url}{sign}{PATIENT}"))
}

fn node(server: &Postgres) -> String {
    format!("127.0.0.1:{}", server.port())
}

#[test]
fn a_good_server_has_nothing_to_be_said_against_and_is_left_as_it_was() {
    let server = Postgres::start().expect("a server");
    let report = examined(&server.url());
    assert!(bad(&report).is_empty(), "{:#?}", bad(&report));
    is(&report, &node(&server), "format", Level::Ok, "not there yet");
    let tables =
        server.sql("postgres", "SELECT count(*) FROM pg_namespace WHERE nspname = 'taketurns'");
    assert_eq!(tables.expect("an answer"), "0", "nothing is written");
    drop(block_on(taketurns::connect(&server.url())).expect("a client"));
    let report = examined(&server.url());
    assert!(bad(&report).is_empty(), "{:#?}", bad(&report));
    is(&report, &node(&server), "version", Level::Ok, "PostgreSQL ");
    is(&report, &node(&server), "rights", Level::Ok, "all that are needed");
    is(&report, &node(&server), "commit", Level::Ok, "no step waits for the disk");
    is(&report, &node(&server), "quarantine", Level::Ok, "none");
    is(&report, &node(&server), "wake-ups", Level::Ok, "NOTIFY arrives");
    let waits = examined(&format!("{}?synchronous_commit=on", server.url()));
    is(&waits, &node(&server), "commit", Level::Ok, "each step waits for the disk; 0 standbys");
}

#[test]
fn a_server_that_crashed_says_so_and_one_without_fsync_too() {
    let server = Postgres::builder().quick().start().expect("a server");
    drop(block_on(taketurns::connect(&server.url())).expect("a client"));
    server.restart().expect("started");
    let report = examined(&server.url());
    is(&report, &node(&server), "quarantine", Level::Warn, "may have lost commits");
    is(&report, &node(&server), "persistence", Level::Warn, "fsync is off");
    let immediate = examined(&format!("{}?failover=immediate", server.url()));
    is(&immediate, &node(&server), "quarantine", Level::Warn, "failover=immediate");
    let promised = examined(&format!("{}?failover=synchronous", server.url()));
    is(&promised, &node(&server), "commit", Level::Fail, "synchronous_standby_names is empty");
}

#[test]
fn a_user_without_rights_is_told_which_and_newer_tables_are_named() {
    let server = postgres();
    let database = server.database().expect("a database");
    let user = format!("u{}", database.name());
    database.sql(&format!("CREATE ROLE {user} LOGIN PASSWORD 'p'")).expect("a user");
    let url = database.url_of(&format!("{user}:p"));
    is(&examined(&url), &node(server), "format", Level::Fail, "may not make them");
    database.sql(&taketurns::engine::postgres_schema(0)).expect("the tables");
    let report = examined(&url);
    is(&report, &node(server), "rights", Level::Fail, "lock: UPDATE");
    is(&report, &node(server), "rights", Level::Fail, "schema: USAGE");
    database.sql("UPDATE taketurns.store SET version = 99").expect("changed");
    is(&examined(&database.url()), &node(server), "format", Level::Fail, "version 99");
    database.sql(&format!("DROP ROLE {user}")).expect("dropped");
}

#[test]
fn a_standby_alone_won_t_do_and_two_primaries_are_seen() {
    let pair = PostgresPair::start(true).expect("a pair");
    let (primary, standby) = (pair.primary(), pair.standby());
    is(&examined(&standby.url()), &node(standby), "role", Level::Fail, "a standby");
    let both = examined(&pair.url());
    is(&both, &node(primary), "role", Level::Ok, "a primary");
    is(&both, &node(standby), "role", Level::Ok, "a standby");
    is(&both, "all", "agreement", Level::Ok, "one host takes writes");
    let promised = format!("{}?failover=synchronous", pair.url());
    let one = "1 standbys, 1 of them synchronous";
    is(&examined(&promised), &node(primary), "commit", Level::Ok, one);
    pair.promote().expect("promoted");
    is(&examined(&pair.url()), "all", "agreement", Level::Fail, "2 hosts take writes");
    eventually("the standby has left", || {
        let followers = primary.sql("postgres", "SELECT count(*) FROM pg_stat_replication");
        followers.is_ok_and(|count| count == "0").then_some(())
    })
    .expect("it is a primary now");
    let alone = examined(&promised);
    is(&alone, &node(primary), "commit", Level::Warn, "no synchronous standby is connected");
}

/// The clock of the database stands still, and an hour is over when the test says so.
#[test]
fn an_old_snapshot_dead_rows_a_clock_that_is_ahead_and_a_time_out_are_seen() {
    let database = postgres().database().expect("a database");
    let node = node(postgres());
    drop(block_on(taketurns::connect(&format!("{}?{PATIENT}", database.url()))).expect("a client"));
    database.stop_clock().expect("a clock");
    let report = examined(&database.url());
    for name in ["snapshot", "bloat", "clock", "timeouts"] {
        is(&report, &node, name, Level::Ok, "");
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _old = runtime.block_on(async {
        let connected = tokio_postgres::connect(&database.url(), NoTls).await;
        let (old, connection) = connected.expect("a connection");
        tokio::spawn(connection);
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM taketurns.lock";
        old.batch_execute(begin).await.expect("a snapshot");
        old
    });
    let rows = "INSERT INTO taketurns.lock SELECT n, '', NULL, '' FROM generate_series(1, 10001) AS n; \
                DELETE FROM taketurns.lock";
    database.sql(rows).expect("dead rows, that nobody may remove");
    let counted =
        "SELECT n_dead_tup FROM pg_stat_all_tables WHERE relid = 'taketurns.lock'::regclass";
    let counted = || database.sql(counted).is_ok_and(|rows| rows == "10001").then_some(());
    eventually("they are counted", counted).expect("as the session ends");
    let setting = format!("ALTER DATABASE {} SET idle_session_timeout = '1h'", database.name());
    database.sql(&setting).expect("set");
    database.pass(Duration::from_secs(3_600)).expect("an hour");
    let report = examined(&database.url());
    is(&report, &node, "snapshot", Level::Warn, "a transaction is open for 3600 s");
    is(&report, &node, "bloat", Level::Warn, "10001 dead rows");
    is(&report, &node, "clock", Level::Warn, "ahead of ours");
    is(&report, &node, "timeouts", Level::Warn, "idle_session_timeout is 1h");
}

#[test]
fn a_proxy_and_a_server_that_is_away() {
    let server = postgres();
    let database = server.database().expect("a database");
    let proxy = PgBouncer::start(server).expect("pgbouncer");
    // So long it waits for a message that never comes.
    let url = proxy.url_of(database.name()) + "?connect_timeout=60&response_timeout=10";
    let proxied = format!("127.0.0.1:{}", proxy.port());
    is(&super::examined(&url), &proxied, "wake-ups", Level::Warn, "a proxy is in between");
    let port = taketurns_servers::reserve().expect("a port");
    let away = format!("127.0.0.1:{}", port.number());
    let report = examined(&format!("postgres://postgres@{away}/app"));
    assert!(!report.reached);
    is(&report, &away, "reachable", Level::Fail, "Connection refused");
}
