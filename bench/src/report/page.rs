//! `docs/benchmarks.md`.

use std::fmt::Write as _;

use super::table::{goals, rows};
use super::{BenchRun, figure, plot};
use crate::goals::{SHARES, TURNS};
use crate::results::{Results, Row};
use crate::workloads::ContestantGroup;

/// What can't be generated.
const NOTES: &str = include_str!("../../notes.md");

pub(super) fn text(run: &BenchRun) -> String {
    let mut page = format!(
        "# Benchmarks\n\n\
         How long a lock takes to change hands, who waits how long, and what a lock costs, beside raw commands (the \
         floor) and other locks on the same servers.\n\n{}\
         All of it is from one run of `cargo xtask bench`, which writes this page: {} rounds on {}. Every \
         contestant runs in each round, in an order that rotates. Figures are medians of the rounds, with the \
         best round in brackets. A ratio compares two results of the same round: the median of the ratios, with \
         the smallest and the largest. `=` gives such a ratio for CPU time, which repeats best. \
         Wall-clock times are those of this machine.\n",
        in_short(&run.results),
        run.rounds,
        run.machine.words()
    );
    for workload in &run.results.workloads {
        let _ = write!(page, "\n## {}\n\n{}\n\n", workload.title, workload.about);
        for (name, _) in plot::all(workload) {
            let _ = write!(page, "![{}](benchmarks/{name})\n\n", workload.title);
        }
        page += &table(&rows(workload));
    }
    page += &others(&run.rivals);
    page +=
        "\n## Goals\n\nJudged by the median, with the smallest and the largest of the rounds.\n\n";
    page += &table(&goals(run));
    page + "\n" + NOTES
}

/// What most readers came for, as far as it was measured.
fn in_short(results: &Results) -> String {
    let value = |letter: &str, row: &str, measure: &str| {
        let spread = results.workload(letter)?.row(row)?.spread(measure)?;
        Some(spread.median)
    };
    let both = |letter: &str, measure: &str, unit: &str| {
        let [scripts, module] = ["scripts", "module"].map(|row| value(letter, row, measure));
        Some(format!("{} {unit} ({} with the module)", figure(scripts?), figure(module?)))
    };
    let of = |row: &str, measure: &str| value("d", row, measure).map(figure);
    let best = || {
        let rows = results.workload("d")?.rows.iter();
        let libraries = rows.filter(|row| row.party == ContestantGroup::Library);
        let rate = |row: &Row| row.spread(TURNS).map_or(0.0, |spread| spread.median);
        libraries.max_by(|one, other| rate(one).total_cmp(&rate(other)))
    };
    let hand_over = || {
        let [scripts, module] = ["scripts, 2", "module, 2"].map(|row| value("c", row, "p50"));
        Some(format!(
            "- **Hand-over.** A released lock reaches the next process in {} µs, with the module in {} µs. A bare \
             `PUBLISH` takes {} µs.\n",
            figure(scripts?),
            figure(module?),
            figure(value("c", "one PUBLISH hop", "p50")?)
        ))
    };
    let turns = || {
        let (ours, best) = (both("d", TURNS, "hand-overs a second")?, best()?);
        Some(format!(
            "- **One lock, 16 clients.** {ours}; the best other library on Redis, {}, makes {}, etcd {}, \
             PostgreSQL {}. No more than 1 000 are possible.\n",
            best.name,
            figure(best.spread(TURNS)?.median),
            of("etcd", TURNS)?,
            of("postgres", TURNS)?
        ))
    };
    let waits = || {
        let [ours, module] = ["scripts", "module"].map(|row| value("d", row, SHARES));
        Some(format!(
            "- **The longest wait there.** {} fair shares ({} with the module), where 1 is a turn of each client; with {} \
             it is {}.\n",
            figure(ours?),
            figure(module?),
            best()?.name,
            figure(best()?.spread(SHARES)?.median)
        ))
    };
    let pairs = || {
        let ours = both("a", "pairs per second", "times a second")?;
        Some(format!(
            "- **Nobody else wants it.** One task acquires and releases {ours}; raw commands reach {}.\n",
            figure(value("a", "floor", "pairs per second")?)
        ))
    };
    let lines: String = [hand_over(), turns(), waits(), pairs()].into_iter().flatten().collect();
    if lines.is_empty() { lines } else { lines + "\n" }
}

/// How those wait who are not ours.
fn others(rivals: &[(String, String)]) -> String {
    if rivals.is_empty() {
        return String::new();
    }
    let lines = rivals.iter().map(|(name, about)| format!("- **{name}**, {about}\n"));
    let lines: String = lines.collect();
    format!(
        "\n## The other locks\n\nEach is a process of its own, with its own defaults.\n\n{lines}"
    )
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
    use crate::results::tests::done;

    #[test]
    fn the_page_has_goals_a_table_per_work_and_the_notes() {
        let rows: [(&str, ContestantGroup, &[f64]); 1] =
            [("floor", ContestantGroup::Floor, &[1.0])];
        let results = Results { workloads: vec![done("a", &rows)] };
        assert_eq!(in_short(&results), "", "nothing of it was measured");
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
        assert!(
            page.contains("| one task: pairs/s against the floor, scripts | ≥ 0.9 |  | not run |")
        );
        assert!(page.contains("## A work\n\nIt is done.\n\n![A work](benchmarks/a.svg)\n\n"));
        assert!(page.contains("|  | ratio | rate, 1/s |\n|---|---|---|\n| floor | 1 | 1.00 |"));
        assert!(page.ends_with(NOTES));
    }
}
