//! The state of the whole model and what may happen in it: nodes, clients, messages under way, and what has been
//! promised.
//!
//! Time is what may no longer be relied on. A node counts a lease from when it heard the request, the
//! client from when it sent it, so the client's is over first. Here both end in one action: `Expire`
//! takes the vote from its holder, and whatever that grant promised no longer counts at the client.

use crate::{
    CLIENTS, MAJORITY, ModelConfig, NODES,
    broken::BrokenPromises,
    client::{ModelClient, Phase},
    client_step::ClientStep,
    config::Budget,
    net::{Message, MessageBody},
    node::ModelNode,
    site::ModelSite,
    variants::Variant,
};

/// A state of the whole.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ModelState {
    /// The nodes.
    pub sites: [ModelSite; NODES],
    /// The clients.
    pub clients: [ModelClient; CLIENTS],
    /// What may still happen.
    pub budget: Budget,
    /// Whether a node ever restarted empty.
    pub restarted: bool,
    /// The largest token that anybody held with.
    pub top: u8,
    /// What went wrong.
    pub broken: BrokenPromises,
}

/// One thing that happens. Nodes and clients are given by their index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ModelAction {
    /// A client begins.
    Start(usize),
    /// A message arrives at or from a node.
    Deliver(usize, Message),
    /// A message arrives before an earlier one.
    Overtake(usize, Message),
    /// A message arrives, and will arrive again.
    Duplicate(usize, Message),
    /// A message is lost.
    Lose(usize, Message),
    /// A client's timer.
    Tick(usize),
    /// A client releases what it holds, or gives up.
    Leave(usize),
    /// A client dies.
    Crash(usize),
    /// The lease of a node's holder ends.
    Expire(usize),
    /// A client's place in line at a node lapses.
    Lapse(usize, usize),
    /// A node restarts and has forgotten everything.
    Restart(usize),
    /// A node that restarted has waited for all that it may have promised.
    Reopen(usize),
}

impl ModelState {
    /// Where a check begins.
    pub fn new(config: &ModelConfig) -> Self {
        let mut state = ModelState {
            sites: [ModelSite::default(); NODES],
            clients: [ModelClient::default(); CLIENTS],
            budget: config.budget,
            restarted: false,
            top: 0,
            broken: BrokenPromises::default(),
        };
        for (site, c) in state.sites.iter_mut().zip(config.counters) {
            site.node.c = c;
        }
        state
    }

    /// Whether client `k` has a lease at node `n` that was acknowledged and is not over.
    pub(crate) fn leased(&self, n: usize, k: usize) -> bool {
        let site = &self.sites[n];
        site.views[k].vote.is_some_and(|vote| vote.acked != 0 && vote.g > site.lapsed[k])
    }

    /// Whether client `k` holds at this instant.
    pub fn holds(&self, config: &ModelConfig, k: usize) -> bool {
        let leased = |n: &usize| {
            // A client that takes a wake-up for a lease counts on it beyond its end.
            self.leased(*n, k)
                || (config.is(Variant::NoConfirm) && self.sites[*n].views[k].vote.is_some())
        };
        self.clients[k].phase == Phase::Held && (0..NODES).filter(leased).count() >= MAJORITY
    }

    /// Every action that is possible now.
    pub fn actions(&self, config: &ModelConfig, actions: &mut Vec<ModelAction>) {
        let budget = &self.budget;
        for (n, site) in self.sites.iter().enumerate() {
            if budget.overtakes > 0 {
                actions
                    .extend(site.net.next(false).map(|message| ModelAction::Overtake(n, *message)));
            }
            for message in site.net.next(true) {
                actions.push(ModelAction::Deliver(n, *message));
                if budget.duplicates > 0 {
                    actions.push(ModelAction::Duplicate(n, *message));
                }
                if budget.losses > 0 {
                    actions.push(ModelAction::Lose(n, *message));
                }
            }
            if budget.expiries > 0 && site.node.holder.is_some() {
                actions.push(ModelAction::Expire(n));
            }
            for k in (0..config.clients).filter(|&k| budget.lapses > 0 && site.node.places[k] != 0)
            {
                actions.push(ModelAction::Lapse(n, k));
            }
            if budget.restarts > 0 {
                actions.push(ModelAction::Restart(n));
            }
            if site.node.quarantined {
                actions.push(ModelAction::Reopen(n));
            }
        }
        for (k, client) in
            self.clients[..config.clients].iter().enumerate().filter(|(_, client)| !client.crashed)
        {
            match client.phase {
                Phase::Idle => actions.push(ModelAction::Start(k)),
                Phase::Held => actions.push(ModelAction::Leave(k)),
                Phase::Ask | Phase::Wait if budget.cancels > 0 => {
                    actions.push(ModelAction::Leave(k))
                }
                _ => {}
            }
            let begun = client.phase != Phase::Idle;
            if begun
                && budget.ticks > 0
                && !(client.phase == Phase::Over && self.buried_everywhere(k))
            {
                actions.push(ModelAction::Tick(k));
            }
            if begun && budget.crashes > 0 && client.phase != Phase::Over {
                actions.push(ModelAction::Crash(k));
            }
        }
    }

    fn buried_everywhere(&self, k: usize) -> bool {
        self.sites.iter().all(|site| site.views[k].buried)
    }

