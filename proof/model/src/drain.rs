//! Progress: once nothing fails any more, everybody gets the lock.
//!
//! From any state, all messages are delivered, timers run, dead clients' leases end, and holders release. A client that
//! still waits after many rounds waits forever.

use crate::{
    ModelConfig, NODES,
    broken::BrokenPromises,
    client::Phase,
    random::Random,
    state::{ModelAction, ModelState},
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
    mut state: ModelState,
    config: &ModelConfig,
    down: Option<usize>,
    random: &mut Random,
) -> Result<(), BrokenPromises> {
    let up = |n: &usize| Some(*n) != down;
    let step = |state: &mut ModelState, action: ModelAction| {
        state.apply(config, action);
        if state.broken.any() { Err(state.broken) } else { Ok(()) }
    };
    for _ in 0..ROUNDS {
        for k in 0..config.clients {
            match state.clients[k].phase {
                Phase::Idle => step(&mut state, ModelAction::Start(k))?,
                Phase::Held if !state.clients[k].crashed => {
                    step(&mut state, ModelAction::Leave(k))?
                }
                _ => {}
            }
        }
        if !deliver_all(&mut state, down, random, &step)? {
            return Err(BrokenPromises::PROGRESS);
        }
        let waits =
            |k: &usize| !state.clients[*k].crashed && state.clients[*k].phase != Phase::Over;
        let Some(first) = (0..config.clients).find(waits) else { return Ok(()) };
        if (first..config.clients).any(|k| state.clients[k].phase == Phase::Held && waits(&k)) {
            continue;
        }
        for n in (0..NODES).filter(up) {
            if state.sites[n].node.quarantined {
                step(&mut state, ModelAction::Reopen(n))?;
            }
            // Nobody keeps these alive. Where burials were forgotten, that may be somebody who left.
            let ended = |state: &ModelState, k: usize| {
                state.clients[k].crashed
                    || (state.restarted && state.clients[k].phase == Phase::Over)
            };
            for k in 0..config.clients {
                if state.sites[n].node.places[k] != 0 && ended(&state, k) {
                    step(&mut state, ModelAction::Lapse(n, k))?;
                }
            }
            if let Some(holder) = state.sites[n].node.holder
                && ended(&state, usize::from(holder.client))
            {
                step(&mut state, ModelAction::Expire(n))?;
            }
        }
        for k in 0..config.clients {
            if !state.clients[k].crashed {
                step(&mut state, ModelAction::Tick(k))?;
            }
        }
    }
    Err(BrokenPromises::PROGRESS)
}

/// Delivers in a random order until nothing is under way. False if that has no end.
fn deliver_all(
    state: &mut ModelState,
    down: Option<usize>,
    random: &mut Random,
    step: &impl Fn(&mut ModelState, ModelAction) -> Result<(), BrokenPromises>,
) -> Result<bool, BrokenPromises> {
    for _ in 0..MESSAGES {
        if state.sites.iter().any(|site| site.node.c > TOKEN) {
            return Ok(false);
        }
        let first = random.below(NODES);
        let busy = |n: &usize| Some(*n) != down && !state.sites[*n].net.all().is_empty();
        let Some(n) = (0..NODES).map(|n| (n + first) % NODES).find(busy) else { return Ok(true) };
        let all = state.sites[n].net.all();
        let message = all[random.below(all.len())];
        step(state, ModelAction::Deliver(n, message))?;
    }
    Ok(false)
}
