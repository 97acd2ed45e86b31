//! For who watches: aligned text.

use super::{Run, figure};
use crate::results::{Done, Row};
use crate::stats::Spread;

pub(crate) fn print(run: &Run) {
    for work in &run.results.works {
        println!("\n{}. {}", work.letter, work.title);
        for line in aligned(&rows(work)) {
            println!("  {line}");
        }
    }
    println!("\nGoals");
    for line in aligned(&goals(run)) {
        println!("  {line}");
    }
}

/// A heading, and a line for each contestant.
pub(super) fn rows(work: &Done) -> Vec<Vec<String>> {
    let head = |measure: &crate::works::Measure| format!("{}, {}", measure.name, measure.unit);
    let compared = work.rows.iter().any(|row| row.reference.is_some());
    let mut heading = vec![String::new()];
    heading.extend(compared.then(|| "ratio".to_owned()));
    heading.extend(work.measures.iter().map(head));
    let mut lines = vec![heading];
    for row in &work.rows {
        let mut line = vec![row.name.clone()];
        line.extend(compared.then(|| ratio(work, row)));
        line.extend(work.measures.iter().map(|measure| {
            row.spread(measure.name).map_or(String::new(), |spread| figure(spread.median))
        }));
        lines.push(line);
    }
    lines
}

fn ratio(work: &Done, row: &Row) -> String {
    if let Some(why) = &row.not_run {
        return format!("not run: {why}");
    }
    match work.against(row) {
        Some((reference, _)) if reference == row.name => "1".to_owned(),
        Some((_, spread)) => with_spread(spread, "×"),
        None => String::new(),
    }
}

pub(super) fn with_spread(Spread { median, min, max }: Spread, unit: &str) -> String {
    let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    format!("{median:.2}{unit} ({min:.2}–{max:.2})")
}

pub(super) fn goals(run: &Run) -> Vec<Vec<String>> {
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
    use crate::results::tests::done;
    use crate::works::Party;

    #[test]
    fn a_contestant_that_was_not_run_says_why_in_its_line() {
        let rounds: [(&str, Party, &[f64]); 2] =
            [("floor", Party::Floor, &[100.0, 200.0]), ("peer", Party::Library, &[50.0, 40.0])];
        let mut work = done("a", &rounds);
        let cell = |work: &Done, line: usize| rows(work)[line].clone();
        assert_eq!(cell(&work, 0), ["", "ratio", "rate, 1/s"]);
        assert_eq!(cell(&work, 1), ["floor", "1", "150"]);
        assert_eq!(cell(&work, 2), ["peer", "0.35 × (0.20–0.50)", "45.0"]);
        work.rows[1].not_run = Some("it is not installed".to_owned());
        assert_eq!(cell(&work, 2)[1], "not run: it is not installed");
        let text = aligned(&rows(&work));
        assert_eq!(text[1], "floor  1      150", "a long reason widens no column");
    }
}
