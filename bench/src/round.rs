//! Runs the rounds: every contestant in turn, in an order that changes from round to round, and shows the progress.

use std::time::Instant;

use crate::results::{Row, WorkloadResult};
use crate::workloads::{Contestant, Workload};

/// How far it is, by how long things take on the whole.
pub(crate) struct BenchProgress {
    begun: Instant,
    seconds_done: f64,
    seconds_all: f64,
}

impl BenchProgress {
    pub(crate) fn new(workloads: &[Workload], rounds: usize) -> Self {
        let of_work = |workload: &Workload| -> f64 {
            let rounds = |one: &Contestant| rounds.min(workload.rounds_max).min(one.rounds_max);
            workload.contestants.iter().map(|one| one.seconds * rounds(one) as f64).sum()
        };
        let seconds_all = workloads.iter().map(of_work).sum();
        Self { begun: Instant::now(), seconds_done: 0.0, seconds_all }
    }

    fn show(&self, workload: &Workload, contestant: &Contestant, round: usize, rounds: usize) {
        let left = self.seconds_left();
        let (letter, title, name) = (workload.letter, workload.title, &contestant.name);
        eprintln!(
            "==> {letter}. {title}: {name}, round {} of {rounds}, about {left:.0} s left",
            round + 1
        );
    }

    /// The rest takes as much longer than thought as what was done did.
    fn seconds_left(&self) -> f64 {
        let left = self.seconds_all - self.seconds_done;
        let slower = match self.seconds_done > 5.0 {
            true => self.begun.elapsed().as_secs_f64() / self.seconds_done,
            false => 1.0,
        };
        left * slower
    }
}

/// All rounds of a workload. A contestant that fails does not run again.
pub(crate) fn run(
    mut workload: Workload,
    rounds: usize,
    progress: &mut BenchProgress,
) -> WorkloadResult {
    let rounds = rounds.min(workload.rounds_max);
    let row = |contestant: &Contestant| Row {
        name: contestant.name.clone(),
        party: contestant.party,
        reference: contestant.reference.clone(),
        values: workload
            .measures
            .iter()
            .map(|measure| (measure.name, vec![None; rounds]))
            .collect(),
        not_run: None,
    };
    let mut rows: Vec<Row> = workload.contestants.iter().map(row).collect();
    let count = workload.contestants.len();
    for round in 0..rounds {
        for place in 0..count {
            let index = (place + round) % count;
            let row = &mut rows[index];
            let contestant = &workload.contestants[index];
            if round >= contestant.rounds_max {
                continue;
            }
            let seconds = contestant.seconds;
            if row.not_run.is_some() {
                progress.seconds_done += seconds;
                continue;
            }
            progress.show(&workload, contestant, round, rounds);
            match (workload.contestants[index].run)() {
                Ok(values) => {
                    for (measure, value) in values {
                        row.values.entry(measure).or_insert_with(|| vec![None; rounds])[round] =
                            Some(value);
                    }
                }
                Err(why) => {
                    eprintln!("    not run: {why}");
                    row.not_run = Some(why);
                }
            }
            progress.seconds_done += seconds;
        }
    }
    WorkloadResult::of(&workload, rows)
}
