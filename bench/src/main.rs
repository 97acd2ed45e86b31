//! How fast: ours, the floor and other locks, in one run on the same servers: `cargo xtask bench`.
//!
//! ```text
//!   workloads ──► rounds ──► results ──► goals      the targets, and what was reached
//!     │                         └──────► report     a table, JSON, docs/benchmarks.md with plots
//!     └ contestants: floor, ours on the servers of setup; peers as processes of their own
//! ```

mod args;
mod bloat;
mod cpu;
mod floor;
mod goals;
mod parts;
mod peers;
mod report;
mod results;
mod rivals;
mod round;
mod setup;
mod stats;
mod turn_processes;
mod turns;
mod workloads;

use std::process::ExitCode;
use std::rc::Rc;

use args::Options;
use report::{BenchRun, MachineFacts};
use results::Results;
use rivals::{Rival, Rivals};
use round::BenchProgress;
use setup::{BenchError, BenchSetup};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let part = args.split_first().and_then(|(part, args)| parts::run(part, args));
    let all = || Options::parse(args.iter().cloned()).and_then(|options| run(&options));
    match part.unwrap_or_else(all) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), BenchError> {
    let setup = Rc::new(BenchSetup::start(options.quick)?);
    let machine = MachineFacts::look(&setup.plain);
    let rivals = if options.peers { Rivals::gather(&setup) } else { Rivals::default() };
    let mut workloads = workloads::all(&setup, &rivals.all);
    workloads.retain(|workload| options.wants(workload.letter));
    let rounds = options.rounds();
    let mut progress = BenchProgress::new(&workloads, rounds);
    let run_one = |workload| round::run(workload, rounds, &mut progress);
    let results = Results { workloads: workloads.into_iter().map(run_one).collect() };
    let goals = goals::reached(&results);
    let about = |rival: &Rc<Rival>| (rival.name.clone(), rival.about.clone());
    let rivals = rivals.all.iter().map(about).collect();
    let run = BenchRun { results, goals, machine, rounds, quick: options.quick, rivals };
    report::print(&run);
    if let Some(path) = &options.json {
        report::write_json(&run, path)?;
    }
    if let Some(folder) = options.docs(&report::docs()) {
        report::write_docs(&run, &folder)?;
    }
    Ok(())
}
