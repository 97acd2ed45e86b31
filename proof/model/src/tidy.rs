//! Forgets what no longer makes a difference, so that fewer states have to be looked at.
//!
//! Only what can never again matter may go: two states that become one here have the same future.

use crate::{
    CLIENTS, NODES,
    client::{ModelClient, ModelVote, Phase},
    net::{Message, MessageBody},
    site::ModelSite,
    state::ModelState,
};

impl ModelState {
    /// Forgets what no longer makes a difference.
    pub(crate) fn tidy(&mut self) {
        let ModelState { sites, clients, budget, .. } = self;
        for site in sites.iter_mut() {
            for (k, client) in clients.iter_mut().enumerate() {
                match client.phase {
                    Phase::Held => tidy_held(site, client, k),
                    Phase::Over => tidy_over(site, k),
                    Phase::Wait => site.views[k].waits = false,
                    _ => {}
                }
                if budget.ticks == 0 {
                    site.views[k].heard = true;
                }
            }
        }
        for n in 0..NODES {
            let site = &self.sites[n];
            let mut net = site.net;
            net.retain(|message| !self.is_inert(site, message));
            self.sites[n].net = net;
        }
    }

    /// Whether a message does nothing, whenever it arrives.
    fn is_inert(&self, site: &ModelSite, message: &Message) -> bool {
        let k = usize::from(message.client);
        let ModelClient { phase, crashed, .. } = self.clients[k];
        let (node, view) = (&site.node, &site.views[k]);
        let holds =
            |g| node.holder.is_some_and(|holder| holder.g == g && usize::from(holder.client) == k);
        let buried = node.buried & (1 << k) != 0;
        // A node that forgets what it knows takes old messages for new ones, and a client that ticks
        // takes notice of any.
        let (kept, unnoticed) =
            (self.budget.restarts == 0, phase == Phase::Held || self.budget.ticks == 0);
        let gone = crashed || phase == Phase::Over;
        match message.body {
            body if gone && !body.to_node() => true,
            MessageBody::Acquire { .. } => kept && buried,
            MessageBody::Release { token } => kept && buried && token <= node.c,
            MessageBody::Renew { g, token } => kept && gone && !holds(g) && token <= node.c,
            MessageBody::Queued { .. } => phase == Phase::Held,
            MessageBody::Granted { g, .. } => phase == Phase::Held && g <= view.floor,
            MessageBody::Inquire { g } => {
                phase == Phase::Held
                    || (unnoticed && (g <= view.floor || view.vote.is_some_and(|vote| vote.g > g)))
            }
            MessageBody::NotHeld { g } => unnoticed && g <= view.floor,
            MessageBody::Renewed { .. } => false,
        }
    }
}

/// Of its votes a holder needs to know which they are and whether they count.
fn tidy_held(site: &mut ModelSite, client: &mut ModelClient, k: usize) {
    let view = &mut site.views[k];
    view.waits = false;
    view.ticket = 0;
    client.told = 0;
    if let Some(vote) = &mut view.vote {
        *vote =
            ModelVote { g: vote.g, token: 0, asked: 0, acked: vote.acked.min(1), inquired: false };
    }
    site.gone(k);
    tidy_before(site, k);
}

/// Nobody asks any more what was promised to one that is gone.
fn tidy_over(site: &mut ModelSite, k: usize) {
    site.lapsed[k] = 0;
    if site.forgotten.is_some_and(|(client, _)| usize::from(client) == k) {
        site.forgotten = None;
    }
    tidy_before(site, k);
}

/// Once a client has held, it does not matter who was before it.
fn tidy_before(site: &mut ModelSite, b: usize) {
    for a in 0..CLIENTS {
        site.before &= !(1 << (a * CLIENTS + b));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::HashSet,
        hash::{DefaultHasher, Hash, Hasher},
    };

    use crate::{Budget, ModelConfig, check::nameless, state::ModelState};

    fn fingerprint(state: &ModelState) -> u64 {
        let mut hasher = DefaultHasher::new();
        nameless(state).hash(&mut hasher);
        hasher.finish()
    }

    /// Every reachable state as it is when tidied, whether each step was tidied or only what came of it.
    fn reachable(config: &ModelConfig, each_step: bool) -> HashSet<u64> {
        let (mut seen, mut tidied) = (HashSet::new(), HashSet::new());
        let mut open = vec![ModelState::new(config)];
        let mut actions = Vec::new();
        while let Some(state) = open.pop() {
            actions.clear();
            state.actions(config, &mut actions);
            for action in &actions {
                let mut next = state;
                next.apply(config, *action);
                let mut tidy = next;
                tidy.tidy();
                // A message that does nothing may use up some of the budget on its way.
                tidied.insert(fingerprint(&ModelState { budget: Budget::default(), ..tidy }));
                let next = if each_step { tidy } else { next };
                if seen.insert(fingerprint(&next)) {
                    open.push(next);
                }
            }
        }
        tidied
    }

    #[test]
    fn tidying_each_step_reaches_what_is_reached_without() {
        let none = Budget::default();
        for budget in [none, Budget { losses: 1, ..none }] {
            let config = ModelConfig { budget, ..ModelConfig::new("2 clients", 2) };
            let (each_step, at_the_end) = (reachable(&config, true), reachable(&config, false));
            let missing = at_the_end.difference(&each_step).count();
            let invented = each_step.difference(&at_the_end).count();
            assert_eq!((missing, invented), (0, 0), "{budget:?}");
        }
    }
}
