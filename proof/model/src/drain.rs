//! Progress: once nothing fails any more, everybody gets the lock.
//!
//! From any state, everything under way is delivered, timers run, dead clients' leases end, and whoever
//! holds releases. If then anybody still waits after many rounds, it waits for ever.

use crate::{
    Config, NODES,
    broken::Broken,
    client::Phase,
    random::Random,
    world::{Action, State},
};

/// Timers of every client until it counts as stuck. A healthy drain takes fewer than ten.
const ROUNDS: usize = 40;
/// Messages between two timers until they count as endless.
const MESSAGES: usize = 300;
/// A token that no healthy drain comes near.
const TOKEN: u8 = 200;

/// Runs `state` until everybody had the lock, or says what is broken. A node that is `down` takes no
/// part.
pub fn drain(
    mut state: State,
    config: &Config,
    down: Option<usize>,
    random: &mut Random,
) -> Result<(), Broken> {
    let up = |n: &usize| Some(*n) != down;
    let step = |state: &mut State, action: Action| {
        state.apply(config, action);
        if state.broken.any() { Err(state.broken) } else { Ok(()) }
    };
    for _ in 0..ROUNDS {
        for k in 0..config.clients {
            match state.clients[k].phase {
                Phase::Idle => step(&mut state, Action::Start(k))?,
                Phase::Held if !state.clients[k].crashed => step(&mut state, Action::Leave(k))?,
                _ => {}
            }
        }
        if !deliver_all(&mut state, down, random, &step)? {
            return Err(Broken::PROGRESS);
        }
        let waits =
            |k: &usize| !state.clients[*k].crashed && state.clients[*k].phase != Phase::Over;
        let Some(first) = (0..config.clients).find(waits) else { return Ok(()) };
        if (first..config.clients).any(|k| state.clients[k].phase == Phase::Held && waits(&k)) {
            continue;
        }
        for n in (0..NODES).filter(up) {
            if state.sites[n].node.quarantined {
                step(&mut state, Action::Reopen(n))?;
            }
            // Nobody keeps these alive. Where burials were forgotten, that may be somebody who left.
            let ended = |state: &State, k: usize| {
                state.clients[k].crashed
                    || (state.restarted && state.clients[k].phase == Phase::Over)
            };
            for k in 0..config.clients {
                if state.sites[n].node.places[k] != 0 && ended(&state, k) {
                    step(&mut state, Action::Lapse(n, k))?;
                }
            }
            if let Some(holder) = state.sites[n].node.holder
                && ended(&state, usize::from(holder.client))
            {
                step(&mut state, Action::Expire(n))?;
            }
        }
        for k in 0..config.clients {
            if !state.clients[k].crashed {
                step(&mut state, Action::Tick(k))?;
            }
        }
    }
    Err(Broken::PROGRESS)
}

/// Delivers in a random order until nothing is under way. False if that has no end.
fn deliver_all(
    state: &mut State,
    down: Option<usize>,
    random: &mut Random,
    step: &impl Fn(&mut State, Action) -> Result<(), Broken>,
) -> Result<bool, Broken> {
    for _ in 0..MESSAGES {
        if state.sites.iter().any(|site| site.node.c > TOKEN) {
            return Ok(false);
        }
        let first = random.below(NODES);
        let busy = |n: &usize| Some(*n) != down && !state.sites[*n].net.all().is_empty();
        let Some(n) = (0..NODES).map(|n| (n + first) % NODES).find(busy) else { return Ok(true) };
        let all = state.sites[n].net.all();
        let message = all[random.below(all.len())];
        step(state, Action::Deliver(n, message))?;
    }
    Ok(false)
}
