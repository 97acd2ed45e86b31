//! What is measured: a file per work, each with its contestants.
//!
//! All contestants of a work run in each round, in an order that is rotated from round to round, so
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
use crate::stage::{Stage, Why};

pub(crate) use space::hold_all;

/// The works there are.
pub(crate) const LETTERS: [&str; 15] =
    ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o"];

/// What a contestant did in a round: a value for each measure.
pub(crate) type Values = Vec<(&'static str, f64)>;

/// One thing to do, and who does it.
pub(crate) struct Work {
    pub(crate) letter: &'static str,
    pub(crate) title: &'static str,
    /// What is done and what is counted.
    pub(crate) about: &'static str,
    /// The first is what contestants are compared by.
    pub(crate) measures: &'static [Measure],
    pub(crate) contestants: Vec<Contestant>,
    /// For what would take too long otherwise, or does not vary.
    pub(crate) rounds_max: usize,
    pub(crate) plot: Plot,
}

/// How the first measure is drawn.
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
}

/// Where a contestant comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Party {
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
    pub(crate) party: Party,
    /// Whom it is compared with.
    pub(crate) reference: Option<&'static str>,
    /// About how long a round takes, for the progress that is shown.
    pub(crate) seconds: f64,
    /// Not in every round of a quick run.
    pub(crate) rounds_max: usize,
    pub(crate) run: Run,
}

/// Does it once.
pub(crate) type Run = Box<dyn FnMut() -> Result<Values, Why>>;

impl Contestant {
    fn new(
        name: impl Into<String>,
        party: Party,
        seconds: f64,
        run: impl FnMut() -> Result<Values, Why> + 'static,
    ) -> Self {
        let (name, run) = (name.into(), Box::new(run));
        Self { name, party, reference: None, seconds, rounds_max: usize::MAX, run }
    }

    fn against(mut self, reference: &'static str) -> Self {
        self.reference = Some(reference);
        self
    }
}

const fn measure(name: &'static str, unit: &'static str) -> Measure {
    Measure { name, unit }
}

/// All works, in the order of their letters.
pub(crate) fn all(stage: &Rc<Stage>, rivals: &[Rc<Rival>]) -> Vec<Work> {
    vec![
        pairs::alone(stage, rivals),
        pairs::many(stage, rivals),
        hand_over::work(stage),
        crowd::fairness(stage, rivals),
        crowd::cost(stage),
        space::work(stage),
        renewals::work(stage),
        pools::work(stage),
        quorum::work(stage),
        takeover::work(stage),
        file::work(stage),
        memory::work(stage),
        cold::work(stage),
        local::work(stage),
        looking::work(stage),
    ]
}
