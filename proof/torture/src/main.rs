//! Real clients on real servers while everything goes wrong: `cargo xtask torture`.
//!
//! ```text
//!   this process                                     six client processes, replaced when killed
//!   ┌────────────────────────────┐   spawn, stop,    ┌───────────────────────────────┐
//!   │ nemesis ── faults ─► stage │   kill            │ three tasks that take turns   │
//!   │ observer ─ who waits       ├──────────────────►│   ask, hold, look, write      │
//!   │ resources, one with a fence│◄── read, write ───┤                               │
//!   └──────────┬─────────────────┘                   └──────────┬────────────────────┘
//!              └──────────── history, one file each ────────────┘
//!                                   │ check
//!                                   ▼ summary.txt, history.jsonl; 1 if something can't be
//! ```
//!
//! A run has rounds of some minutes with a history each, so it may go on for as long as one likes. Every
//! process ends with this one, however that ends.

mod args;
mod client;
mod dice;
mod faults;
mod fleet;
mod mounts;
mod nemesis;
mod notes;
mod observer;
mod plan;
mod pulse;
mod report;
mod resources;
mod round;
mod stages;

use std::process::ExitCode;
use std::time::Duration;

use args::Options;

/// No round is longer: its whole history is looked at in the end.
const ROUND: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let done = match args.next().as_deref() {
        Some("client") => as_client(args.next()),
        first => Options::parse(first.map(str::to_owned).into_iter().chain(args)).and_then(run),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn as_client(orders: Option<String>) -> Result<(), String> {
    let orders = serde_json::from_str(&orders.unwrap_or_default());
    client::run(&orders.map_err(|error| format!("no orders: {error}"))?)
}

/// All rounds on all engines, in turn. The first that finds something is the last.
fn run(options: Options) -> Result<(), String> {
    if options.engines.iter().any(|engine| engine.wants_disk()) {
        mounts::enter();
    }
    for engine in &options.engines {
        let mut left = options.time;
        let mut seed = options.seed;
        while !left.is_zero() {
            let time = left.min(ROUND);
            let folder = options.out.join(engine.name());
            let report = round::run(*engine, time, seed, &folder).map_err(|error| {
                format!("{}: {error}; seed {seed}, see {}", engine.name(), folder.display())
            })?;
            println!("{report}");
            if report.violations > 0 {
                let (name, folder) = (engine.name(), folder.display());
                return Err(format!("{name}: something can't be; seed {seed}, see {folder}"));
            }
            left -= time;
            seed = seed.wrapping_add(1);
        }
    }
    Ok(())
}
