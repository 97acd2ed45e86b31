//! Faults of a PostgreSQL server, alone or as the primary of a pair.

use taketurns_servers::others::Postgres;

use crate::faults::{Fallible, Injection, StepResult, StoreFault};
use crate::plan::MAX_LEASE;

/// The options of every store: quarantines are short.
pub(super) fn options() -> String {
    format!("?max_lease={}", MAX_LEASE.as_secs())
}

/// Connections of clients, in the database or in all.
const CLIENTS: &str = "backend_type = 'client backend' AND pid <> pg_backend_pid()";

/// What ends server processes, or stops them.
pub(super) fn crash_faults<'a>(
    on: &'static str,
    server: impl Fn() -> &'a Postgres + Copy + Send + Sync + 'a,
) -> Vec<StoreFault<'a>> {
    vec![
        StoreFault::new("kill -9", move |dice| {
            // Mostly so quick that those who hold a lock still do.
            let out = if dice.once_in(3) { dice.time(500, 3_000) } else { dice.time(0, 200) };
            Injection::on(on)
                .begin(move || server().kill())
                .lasting(out)
                .end(move || server().restart())
        }),
        // The server then ends all others, and starts from its log: a step that was answered may be lost unless it
        // waited for the disk.
        StoreFault::new("kill -9 of a backend", move |_| {
            Injection::on(on)
                .begin(move || kill_a_backend(server()))
                .end(move || server().wait_until_ready())
        }),
        StoreFault::new("clean restart", move |_| {
            Injection::on(on).begin(move || server().stop()).end(move || server().restart())
        }),
        StoreFault::new("server stopped", move |dice| {
            Injection::on(on)
                .begin(move || server().pause())
                .lasting(dice.time(200, 4_000))
                .end(move || server().resume())
        }),
    ]
}

/// What an operator or another program may do.
pub(super) fn command_faults<'a>(
    on: &'static str,
    database: &'static str,
    server: impl Fn() -> &'a Postgres + Copy + Send + Sync + 'a,
) -> Vec<StoreFault<'a>> {
    vec![
        StoreFault::new("connections ended", move |_| {
            Injection::on(on).begin(move || end_connections(server()))
        }),
        // Every step and every look waits until it is over, or fails.
        StoreFault::new("table locked", move |dice| {
            let time = dice.time(100, 3_000).as_secs_f64();
            let lock = "LOCK TABLE taketurns.lock IN ACCESS EXCLUSIVE MODE";
            Injection::on(on).begin(move || {
                server().sql(database, &format!("{lock}; SELECT pg_sleep({time})")).map(drop)
            })
        }),
        // Dead rows can't be removed meanwhile.
        StoreFault::new("a snapshot stays open", move |dice| {
            let time = dice.time(500, 4_000).as_secs_f64();
            Injection::on(on).begin(move || {
                server().sql(database, &format!("SELECT pg_sleep({time})")).map(drop)
            })
        }),
        // A step that meets another at the same lock fails.
        StoreFault::new("lock_timeout 1 ms", move |dice| {
            let set = move |how: &str| -> StepResult {
                server().sql("postgres", &format!("ALTER DATABASE {database} {how}"))?;
                // Sessions read it when they begin.
                end_connections(server())
            };
            Injection::on(on)
                .begin(move || set("SET lock_timeout = 1"))
                .lasting(dice.time(500, 3_000))
                .end(move || set("RESET lock_timeout"))
        }),
    ]
}

fn kill_a_backend(server: &Postgres) -> StepResult {
    let any = format!("SELECT pid FROM pg_stat_activity WHERE {CLIENTS} ORDER BY random() LIMIT 1");
    let id = server.sql("postgres", &any)?;
    // If all are gone there is none to kill, and if this one is, it need not be.
    if let Ok(id) = id.parse() {
        let _ = server.kill_backend(id);
    }
    Ok(())
}

fn end_connections(server: &Postgres) -> StepResult {
    let all = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {CLIENTS}");
    server.sql("postgres", &all)?;
    Ok(())
}

/// Connections that nobody has closed, and fences of transactions that are over.
pub(super) fn connections_left(server: &Postgres, database: &str) -> Vec<String> {
    let left = || -> Fallible<String> {
        let connections = format!("SELECT query FROM pg_stat_activity WHERE {CLIENTS}");
        let fences = "SELECT name FROM taketurns.fenced";
        Ok(server.sql(database, &connections)? + &server.sql(database, fences)?)
    };
    match left() {
        Ok(left) => left.lines().map(|line| format!("at {}: {line}", server.port())).collect(),
        Err(error) => vec![format!("{} does not answer: {error}", server.port())],
    }
}
