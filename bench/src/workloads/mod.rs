//! What is measured: a file per workload, each with its contestants.
//!
//! All contestants of a workload run in each round, in an order that is rotated from round to round, so
//! that nobody always comes first and what else happens on the machine hits all alike.

mod cold;
mod crowd;
mod file;
mod hand_over;
mod local;
mod looking;
mod memory;
mod pairs;
mod pools;
mod quorum;
mod renewals;
mod space;
mod takeover;

use std::rc::Rc;

use crate::rivals::Rival;
use crate::setup::{BenchError, BenchSetup};

pub(crate) use space::hold_all;

/// The workloads there are.
pub(crate) const LETTERS: [&str; 14] =
    ["a", "b", "c", "d", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o"];

/// Those that a quick run leaves out, unless it is asked for them: they take long.
pub(crate) const LONG: [&str; 5] = ["f", "g", "h", "j", "o"];

/// What a contestant did in a round: a value for each measure.
pub(crate) type Values = Vec<(&'static str, f64)>;

/// One thing to do, and who does it.
pub(crate) struct Workload {
    pub(crate) letter: &'static str,
    pub(crate) title: &'static str,
    /// What is done and what is counted.
    pub(crate) about: &'static str,
    /// The first is what contestants are compared by.
    pub(crate) measures: &'static [Measure],
    pub(crate) contestants: Vec<Contestant>,
    /// For what would take too long otherwise, or does not vary.
    pub(crate) rounds_max: usize,
    pub(crate) pictures: &'static [Figure],
}

/// How one of the measures is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Figure {
    /// Its place among the measures.
    pub(crate) measure: usize,
    pub(crate) plot: Plot,
}

/// The first measure as bars.
pub(crate) const BARS: &[Figure] = &[Figure { measure: 0, plot: Plot::Bars }];

/// Bars or lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plot {
    Bars,
    /// By the number that a contestant's name ends with.
    Lines,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    /// More of it is better.
    pub(crate) is_rate: bool,
    /// The table has its ratio too, as it has of the first measure.
    pub(crate) is_compared: bool,
}

impl Measure {
    const fn rate(self) -> Self {
        Self { is_rate: true, ..self }
    }

    const fn compared(self) -> Self {
        Self { is_compared: true, ..self }
    }
}

/// Where a contestant comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContestantGroup {
    Ours,
    /// What can't be done with less.
    Floor,
    /// Another lock library on Redis.
    Library,
    /// A lock of another store.
    Other,
}

/// One that takes part.
pub(crate) struct Contestant {
    pub(crate) name: String,
    pub(crate) party: ContestantGroup,
    /// Whom it is compared with.
    pub(crate) reference: Option<String>,
    /// About how long a round takes, for the progress that is shown.
    pub(crate) seconds: f64,
    /// Not in every round of a quick run.
    pub(crate) rounds_max: usize,
    pub(crate) run: RoundFn,
}

/// Does it once.
pub(crate) type RoundFn = Box<dyn FnMut() -> Result<Values, BenchError>>;

impl Contestant {
    fn new(
        name: impl Into<String>,
        party: ContestantGroup,
        seconds: f64,
        run: impl FnMut() -> Result<Values, BenchError> + 'static,
    ) -> Self {
        let (name, run) = (name.into(), Box::new(run));
        Self { name, party, reference: None, seconds, rounds_max: usize::MAX, run }
    }

    fn against(mut self, reference: impl Into<String>) -> Self {
        self.reference = Some(reference.into());
        self
    }
}

/// A measure where less is better.
pub(crate) const fn measure(name: &'static str, unit: &'static str) -> Measure {
    Measure { name, unit, is_rate: false, is_compared: false }
}

/// All workloads, in the order of the page: first what most users want to know.
pub(crate) fn all(setup: &Rc<BenchSetup>, rivals: &[Rc<Rival>]) -> Vec<Workload> {
    vec![
        hand_over::workload(setup),
        crowd::workload(setup, rivals),
        pairs::alone(setup, rivals),
        pairs::many(setup, rivals),
        local::workload(setup),
        quorum::workload(setup),
        file::workload(setup),
        cold::workload(setup),
        memory::workload(setup),
        takeover::workload(setup),
        renewals::workload(setup),
        space::workload(setup),
        pools::workload(setup),
        looking::workload(setup),
    ]
}
