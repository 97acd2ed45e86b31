//! What a round comes to: how much was done, what went wrong, and what can't be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;

use taketurns_history::{Event, Violation, What, check};

/// How many violations are told of, of each round.
const TOLD: usize = 20;

/// The outcome of a round.
#[derive(Debug)]
pub(crate) struct Report {
    /// What can't be, and is not excused.
    pub(crate) violations: usize,
    text: String,
}

/// What happened how often.
#[derive(Debug, Default)]
struct Counts {
    operations: u64,
    granted: u64,
    given_up: u64,
    lost: u64,
    faults: BTreeMap<String, u64>,
    /// Who is stopped: the nemesis notes it, and so does whoever was.
    stopped: BTreeSet<u32>,
    /// Let through and refused, and those among the former that undid another's.
    fenced: [u64; 3],
    unfenced: [u64; 3],
}

impl Counts {
    fn of(events: &[Event]) -> Self {
        let mut counts = Self::default();
        for event in events {
            counts.add(&event.what);
        }
        counts
    }

    fn add(&mut self, what: &What) {
        let mut fault = |kind: &str| *self.faults.entry(kind.to_owned()).or_default() += 1;
        match what {
            What::Asked { .. } => self.operations += 1,
            What::Granted { .. } => self.granted += 1,
            What::Failed { .. } | What::Cancelled { .. } => self.given_up += 1,
            What::Lost { .. } | What::Checked { until_us: None, .. } => self.lost += 1,
            What::Died { .. } => fault("client killed"),
            What::Paused { client } if self.stopped.insert(*client) => fault("client stopped"),
            What::Resumed { client } => {
                self.stopped.remove(client);
            }
            What::Fault { kind, .. } => fault(kind),
            What::Wrote { fenced, accepted, stale, .. } => {
                let of = if *fenced { &mut self.fenced } else { &mut self.unfenced };
                of[usize::from(!accepted)] += 1;
                of[2] += u64::from(*accepted && *stale);
            }
            _ => {}
        }
    }
}

impl Report {
    /// Judges a history, in the order of time, and puts all there is to see into the folder.
    pub(crate) fn write(title: &str, events: &[Event], folder: &Path) -> io::Result<Self> {
        let file = BufWriter::new(File::create(folder.join("history.jsonl"))?);
        taketurns_history::write(file, events)?;
        let found = check(events);
        let violations = found.iter().filter(|it| it.excused_by.is_none()).count();
        // The place for `taketurns_history::summary` (longest stall, latencies) and for
        // `taketurns_history::timeline`, whose picture goes to `timeline.svg` beside the history.
        let text = table(title, &Counts::of(events), &found);
        fs::write(folder.join("summary.txt"), &text)?;
        Ok(Self { violations, text })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn table(title: &str, counts: &Counts, found: &[Violation]) -> String {
    let (excused, real): (Vec<_>, Vec<_>) = found.iter().partition(|it| it.excused_by.is_some());
    let Counts { operations, granted, given_up, lost, faults, fenced, unfenced, .. } = counts;
    let mut text = format!("{title}\n");
    let mut row = |name: &str, what: String| {
        writeln!(text, "  {name:<32} {what}").expect("a string takes all");
    };
    row("operations", format!("{operations}: {granted} granted, {given_up} given up"));
    row("guards lost", lost.to_string());
    let wrote = |[let_through, refused, hurt]: &[u64; 3]| {
        format!("{let_through} writes, {refused} refused, {hurt} undid another's")
    };
    row("resource with a fence", wrote(fenced));
    row("resource without", wrote(unfenced) + ", which no lease prevents");
    row("faults", faults.values().sum::<u64>().to_string());
    for (kind, count) in faults {
        row(&format!("  {kind}"), count.to_string());
    }
    row("violations", real.len().to_string());
    row("seen, and not promised", excused.len().to_string());
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for Violation { guarantee, excused_by, .. } in &excused {
        let fault = excused_by.as_deref().unwrap_or_default();
        *reasons.entry(format!("  {guarantee:?} after {fault}")).or_default() += 1;
    }
    for (reason, count) in reasons {
        row(&reason, count.to_string());
    }
    for violation in real.iter().take(TOLD) {
        writeln!(text, "  {violation}").expect("a string takes all");
    }
    text
}
