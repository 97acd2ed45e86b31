//! The rounds: everybody in turn, in an order that changes, while the progress is shown.

use std::time::Instant;

use crate::results::{Done, Row};
use crate::works::{Contestant, Work};

/// How far it is, by how long things take on the whole.
pub(crate) struct Progress {
    begun: Instant,
    seconds_done: f64,
    seconds_all: f64,
}

impl Progress {
    pub(crate) fn new(works: &[Work], rounds: usize) -> Self {
        let of_work = |work: &Work| -> f64 {
            let rounds = |one: &Contestant| rounds.min(work.rounds_max).min(one.rounds_max);
            work.contestants.iter().map(|one| one.seconds * rounds(one) as f64).sum()
        };
        let seconds_all = works.iter().map(of_work).sum();
        Self { begun: Instant::now(), seconds_done: 0.0, seconds_all }
    }

    fn show(&self, work: &Work, contestant: &Contestant, round: usize, rounds: usize) {
        let left = self.seconds_left();
        let (letter, title, name) = (work.letter, work.title, &contestant.name);
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

/// All rounds of a work. A contestant that fails does not run again.
pub(crate) fn run(mut work: Work, rounds: usize, progress: &mut Progress) -> Done {
    let rounds = rounds.min(work.rounds_max);
    let row = |contestant: &Contestant| Row {
        name: contestant.name.clone(),
        party: contestant.party,
        reference: contestant.reference,
        values: work.measures.iter().map(|measure| (measure.name, vec![None; rounds])).collect(),
        not_run: None,
    };
    let mut rows: Vec<Row> = work.contestants.iter().map(row).collect();
    let count = work.contestants.len();
    for round in 0..rounds {
        for place in 0..count {
            let index = (place + round) % count;
            let row = &mut rows[index];
            let contestant = &work.contestants[index];
            if round >= contestant.rounds_max {
                continue;
            }
            let seconds = contestant.seconds;
            if row.not_run.is_some() {
                progress.seconds_done += seconds;
                continue;
            }
            progress.show(&work, contestant, round, rounds);
            match (work.contestants[index].run)() {
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
    Done::of(&work, rows)
}
