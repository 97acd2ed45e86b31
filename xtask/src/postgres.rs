//! The tests of the PostgreSQL engine: `cargo xtask postgres` runs them a few at a time.
//!
//! A step there is a transaction of two round trips, in a process of the server for each connection. Beside all other
//! tests on two cores a step can take as long as the leases of the conformance suite. Until these tests do not depend on
//! that, they are no part of `cargo xtask test`, which runs the others: fenced transactions and the manual.

use crate::install::{self, Dependency};
use crate::{cargo, succeeds};

const USAGE: &str = "usage: cargo xtask postgres";
/// So few tests at a time leave a core to the server.
const THREADS: &str = "2";

/// The conformance suite, directly and behind pgbouncer.
pub(crate) const CONFORMANCE: &str = "conformance_postgres::";
/// What that suite does not ask.
pub(crate) const ENGINE: &str = "postgres_engine::";
/// What a server that lost commits grants.
pub(crate) const LOSSES: &str = "postgres_losses::";
/// What clients leave behind.
pub(crate) const LEAKS: &str = "nothing_is_left_in_postgresql";

/// Runs them, and shows how it goes.
pub(crate) fn run(mut args: impl Iterator<Item = String>) -> Result<(), String> {
    if args.next().is_some() {
        return Err(USAGE.to_owned());
    }
    install::missing(&[Dependency::Postgres, Dependency::PgBouncer])?;
    let of = |test: &str, filters: &[&str]| {
        let mut command =
            cargo(&["test", "--package", "taketurns", "--all-features", "--test", test, "--"]);
        command.args(filters).args(["--test-threads", THREADS]);
        succeeds(&mut command)
    };
    let passed = [of("all", &[CONFORMANCE, ENGINE, LOSSES])?, of("leaks", &[LEAKS])?];
    match passed.iter().all(|passed| *passed) {
        true => Ok(()),
        false => Err("==> a test failed: see above".to_owned()),
    }
}
