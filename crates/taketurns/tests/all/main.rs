//! The integration tests of this crate: one program, which is compiled and linked once. Each module tests
//! one subject; `support` has what they share.
//!
//! Tests of all modules run side by side in one process. So no test here may set or count what belongs to
//! the process: environment variables, the working directory, signals, global recorders, open files,
//! threads. A test that must do so runs itself again as a child process (`metrics/elsewhere.rs`). `tests/leaks` is a
//! program of its own, since it counts what its process has.

mod conformance;
mod conformance_foreign;
#[cfg(feature = "postgres")]
mod conformance_postgres;
mod conformance_quorums;
mod conformance_redis;
mod conformance_redis_least;
mod conformance_redlock;
mod doctor;
#[cfg(all(feature = "file", feature = "redis"))]
mod election;
mod faults;
#[cfg(all(feature = "sqlx", feature = "tokio-postgres"))]
mod fenced;
mod file;
mod fuzz;
mod keeping;
mod long;
#[cfg(feature = "metrics")]
mod metrics;
mod once_refused;
#[cfg(feature = "postgres")]
mod postgres_engine;
#[cfg(feature = "postgres")]
mod postgres_losses;
mod quorum;
#[cfg(feature = "redis")]
mod recipes;
mod redis;
mod redlock;
mod runtimes;
mod support;
mod turns;
