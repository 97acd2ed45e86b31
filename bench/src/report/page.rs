//! `docs/benchmarks.md`.

use std::fmt::Write as _;

use super::table::{goals, rows};
use super::{BenchRun, plot};

/// What can't be generated.
const NOTES: &str = include_str!("../../notes.md");

pub(super) fn text(run: &BenchRun) -> String {
    let mut page = format!(
        "# Benchmarks\n\n\
         `cargo xtask bench` measures our locks, the floor and other locks in one run on the same \
         servers, and writes this page. `--quick` takes less than 3 minutes, `--only a,c` runs some \
         workloads, `--json FILE` writes all figures.\n\n\
         Every contestant runs in each of {} rounds, in an order that rotates from round to round. A ratio \
         compares two results of the same round; the tables show the median of the ratios, with the \
         smallest and the largest. Times are medians of this machine, for scale.\n\n\
         Measured on {}.\n\n\
         ## Goals\n\n",
        run.rounds,
        run.machine.words()
    );
    page += &table(&goals(run));
    page += &others(&run.rivals);
    for workload in &run.results.workloads {
        let _ =
            write!(page, "\n## {}. {}\n\n{}\n\n", workload.letter, workload.title, workload.about);
        if plot::of(workload).is_some() {
            let _ = write!(page, "![{}](benchmarks/{}.svg)\n\n", workload.title, workload.letter);
        }
        page += &table(&rows(workload));
    }
    page + "\n" + NOTES
}

/// How those wait who are not ours.
fn others(rivals: &[(String, String)]) -> String {
    if rivals.is_empty() {
        return String::new();
    }
    let lines = rivals.iter().map(|(name, about)| format!("- **{name}**, {about}\n"));
    let lines: String = lines.collect();
    format!("\n## The others\n\nEach is a process of its own, with its own defaults.\n\n{lines}")
}

fn table(lines: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (place, line) in lines.iter().enumerate() {
        let cells: Vec<String> = line.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
        if place == 0 {
            let _ = writeln!(text, "|{}", "---|".repeat(line.len()));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goals::reached;
    use crate::report::MachineFacts;
    use crate::results::Results;
    use crate::results::tests::done;
    use crate::workloads::ContestantGroup;

    #[test]
    fn the_page_has_goals_a_table_per_work_and_the_notes() {
        let rows: [(&str, ContestantGroup, &[f64]); 1] =
            [("floor", ContestantGroup::Floor, &[1.0])];
        let results = Results { workloads: vec![done("a", &rows)] };
        let goals = reached(&results);
        let machine = MachineFacts::default();
        let page = text(&BenchRun {
            results,
            goals,
            machine,
            rounds: 1,
            quick: false,
            rivals: Vec::new(),
        });
        assert!(page.contains("| a. pairs/s against the floor, scripts | ≥ 0.95 |  | not run |"));
        assert!(page.contains("## a. A work\n\nIt is done.\n\n![A work](benchmarks/a.svg)\n\n"));
        assert!(page.contains("|  | ratio | rate, 1/s |\n|---|---|---|\n| floor | 1 | 1.00 |"));
        assert!(page.ends_with(NOTES));
    }
}
