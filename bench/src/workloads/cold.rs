//! m: from nothing to a command that runs under a lock.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Instant;

use super::{BARS, Contestant, ContestantGroup, Measure, Values, Workload, measure};
use crate::setup::{BenchError, BenchSetup, said};
use crate::stats::median;

const MEASURES: &[Measure] = &[measure("start to end", "ms")];

pub(super) fn workload(setup: &Rc<BenchSetup>) -> Workload {
    let runs = setup.pick(20.0, 50.0) as usize;
    let flock = {
        let path = setup.path("flock");
        Contestant::new("flock", ContestantGroup::Floor, runs as f64 * 0.003, move || {
            repeat(runs, || {
                let mut command = Command::new("flock");
                command.arg(&path).arg("true");
                command
            })
        })
    };
    let ours = {
        let store = format!("file:{}", setup.path("locks").display());
        Contestant::new("taketurns run", ContestantGroup::Ours, runs as f64 * 0.015, move || {
            let program = taketurns()?;
            repeat(runs, || {
                let mut command = Command::new(&program);
                command.args(["--store", &store, "run", "cold", "--", "true"]);
                command
            })
        })
    };
    Workload {
        letter: "m",
        title: "Cold start",
        about: "`flock f true` and `taketurns run cold -- true` with a file, one after the other: from the \
                start of the process to its end.",
        measures: MEASURES,
        contestants: vec![flock, ours.against("flock")],
        rounds_max: usize::MAX,
        pictures: BARS,
    }
}

fn repeat(runs: usize, command: impl Fn() -> Command) -> Result<Values, BenchError> {
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let begun = Instant::now();
        finish(&mut command())?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(vec![(MEASURES[0].name, median(&times).ok_or("there were no runs")?)])
}

/// Runs the command to its end. It must succeed.
pub(super) fn finish(command: &mut Command) -> Result<(), BenchError> {
    let status = command.stdin(Stdio::null()).status().map_err(said)?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}")) }
}

/// Our program, as it was built beside this one.
pub(super) fn taketurns() -> Result<PathBuf, BenchError> {
    let program = std::env::current_exe().map_err(said)?.with_file_name("taketurns");
    match program.is_file() {
        true => Ok(program),
        false => {
            Err("taketurns is not there: build it with cargo build --release -p taketurns-cli"
                .to_owned())
        }
    }
}
