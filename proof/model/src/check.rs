//! Every reachable state of a configuration, by stateright.

use stateright::{Checker, Model, Property};

use crate::{
    Config, NODES,
    broken::Broken,
    drain::drain,
    random::Random,
    world::{Action, State},
};

/// What an exhaustive check came to.
#[derive(Debug)]
pub struct Outcome {
    /// How many different states were looked at, up to the naming of nodes.
    pub states: usize,
    /// Whether these are all there are.
    pub complete: bool,
    /// What is broken, and how it came to that.
    pub found: Option<(Broken, Vec<Action>)>,
}

impl Model for Config {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if !state.broken.any() {
            State::actions(state, self, actions);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        next.apply(self, action);
        next.tidy();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("kept", |config: &Config, state: &State| {
            broken(config, state).is_none()
        })]
    }
}

/// What is broken in a state, or will be from there on without any further fault: with all nodes, or
/// with any one of them down.
fn broken(config: &Config, state: &State) -> Option<Broken> {
    if state.broken.any() {
        return Some(state.broken);
    }
    let mut down = (0..=NODES).map(|n| (n < NODES).then_some(n)).filter(|_| config.progress);
    down.find_map(|down| drain(*state, config, down, &mut Random::new(1)).err())
}

/// The same state whichever node is called which.
pub(crate) fn nameless(state: &State) -> State {
    let mut state = *state;
    state.sites.sort_unstable();
    state
}

/// Looks at every reachable state, or at as many as `config.limit` allows.
pub fn check(config: &Config) -> Outcome {
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
    Outcome { states: checker.unique_state_count(), complete, found }
}
