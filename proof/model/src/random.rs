//! Random runs: longer histories with more faults at once than can be looked at one and all.
//!
//! All of a run comes from one number: how many clients there are, how far apart their clocks, which
//! faults there are and how many, every step, and which node is down while it drains.

use std::{fmt, ops::Range};

use taketurns_servers::fuzz::Dice;

use crate::{
    Budget, CLIENTS, ModelConfig, NODES,
    broken::BrokenPromises,
    drain::drain,
    shrink::shrink,
    state::{ModelAction, ModelState},
    variants::Variant,
    words::sentence,
};

/// A small generator of random numbers.
#[derive(Clone, Debug)]
pub struct Random(Dice);

impl Random {
    /// The generator of one seed.
    pub fn new(seed: u64) -> Self {
        Random(Dice::new(seed))
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.0.any()) * end as u128) >> 64) as usize
    }

    /// True once in `n` times.
    fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Half of the times none, else up to `most`.
    fn some(&mut self, most: usize) -> u8 {
        if self.once_in(2) { 0 } else { 1 + self.below(most) as u8 }
    }
}

/// A run that broke something.
#[derive(Debug)]
pub struct BrokenRun {
    /// Its seed.
    pub seed: u64,
    /// What broke.
    pub broken: BrokenPromises,
    /// How it was set up.
    pub config: ModelConfig,
    /// What happened before faults ended.
    pub history: Vec<ModelAction>,
    /// Whether it broke only after that, while draining.
    pub draining: bool,
    /// The node that was down while draining.
    pub down: Option<usize>,
}

impl fmt::Display for BrokenRun {
    /// In words, and as short as it gets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ModelConfig { clients, hints, counters, .. } = &self.config;
        writeln!(f, "seed {} breaks {}", self.seed, self.broken.name())?;
        writeln!(
            f,
            "  {clients} clients with hints {:?}, nodes at tokens {counters:?}",
            &hints[..*clients]
        )?;
        for action in shrink(&self.config, self.down, self.broken, &self.history) {
            writeln!(f, "  {}", sentence(&action))?;
        }
        match (self.draining, self.down) {
            (true, Some(n)) => {
                writeln!(f, "  then nothing fails any more but node {n}, which is down")
            }
            (true, None) => writeln!(f, "  then nothing fails any more"),
            (false, _) => Ok(()),
        }
    }
}

/// How the run of a seed is set up.
fn setup(random: &mut Random, variant: Variant) -> ModelConfig {
    let skewed = random.once_in(2);
    let clients = 2 + random.below(CLIENTS - 1);
    let mut config = ModelConfig::new("random", clients);
    config.hints = [(); CLIENTS].map(|()| if skewed { random.below(12) as u8 } else { 4 });
    config.counters = [(); NODES].map(|()| random.some(5));
    config.budget = Budget {
        ticks: random.below(20) as u8,
        overtakes: if random.once_in(4) { 0 } else { u8::MAX },
        duplicates: random.some(6),
        losses: random.some(8),
        expiries: random.some(4),
        lapses: random.some(3),
        cancels: random.some(2),
        crashes: random.some(2),
        restarts: if random.once_in(3) { 1 } else { 0 },
    };
    config.variant = variant;
    config
}

/// Whether something that is possible does happen, so that most of what happens are messages.
fn likely(random: &mut Random, action: &ModelAction) -> bool {
    match action {
        ModelAction::Start(_) | ModelAction::Deliver(..) => true,
        ModelAction::Leave(_) => random.once_in(4),
        ModelAction::Tick(_) => random.once_in(3),
        ModelAction::Reopen(_) => random.once_in(6),
        _ => random.once_in(8),
    }
}

/// One run. Its history until faults end is told to `seen`, and is the same for the same seed. Gives how
/// it was set up, which node was down while draining if it came to that, and what broke.
fn walk(
    seed: u64,
    variant: Variant,
    mut seen: impl FnMut(ModelAction),
) -> (ModelConfig, Option<Option<usize>>, Result<(), BrokenPromises>) {
    let mut random = Random::new(seed);
    let config = setup(&mut random, variant);
    let mut state = ModelState::new(&config);
    let mut actions = Vec::with_capacity(64);
    let steps = 10 + random.below(110);
    for _ in 0..steps {
        actions.clear();
        state.actions(&config, &mut actions);
        if actions.is_empty() {
            break;
        }
        let action = actions[random.below(actions.len())];
        if !likely(&mut random, &action) {
            continue;
        }
        seen(action);
        state.apply(&config, action);
        if state.broken.any() {
            return (config, None, Err(state.broken));
        }
    }
    let down = random.below(2 * NODES);
    let down = (down < NODES).then_some(down);
    let drained = drain(state, &config, down, &mut random);
    (config, Some(down), drained)
}

/// One run. What went wrong comes with its history.
pub fn run(seed: u64, variant: Variant) -> Result<(), Box<BrokenRun>> {
    let (config, down, outcome) = walk(seed, variant, |_| ());
    outcome.map_err(|broken| {
        let mut history = Vec::new();
        let _same = walk(seed, variant, |action| history.push(action));
        Box::new(BrokenRun {
            seed,
            broken,
            config,
            history,
            draining: down.is_some(),
            down: down.flatten(),
        })
    })
}

/// Runs every seed of `seeds` until one breaks something.
pub fn search(seeds: Range<u64>, variant: Variant) -> Option<Box<BrokenRun>> {
    seeds.into_iter().find_map(|seed| run(seed, variant).err())
}