    /// Lets `action` happen, and sees what that breaks.
    pub fn apply(&mut self, config: &ModelConfig, action: ModelAction) {
        match action {
            ModelAction::Start(k) => {
                self.remember_who_was_before(k);
                self.turn(config, k).start();
            }
            ModelAction::Deliver(n, message) => {
                self.sites[n].net.take(&message);
                self.deliver(config, n, message);
            }
            ModelAction::Overtake(n, message) => {
                self.budget.overtakes = if self.budget.overtakes == u8::MAX {
                    u8::MAX
                } else {
                    self.budget.overtakes - 1
                };
                self.sites[n].net.take(&message);
                self.deliver(config, n, message);
            }
            ModelAction::Duplicate(n, message) => {
                self.budget.duplicates -= 1;
                self.deliver(config, n, message);
            }
            ModelAction::Lose(n, message) => {
                self.budget.losses -= 1;
                self.sites[n].net.take(&message);
            }
            ModelAction::Tick(k) => {
                self.budget.ticks = self.budget.ticks.saturating_sub(1);
                self.turn(config, k).tick();
            }
            ModelAction::Leave(k) => {
                if self.clients[k].phase != Phase::Held {
                    self.budget.cancels -= 1;
                }
                self.leave(config, k);
            }
            ModelAction::Crash(k) => {
                self.budget.crashes -= 1;
                self.clients[k].crashed = true;
                self.forget_what_nobody_reads(k);
            }
            ModelAction::Expire(n) => {
                self.budget.expiries = self.budget.expiries.saturating_sub(1);
                self.expire(n);
            }
            ModelAction::Lapse(n, k) => {
                self.budget.lapses = self.budget.lapses.saturating_sub(1);
                self.sites[n].node.places[k] = 0;
                self.sites[n].gone(k);
            }
            ModelAction::Restart(n) => {
                self.budget.restarts -= 1;
                self.restart(config, n);
            }
            ModelAction::Reopen(n) => self.reopen(n),
        }
        self.look(config);
    }

    fn turn<'a>(&'a mut self, config: &'a ModelConfig, k: usize) -> ClientStep<'a> {
        ClientStep { config, state: self, k }
    }

    fn deliver(&mut self, config: &ModelConfig, n: usize, message: Message) {
        let k = usize::from(message.client);
        if message.body.to_node() {
            let ModelSite { node, net, .. } = &mut self.sites[n];
            node.receive(config, net, k, message.body);
            if matches!(message.body, MessageBody::Release { .. }) {
                self.sites[n].views[k].buried = true;
            }
            if self.clients[k].crashed {
                self.forget_what_nobody_reads(k);
            }
        } else {
            self.turn(config, k).receive(n, message.body);
        }
    }

    fn leave(&mut self, config: &ModelConfig, k: usize) {
        self.turn(config, k).leave();
        for site in &mut self.sites {
            site.gone(k);
        }
        self.forget_what_nobody_reads(k);
    }

    /// Lost is final. A client that is alive tells the nodes.
    fn lose(&mut self, config: &ModelConfig, k: usize) {
        if self.clients[k].crashed {
            self.clients[k].phase = Phase::Over;
        } else {
            self.leave(config, k);
        }
    }

    /// What is under way to a client that takes no notice is not worth a state of its own.
    fn forget_what_nobody_reads(&mut self, k: usize) {
        for site in &mut self.sites {
            site.net.retain(|message| usize::from(message.client) != k || message.body.to_node());
        }
    }

    fn expire(&mut self, n: usize) {
        let site = &mut self.sites[n];
        let Some(holder) = site.node.holder.take() else { return };
        let k = usize::from(holder.client);
        site.lapsed[k] = site.lapsed[k].max(holder.g);
        site.gone(k);
        site.node.hand_over(&mut site.net, None);
    }

    /// The node's own clock is as far as any token, and that is all it knows.
    fn restart(&mut self, config: &ModelConfig, n: usize) {
        let clock = self.sites.iter().map(|site| site.node.c).max().unwrap_or(0).max(self.top);
        let site = &mut self.sites[n];
        let forgotten = site.node.holder.map(|holder| (holder.client, holder.g));
        site.forgotten = forgotten.or(site.forgotten);
        site.node =
            ModelNode { quarantined: !config.is(Variant::NoQuarantine), ..ModelNode::default() };
        if !config.is(Variant::NoClockFloor) {
            site.node.c = clock;
        }
        for k in 0..CLIENTS {
            site.gone(k);
        }
        self.restarted = true;
    }

    fn reopen(&mut self, n: usize) {
        let site = &mut self.sites[n];
        if let Some((k, g)) = site.forgotten.take() {
            let k = usize::from(k);
            site.lapsed[k] = site.lapsed[k].max(g);
        }
        site.node.quarantined = false;
        site.node.hand_over(&mut site.net, None);
    }

    fn remember_who_was_before(&mut self, b: usize) {
        for a in (0..CLIENTS).filter(|&a| self.clients[a].phase == Phase::Wait) {
            let ticket = self.clients[a].ticket;
            let there = self.sites.each_ref().map(|site| site.node.ticket_of(a) == ticket);
            if there.iter().filter(|there| **there).count() >= MAJORITY {
                for (site, _) in self.sites.iter_mut().zip(there).filter(|(_, there)| *there) {
                    site.before |= 1 << (a * CLIENTS + b);
                }
            }
        }
    }

    /// Ends holds that are over, and sees what is broken.
    fn look(&mut self, config: &ModelConfig) {
        let mut holders = 0;
        for k in 0..config.clients {
            if self.holds(config, k) {
                holders += 1;
                if self.clients[k].token < self.top {
                    self.broken.add(BrokenPromises::TOKENS);
                }
            } else if self.clients[k].phase == Phase::Held && !config.is(Variant::HeldAgain) {
                self.lose(config, k);
            }
        }
        if holders > 1 {
            self.broken.add(BrokenPromises::EXCLUSION);
        }
    }
}
