//! Reports a run: a table for the terminal, all figures as JSON, and the page with its plots.

mod json;
mod machine;
mod page;
mod plot;
mod svg;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use crate::goals::GoalResult;
use crate::results::Results;
use crate::setup::{BenchError, said};

pub(crate) use machine::MachineFacts;
pub(crate) use table::print;

/// The root of this repository.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// A run, with where and how.
pub(crate) struct BenchRun {
    pub(crate) results: Results,
    pub(crate) goals: Vec<GoalResult>,
    pub(crate) machine: MachineFacts,
    pub(crate) rounds: usize,
    pub(crate) quick: bool,
    /// Names, and how each waits.
    pub(crate) rivals: Vec<(String, String)>,
}

pub(crate) fn write_json(run: &BenchRun, path: &Path) -> Result<(), BenchError> {
    fs::write(path, json::text(run)).map_err(|error| format!("{}: {error}", path.display()))
}

/// Where the page is kept.
pub(crate) fn docs() -> PathBuf {
    Path::new(WORKSPACE).join("docs")
}

/// Writes `benchmarks.md` and its pictures into a folder. Pictures of earlier runs go.
pub(crate) fn write_docs(run: &BenchRun, folder: &Path) -> Result<(), BenchError> {
    let pictures = folder.join("benchmarks");
    if pictures.exists() {
        fs::remove_dir_all(&pictures).map_err(said)?;
    }
    fs::create_dir_all(&pictures).map_err(said)?;
    for workload in &run.results.workloads {
        for (name, picture) in plot::all(workload) {
            fs::write(pictures.join(name), picture).map_err(said)?;
        }
    }
    fs::write(folder.join("benchmarks.md"), page::text(run)).map_err(said)
}

/// A figure with as many digits as mean something.
fn figure(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        small if small < 10.0 => 2,
        middling if middling < 100.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.digits$}");
    if value.abs() < 10_000.0 { text } else { grouped(&text) }
}

/// Thousands apart.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_as_many_digits_as_mean_something() {
        let shown = [0.0, 0.954, 23.456, 123.4, 9_999.4, 12_345.6, 1_234_567.0].map(figure);
        let narrow =
            ["0", "0.95", "23.5", "123", "9999", "12\u{202f}346", "1\u{202f}234\u{202f}567"];
        assert_eq!(shown, narrow);
    }
}
