//! PostgreSQL: databases, faults, a pair that fails over, and pgbouncer.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use taketurns_servers::eventually;
use taketurns_servers::others::{PgBouncer, Postgres, PostgresDatabase, PostgresPair};

/// The first column of the first row.
fn ask(server: &Postgres, sql: &str) -> String {
    server.sql("postgres", sql).expect("an answer")
}

fn quick() -> Postgres {
    Postgres::builder().quick().start().expect("a server")
}

#[test]
fn each_test_has_a_database_of_its_own_on_one_server() {
    let shared = Postgres::shared().expect("a server");
    assert_eq!(shared.port(), Postgres::shared().expect("the same").port());
    let [first, second] = [(); 2].map(|()| shared.database().expect("a database"));
    first.sql("CREATE TABLE a (n int)").expect("it is empty");
    second.sql("CREATE TABLE a (n int)").expect("and so is the other");
    let (name, url) = (first.name().to_owned(), first.url());
    assert!(url.ends_with(&format!(":{}/{name}", shared.port())), "{url}");
    drop(first);
    let left = shared.sql(&name, "SELECT 1").expect_err("it is gone").to_string();
    assert!(left.contains("does not exist"), "{left}");
    assert_eq!(second.sql("SELECT count(*) FROM a").expect("it is there"), "0");
}

#[test]
fn the_clock_of_one_database_stands_still_until_the_test_moves_it() {
    let shared = Postgres::shared().expect("a server");
    let [stopped, running] = [(); 2].map(|()| shared.database().expect("a database"));
    let shown_ms = |database: &PostgresDatabase<'_>| -> i64 {
        let shown = database.sql("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint");
        shown.expect("an answer").parse().expect("a number")
    };
    stopped.stop_clock().expect("a clock");
    let (before_ms, since_ms) = (shown_ms(&stopped), shown_ms(&running));
    eventually("time passes", || (shown_ms(&running) > since_ms).then_some(())).expect("it does");
    assert_eq!(shown_ms(&stopped), before_ms);
    stopped.pass(Duration::from_secs(3_600)).expect("an hour");
    assert_eq!(shown_ms(&stopped), before_ms + 3_600_000);
    assert!(shown_ms(&running) < before_ms + 3_600_000);
    running.pass(Duration::from_secs(1)).expect_err("its clock runs by itself");
}

#[test]
fn a_user_that_is_not_postgres_needs_its_password() {
    let database = Postgres::shared().expect("a server").database().expect("a database");
    database.sql("CREATE ROLE app LOGIN PASSWORD 'secret'").expect("a role");
    let server = database.server();
    // psql would ask at a terminal; -w makes that an error.
    let log_in = |password: &str| {
        let mut psql = std::process::Command::new("psql");
        psql.args(["-w", "-XAtqc", "SELECT current_user", &database.url_of("app")]);
        psql.env("PGPASSWORD", password).output().expect("psql is installed")
    };
    assert_eq!(log_in("secret").stdout, b"app\n");
    assert!(String::from_utf8_lossy(&log_in("wrong").stderr).contains("authentication failed"));
    drop(database);
    ask(server, "DROP ROLE app");
}

#[test]
fn what_was_committed_survives_a_kill_and_what_is_unlogged_does_not() {
    let server = quick();
    let tables = "CREATE TABLE kept AS SELECT 1 AS n; CREATE UNLOGGED TABLE lost AS SELECT 1 AS n";
    ask(&server, tables);
    let counts = "SELECT (SELECT count(*) FROM kept), (SELECT count(*) FROM lost)";
    server.stop().expect("a clean stop");
    server.restart().expect("a start");
    assert_eq!(ask(&server, counts), "1|1", "a clean stop loses nothing");
    server.restart().expect("a start after a kill");
    assert_eq!(ask(&server, counts), "1|0");
    assert!(server.log().contains("automatic recovery in progress"), "{}", server.log());
}

