//! PostgreSQL servers, good and bad.

use taketurns::doctor::Level;
use taketurns_servers::others::{PgBouncer, Postgres, PostgresPair};

use super::{bad, examined, is};
use crate::support::patience::block_on;
use crate::support::postgres_fixture::postgres;

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
    is(&report, &node(&server), "quarantine", Level::Ok, "none");
    is(&report, &node(&server), "wake-ups", Level::Ok, "NOTIFY arrives");
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
    let pair = PostgresPair::start_as(Postgres::builder().quick(), false).expect("a pair");
    let (primary, standby) = (pair.primary(), pair.standby());
    is(&examined(&standby.url()), &node(standby), "role", Level::Fail, "a standby");
    let both = examined(&pair.url());
    is(&both, &node(primary), "role", Level::Ok, "a primary");
    is(&both, &node(standby), "role", Level::Ok, "a standby");
    is(&both, "all", "agreement", Level::Ok, "one host takes writes");
    pair.promote().expect("promoted");
    is(&examined(&pair.url()), "all", "agreement", Level::Fail, "2 hosts take writes");
}

#[test]
fn a_proxy_a_server_that_is_away_and_an_old_snapshot() {
    let server = postgres();
    let database = server.database().expect("a database");
    let proxy = PgBouncer::start(server).expect("pgbouncer");
    let url = format!("{}?response_timeout=1", proxy.url_of(database.name()));
    let proxied = format!("127.0.0.1:{}", proxy.port());
    is(&examined(&url), &proxied, "wake-ups", Level::Warn, "a proxy is in between");
    let port = taketurns_servers::reserve().expect("a port");
    let away = format!("127.0.0.1:{}", port.number());
    let report = examined(&format!("postgres://postgres@{away}/app"));
    assert!(!report.reached);
    is(&report, &away, "reachable", Level::Fail, "Connection refused");
}
