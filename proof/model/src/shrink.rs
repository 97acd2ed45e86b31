//! Makes the history of a failure short: leaves out one action after another for as long as the same
//! still breaks.

use crate::{
    ModelConfig,
    broken::BrokenPromises,
    drain::drain,
    random::Random,
    state::{ModelAction, ModelState},
};

/// In how many orders messages are delivered at the end, to see whether something still breaks.
const DRAINS: u64 = 4;

/// Replays what is possible of `history`, then drains. Gives what broke, and what was done until then
/// or until the drain.
fn replay(
    config: &ModelConfig,
    down: Option<usize>,
    history: &[ModelAction],
) -> Option<(BrokenPromises, Vec<ModelAction>)> {
    let mut state = ModelState::new(config);
    let mut happened = Vec::new();
    let mut possible = Vec::new();
    for action in history {
        possible.clear();
        state.actions(config, &mut possible);
        if possible.contains(action) {
            happened.push(*action);
            state.apply(config, *action);
        }
        if state.broken.any() {
            return Some((state.broken, happened));
        }
    }
    let broken =
        (0..DRAINS).find_map(|seed| drain(state, config, down, &mut Random::new(seed)).err())?;
    Some((broken, happened))
}

/// The shortest history found that breaks the same, at once or while it drains.
pub fn shrink(
    config: &ModelConfig,
    down: Option<usize>,
    broken: BrokenPromises,
    history: &[ModelAction],
) -> Vec<ModelAction> {
    let breaks = |history: &[ModelAction]| {
        replay(config, down, history)
            .filter(|(other, _)| other.name() == broken.name())
            .map(|(_, happened)| happened)
    };
    let mut best = breaks(history).unwrap_or_else(|| history.to_vec());
    loop {
        let before = best.len();
        for at in (0..before).rev() {
            if at < best.len() {
                let mut fewer = best.clone();
                fewer.remove(at);
                best = breaks(&fewer).unwrap_or(best);
            }
        }
        if best.len() == before {
            return best;
        }
    }
}
