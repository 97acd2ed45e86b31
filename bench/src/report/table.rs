//! The results as a table of aligned text, for the terminal.

use super::{BenchRun, figure};
use crate::results::{Row, WorkloadResult};
use crate::stats::Spread;
use crate::workloads::Measure;

pub(crate) fn print(run: &BenchRun) {
    for workload in &run.results.workloads {
        println!("\n{}. {}", workload.letter, workload.title);
        for line in aligned(&rows(workload)) {
            println!("  {line}");
        }
    }
    println!("\nGoals");
    for line in aligned(&goals(run)) {
        println!("  {line}");
    }
}

/// A heading, and a line for each contestant.
pub(super) fn rows(workload: &WorkloadResult) -> Vec<Vec<String>> {
    let head = |measure: &Measure| match measure.unit {
        "" => measure.name.to_owned(),
        unit => format!("{}, {unit}", measure.name),
    };
    let compared = workload.rows.iter().any(|row| row.reference.is_some());
    let mut heading = vec![String::new()];
    heading.extend(compared.then(|| "ratio".to_owned()));
    heading.extend(workload.measures.iter().map(head));
    let mut lines = vec![heading];
    for row in &workload.rows {
        let mut line = vec![row.name.clone()];
        line.extend(compared.then(|| ratio(workload, row)));
        line.extend(workload.measures.iter().map(|measure| cell(workload, row, measure)));
        lines.push(line);
    }
    lines
}

/// The median, in brackets the best round if it differs, and the ratio to the reference.
fn cell(workload: &WorkloadResult, row: &Row, measure: &Measure) -> String {
    let Some(spread) = row.spread(measure.name) else { return String::new() };
    let median = figure(spread.median);
    let best = figure(if measure.is_rate { spread.max } else { spread.min });
    let mut text = if best == median { median } else { format!("{median} ({best})") };
    if measure.is_compared
        && row.reference.as_ref() != Some(&row.name)
        && let Some(ratio) = workload.ratio(row, measure)
    {
        text += &format!(" = {:.2} ×", ratio.median);
    }
    text
}

fn ratio(workload: &WorkloadResult, row: &Row) -> String {
    if let Some(why) = &row.not_run {
        return format!("not run: {why}");
    }
    match workload.against(row) {
        Some((reference, _)) if reference == row.name => "1".to_owned(),
        Some((_, spread)) => with_spread(spread, "×"),
        None => String::new(),
    }
}

pub(super) fn with_spread(Spread { median, min, max }: Spread, unit: &str) -> String {
    let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    format!("{median:.2}{unit} ({min:.2}–{max:.2})")
}

pub(super) fn goals(run: &BenchRun) -> Vec<Vec<String>> {
    let mut lines = vec![["", "goal", "reached", ""].map(str::to_owned).to_vec()];
    for goal in &run.goals {
        let sign = if goal.at_least { "≥" } else { "≤" };
        let reached = goal.ratio.map_or(String::new(), |spread| with_spread(spread, ""));
        let met = match goal.met() {
            Some(true) => "met",
            Some(false) => "missed",
            None => "not run",
        };
        lines.push(vec![
            goal.name.to_owned(),
            format!("{sign} {}", goal.goal),
            reached,
            met.to_owned(),
        ]);
    }
    lines
}

/// Columns of one width each. The last is as long as it likes.
fn aligned(lines: &[Vec<String>]) -> Vec<String> {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = lines.iter().filter(|line| !line[column].starts_with("not run:"));
        cells.map(|line| line[column].chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |line: &Vec<String>| {
        let cells = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        cells.collect::<Vec<String>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{RATE, done};
    use crate::workloads::ContestantGroup;

    #[test]
    fn a_contestant_that_was_not_run_says_why_in_its_line() {
        let rounds: [(&str, ContestantGroup, &[f64]); 2] = [
            ("floor", ContestantGroup::Floor, &[100.0, 200.0]),
            ("peer", ContestantGroup::Library, &[50.0, 40.0]),
        ];
        let mut workload = done("a", &rounds);
        let cell = |workload: &WorkloadResult, line: usize| rows(workload)[line].clone();
        assert_eq!(cell(&workload, 0), ["", "ratio", "rate, 1/s"]);
        assert_eq!(cell(&workload, 1), ["floor", "1", "150 (200)"]);
        assert_eq!(cell(&workload, 2), ["peer", "0.35 × (0.20–0.50)", "45.0 (50.0)"]);
        workload.rows[1].not_run = Some("it is not installed".to_owned());
        assert_eq!(cell(&workload, 2)[1], "not run: it is not installed");
        workload.measures = &[Measure { is_compared: true, ..RATE }];
        assert_eq!(cell(&workload, 1)[2], "150 (200)", "itself is not compared");
        workload.rows[1].not_run = None;
        assert_eq!(cell(&workload, 2)[2], "45.0 (50.0) = 0.35 ×");
        workload.rows[1].not_run = Some("it is not installed".to_owned());
        let text = aligned(&rows(&workload));
        assert_eq!(text[1], "floor  1      150 (200)", "a long reason widens no column");
    }
}
