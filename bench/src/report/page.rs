//! `docs/benchmarks.md`.

use std::fmt::Write as _;

use super::table::{goals, rows};
use super::{Run, plot};

/// What can't be generated.
const NOTES: &str = include_str!("../../notes.md");

pub(super) fn text(run: &Run) -> String {
    let mut page = format!(
        "# Benchmarks\n\n\
         `cargo xtask bench` measures ours, the floor and other locks in one run on the same servers, \
         and writes this page. `--quick` ends within 3 minutes, `--only a,c` runs some works, `--json \
         FILE` writes all figures.\n\n\
         Everybody runs in each of {} rounds, in an order that is rotated from round to round. A ratio \
         is of the same round; shown is the median of the ratios, with the smallest and the largest. \
         Times are medians, for scale: they are this machine's.\n\n\
         Measured on {}.\n\n\
         ## Goals\n\n",
        run.rounds,
        run.machine.words()
    );
    page += &table(&goals(run));
    page += &others(&run.rivals);
    for work in &run.results.works {
        let _ = write!(page, "\n## {}. {}\n\n{}\n\n", work.letter, work.title, work.about);
        if plot::of(work).is_some() {
            let _ = write!(page, "![{}](benchmarks/{}.svg)\n\n", work.title, work.letter);
        }
        page += &table(&rows(work));
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
    use crate::report::Machine;
    use crate::results::Results;
    use crate::results::tests::done;
    use crate::works::Party;

    #[test]
    fn the_page_has_goals_a_table_per_work_and_the_notes() {
        let rows: [(&str, Party, &[f64]); 1] = [("floor", Party::Floor, &[1.0])];
        let results = Results { works: vec![done("a", &rows)] };
        let goals = reached(&results);
        let machine = Machine::default();
        let page =
            text(&Run { results, goals, machine, rounds: 1, quick: false, rivals: Vec::new() });
        assert!(page.contains("| a. pairs/s against the floor, scripts | ≥ 0.95 |  | not run |"));
        assert!(page.contains("## a. A work\n\nIt is done.\n\n![A work](benchmarks/a.svg)\n\n"));
        assert!(page.contains("|  | ratio | rate, 1/s |\n|---|---|---|\n| floor | 1 | 1.00 |"));
        assert!(page.ends_with(NOTES));
    }
}
