//! Writes the outcome of a round into a folder: the history, a summary of it, and a picture.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;

use taketurns_history::HistoryEvent;
use taketurns_history::summary::Summary;
use taketurns_history::timeline::{self, Zoom};

/// How many violations are told of, of each round.
const TOLD: usize = 20;

/// The outcome of a round.
#[derive(Debug)]
pub(crate) struct RoundReport {
    /// What can't be, and is not excused.
    pub(crate) violations: u64,
    text: String,
}

impl RoundReport {
    /// Judges a history, in the order of time, and puts all there is to see into the folder.
    pub(crate) fn write(events: &[HistoryEvent], folder: &Path) -> io::Result<Self> {
        let file = BufWriter::new(File::create(folder.join("history.jsonl"))?);
        taketurns_history::write(file, events)?;
        let summary = Summary::of(events);
        let picture = timeline::svg(events, &summary.violations, Zoom::default());
        fs::write(folder.join("timeline.svg"), picture)?;
        let found = summary.violations.iter().filter(|found| found.excused_by.is_none());
        let told: Vec<String> = found.take(TOLD).map(|found| format!("  {found}\n")).collect();
        let text = format!("{summary}{}", told.concat());
        fs::write(folder.join("summary.txt"), &text)?;
        Ok(Self { violations: summary.unexcused(), text })
    }
}

impl fmt::Display for RoundReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
