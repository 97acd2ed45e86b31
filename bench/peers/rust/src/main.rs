//! Lock libraries that are not ours, under the loads of the benchmark. One program for all that are in
//! Rust, and for the servers that have a lock of their own.
//!
//! ```text
//! rust-peers LIBRARY pairs --url URL --tasks N --seconds S
//! rust-peers LIBRARY crowd --url URL --clients N --hold-ms MS --seconds S
//! ```
//!
//! Every library is used as its documentation says, with its own defaults. Where those give up rather than
//! wait, the one option that makes it wait is set, and its file says so.

mod args;
mod clock;
mod libraries;
mod load;

use std::process::ExitCode;

use args::Args;
use load::Failure;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("rust-peers: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failure> {
    let args = Args::parse(std::env::args().skip(1))?;
    match args.library.as_str() {
        "rslock" => load::run::<libraries::rslock::Client>(&args).await,
        "rlock" => load::run::<libraries::rlock::Client>(&args).await,
        "async-redis-lock" => load::run::<libraries::async_redis_lock::Client>(&args).await,
        "distributed-lock" => load::run::<libraries::distributed_lock::Client>(&args).await,
        "postgres" => load::run::<libraries::postgres::Client>(&args).await,
        #[cfg(feature = "etcd")]
        "etcd" => load::run::<libraries::etcd::Client>(&args).await,
        other => Err(format!("no such library: {other}").into()),
    }
}
