//! How fast: ours, the floor and other locks, in one run on the same servers: `cargo xtask bench`.
//!
//! ```text
//!   works ──► rounds ──► results ──► goals      what is to be reached, and was
//!     │                     └──────► report     a table, JSON, docs/benchmarks.md with plots
//!     └ contestants: floor, ours on stage's servers; peers as processes of their own
//! ```

mod args;
mod floor;
mod goals;
mod parts;
mod peers;
mod report;
mod results;
mod rivals;
mod round;
mod stage;
mod stats;
mod turns;
mod works;

use std::process::ExitCode;
use std::rc::Rc;

use args::Options;
use report::{Machine, Run};
use results::Results;
use rivals::{Rival, Rivals};
use round::Progress;
use stage::{Stage, Why};

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

fn run(options: &Options) -> Result<(), Why> {
    let stage = Rc::new(Stage::set(options.quick)?);
    let machine = Machine::look(&stage.plain);
    let rivals = if options.peers { Rivals::gather() } else { Rivals::default() };
    let mut works = works::all(&stage, &rivals.all);
    works.retain(|work| options.wants(work.letter));
    let rounds = options.rounds();
    let mut progress = Progress::new(&works, rounds);
    let run_one = |work| round::run(work, rounds, &mut progress);
    let results = Results { works: works.into_iter().map(run_one).collect() };
    let goals = goals::reached(&results);
    let about = |rival: &Rc<Rival>| (rival.name.clone(), rival.about.clone());
    let rivals = rivals.all.iter().map(about).collect();
    let run = Run { results, goals, machine, rounds, quick: options.quick, rivals };
    report::print(&run);
    if let Some(path) = &options.json {
        report::write_json(&run, path)?;
    }
    if options.docs() {
        report::write_docs(&run)?;
    }
    Ok(())
}