#[test]
fn a_killed_backend_takes_all_connections_along() {
    let server = quick();
    ask(&server, "CREATE UNLOGGED TABLE lost AS SELECT 1 AS n");
    let mut client = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
    client.write_all(b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0").expect("sent");
    let backend = "SELECT pid FROM pg_stat_activity
                   WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let backend = eventually("the client is known", || ask(&server, backend).parse().ok());
    server.kill_backend(backend.expect("it is")).expect("killed");
    client.read_to_end(&mut Vec::new()).expect("the end of the connection");
    let emptied = || (server.sql("postgres", "TABLE lost").ok()?).is_empty().then_some(());
    eventually("the server has recovered", emptied).expect("it does");
    server.wait_until_ready().expect("it is");
    server.kill_backend(1).expect_err("that is none of its processes");
}

#[test]
fn a_paused_server_answers_nobody_until_it_is_resumed() {
    let server = quick();
    let mut client = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
    client.write_all(b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0").expect("sent");
    client.read_exact(&mut [0; 9]).expect("welcome");
    let mut rest = [0; 4096];
    client.set_nonblocking(true).expect("a socket");
    let ready = |client: &mut TcpStream, rest: &mut [u8]| {
        let read = client.read(rest).ok()?;
        // Ready for a query: the last message of a log-in.
        rest[..read].windows(6).any(|message| message == b"Z\0\0\0\x05I").then_some(())
    };
    eventually("the log-in is over", || ready(&mut client, &mut rest)).expect("it is");
    server.pause();
    client.write_all(b"Q\0\0\0\x0dSELECT 1\0").expect("the system takes it");
    let asked = std::thread::scope(|scope| {
        let other = scope.spawn(|| server.sql("postgres", "SELECT 2"));
        assert!(client.read(&mut rest).is_err(), "no process of the server runs");
        server.resume();
        other.join().expect("no panic")
    });
    assert_eq!(asked.expect("an answer"), "2");
    eventually("the answer", || ready(&mut client, &mut rest)).expect("it comes");
}

#[test]
fn a_pair_changes_places_again_and_again_and_loses_no_commit_if_it_is_synchronous() {
    let pair = PostgresPair::start(true).expect("a pair");
    ask(pair.primary(), "CREATE TABLE turns (n int)");
    let first = pair.primary().port();
    for turn in 1..=2 {
        ask(pair.primary(), &format!("INSERT INTO turns VALUES ({turn})"));
        let timeline = "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)";
        let before = ask(pair.primary(), timeline);
        pair.fail_over().expect("the standby takes over");
        assert_ne!(ask(pair.primary(), timeline), before, "a promotion begins a timeline");
        assert_eq!(ask(pair.primary(), "SELECT count(*) FROM turns"), turn.to_string());
        pair.rebuild().expect("the other one follows");
        let written = pair.standby().sql("postgres", "INSERT INTO turns VALUES (0)");
        let why = written.expect_err("it takes no writes").to_string();
        assert!(why.contains("read-only"), "{why}");
    }
    assert_eq!(pair.primary().port(), first);
    assert!(pair.url().contains(&format!("127.0.0.1:{first},127.0.0.1:")), "{}", pair.url());
}

#[test]
fn an_asynchronous_standby_may_be_promoted_beside_its_primary() {
    let pair = PostgresPair::start(false).expect("a pair");
    pair.promote().expect("two primaries");
    for server in pair.servers() {
        ask(server, "CREATE TABLE mine (n int)");
    }
}

#[test]
fn a_bouncer_gives_the_same_connection_to_several_clients() {
    let shared = Postgres::shared().expect("a server");
    let database = shared.database().expect("a database");
    let bouncer = PgBouncer::start(shared).expect("a pgbouncer");
    let backend = || {
        let mut psql = std::process::Command::new("psql");
        psql.args(["-XAtqc", "SELECT pg_backend_pid()", &bouncer.url_of(database.name())]);
        let output = psql.output().expect("psql is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    assert_eq!(backend(), backend(), "the second client has the connection of the first");
}
