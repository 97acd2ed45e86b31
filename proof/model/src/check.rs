//! Every reachable state of a configuration, by stateright.

use stateright::{Checker, Model, Property};

use crate::{
    ModelConfig, NODES,
    broken::BrokenPromises,
    drain::drain,
    random::Random,
    state::{ModelAction, ModelState},
};

/// What an exhaustive check came to.
#[derive(Debug)]
pub struct CheckOutcome {
    /// How many different states were looked at, up to the naming of nodes.
    pub states: usize,
    /// Whether these are all there are.
    pub complete: bool,
    /// What is broken, and how it came to that.
    pub found: Option<(BrokenPromises, Vec<ModelAction>)>,
}

impl Model for ModelConfig {
    type State = ModelState;
    type Action = ModelAction;

    fn init_states(&self) -> Vec<ModelState> {
        vec![ModelState::new(self)]
    }

    fn actions(&self, state: &ModelState, actions: &mut Vec<ModelAction>) {
        if !state.broken.any() {
            ModelState::actions(state, self, actions);
        }
    }

    fn next_state(&self, state: &ModelState, action: ModelAction) -> Option<ModelState> {
        let mut next = *state;
        next.apply(self, action);
        next.tidy();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("kept", |config: &ModelConfig, state: &ModelState| {
            broken(config, state).is_none()
        })]
    }
}

/// What is broken in a state, or will be from there on without any further fault: with all nodes, or
/// with any one of them down.
fn broken(config: &ModelConfig, state: &ModelState) -> Option<BrokenPromises> {
    if state.broken.any() {
        return Some(state.broken);
    }
    let mut down = (0..=NODES).map(|n| (n < NODES).then_some(n)).filter(|_| config.progress);
    down.find_map(|down| drain(*state, config, down, &mut Random::new(1)).err())
}

/// The same state whichever node is called which.
pub(crate) fn nameless(state: &ModelState) -> ModelState {
    let mut state = *state;
    state.sites.sort_unstable();
    state
}

/// Looks at every reachable state, or at as many as `config.limit` allows.
pub fn check(config: &ModelConfig) -> CheckOutcome {
    let mut builder = config.clone().checker().threads(2).symmetry_fn(nameless);
    if let Some(limit) = config.limit {
        builder = builder.target_state_count(limit);
    }
    let checker = builder.spawn_dfs().join();
    let found = checker.discovery("kept").map(|path| {
        let broken = broken(config, path.last_state()).expect("it was discovered");
        (broken, path.into_actions())
    });
    let complete =
        found.is_none() && config.limit.is_none_or(|limit| checker.state_count() < limit);
    CheckOutcome { states: checker.unique_state_count(), complete, found }
}
