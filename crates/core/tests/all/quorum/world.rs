//! Nodes, clients, and a network between them, driven by one queue of events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use taketurns_core::quorum::Candidate;
use taketurns_core::session::Anchor;
use taketurns_core::{ClientId, Lock, Owner, Reply, Request, WakeEvent};
use taketurns_servers::fuzz::Dice;

use crate::quorum::calls::Call;
use crate::quorum::checker::{BrokenPromise, Checker};
use crate::quorum::driver::Timer;
use crate::quorum::nodes::Node;
use crate::quorum::plan::{Plan, Weather};

/// More calls than this within a third of a waiter lease go round in circles.
const CALLS_MAX: u64 = 600;

/// What happens.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Request { node: usize, call: usize, request: Request },
    Reply { call: usize, reply: Reply, engine_ms: u64 },
    Wake { client: usize, node: usize, owner: Owner, event: WakeEvent },
    Timeout { call: usize },
    Tick { client: usize },
    Begin { client: usize },
    Timer { attempt: usize, timer: Timer },
    Stop { node: usize, until_us: u64 },
    Pause { client: usize, until_us: u64 },
    Death { client: usize },
}

#[derive(Default)]
pub(crate) struct Client {
    drift: i64,
    pub(crate) paused_until_us: u64,
    pub(crate) is_dead: bool,
    /// Of the last reply of each node.
    pub(crate) anchors: Vec<Option<Anchor>>,
}

pub(crate) struct Attempt {
    pub(crate) client: usize,
    pub(crate) candidate: Candidate,
    pub(crate) owner: Owner,
    pub(crate) waits: bool,
    pub(crate) lease_ms: u64,
    pub(crate) is_over: bool,
    /// Token, and the local time until which it holds.
    pub(crate) held: Option<(u64, u64)>,
    pub(crate) retries: bool,
    /// The latest `not_after_ms` that each node was sent.
    pub(crate) not_after_ms: Vec<u64>,
}

/// What came of one life, or of many.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    pub(crate) steps: u64,
    pub(crate) attempts: u64,
    pub(crate) holds: u64,
    pub(crate) most_calls: u64,
}

impl Sum {
    pub(crate) fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.attempts += other.attempts;
        self.holds += other.holds;
        self.most_calls = self.most_calls.max(other.most_calls);
    }
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) dice: Dice,
    pub(crate) now_us: u64,
    pub(crate) nodes: Vec<Node>,
    pub(crate) clients: Vec<Client>,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) calls: Vec<Option<Call>>,
    pub(crate) checker: Checker,
    pub(crate) sum: Sum,
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    pending: Vec<Option<Event>>,
    /// Client, node, from when and until when.
    pub(crate) cuts: Vec<(usize, usize, u64, u64)>,
    /// How many calls there were since when.
    rate: (u64, u64),
    told: Option<Vec<String>>,
}

impl World {
    pub(crate) fn new(plan: Plan, tells: bool) -> Self {
        let mut dice = Dice::new(plan.seed);
        let mut off = |most: u64| dice.between(0, 2 * most) as i64 - most as i64;
        let nodes = (0..plan.nodes).map(|_| Node {
            lock: Lock::new(),
            offset_us: off(plan.offset_ms * 1_000),
            drift: off(plan.drift),
            down_until_us: 0,
        });
        let nodes = nodes.collect();
        let clients = (0..plan.clients).map(|_| Client {
            drift: off(plan.drift),
            anchors: vec![None; plan.nodes],
            ..Client::default()
        });
        let clients = clients.collect();
        Self {
            dice,
            now_us: 0,
            nodes,
            clients,
            attempts: Vec::new(),
            calls: Vec::new(),
            checker: Checker::default(),
            sum: Sum::default(),
            events: BinaryHeap::new(),
            pending: Vec::new(),
            cuts: Vec::new(),
            rate: (0, 0),
            told: tells.then(Vec::new),
            plan,
        }
    }

    /// The whole life: faults, then calm, until everybody has held and all nodes are empty.
    pub(crate) fn live(&mut self) -> Result<Sum, BrokenPromise> {
        self.begin();
        let mut end_us = None;
        while let Some(Reverse((at_us, _, index))) = self.events.pop() {
            self.now_us = self.now_us.max(at_us);
            let Some(event) = self.pending[index].take() else { continue };
            self.handle(event)?;
            if self.now_us < self.plan.faults_until_us {
                continue;
            }
            if self.is_done() {
                break;
            }
            let end_us = *end_us.get_or_insert_with(|| self.end_us());
            if self.now_us > end_us {
                return Err(format!("L: not done by {end_us}: {}", self.undone()));
            }
        }
        // What was given back is free, unless nobody was left to give it back.
        if self.plan.deaths == 0 && self.is_exact() {
            self.must_be_empty()?;
        }
        self.now_us += 1_000 * (2 * self.plan.max_lease_ms + 2 * self.plan.waiter_lease_ms);
        self.must_be_empty()?;
        Ok(self.sum)
    }

    fn begin(&mut self) {
        let plan = self.plan.clone();
        let third_us = plan.waiter_lease_ms * 1_000 / 3;
        let crowds: Vec<u64> =
            (0..plan.crowds).map(|_| self.dice.between(0, plan.faults_until_us)).collect();
        for attempt in 0..plan.attempts {
            let within_us = self.dice.between(0, third_us / 8);
            let at_us = crowds[attempt % crowds.len()] + within_us;
            let client = self.any_client();
            self.at(at_us, Event::Begin { client });
        }
        for client in 0..plan.clients {
            let at_us = self.dice.between(0, third_us);
            self.at(at_us, Event::Tick { client });
        }
        for _ in 0..plan.cuts {
            let (client, node) = (self.any_client(), self.any_node());
            let from_us = self.dice.between(0, plan.faults_until_us);
            let until_us = self.dice.between(from_us, plan.faults_until_us);
            self.cuts.push((client, node, from_us, until_us));
        }
        for _ in 0..plan.stops {
            let at_us = self.dice.between(0, plan.faults_until_us);
            let node = self.any_node();
            let until_us = self.dice.between(at_us, plan.faults_until_us);
            self.at(at_us, Event::Stop { node, until_us });
        }
        for _ in 0..plan.pauses {
            let at_us = self.dice.between(0, plan.faults_until_us);
            let most_us = at_us + 1_000 * (plan.max_lease_ms + plan.waiter_lease_ms);
            let until_us = self.dice.between(at_us, most_us.min(plan.faults_until_us));
            let client = self.any_client();
            self.at(at_us, Event::Pause { client, until_us });
        }
        for _ in 0..plan.deaths {
            let at_us = self.dice.between(0, plan.faults_until_us);
            let client = self.any_client();
            self.at(at_us, Event::Death { client });
        }
    }

    fn any_client(&mut self) -> usize {
        self.dice.between(0, self.plan.clients as u64 - 1) as usize
    }

    fn any_node(&mut self) -> usize {
        self.dice.between(0, self.plan.nodes as u64 - 1) as usize
    }

    /// By when everybody must have held: all that the dead and the forgetful leave behind is over, and
    /// one after the other has had its turn.
    fn end_us(&self) -> u64 {
        let Plan { max_lease_ms, waiter_lease_ms, hold_ms_max, .. } = self.plan;
        let left = self.attempts.iter().filter(|attempt| !attempt.is_over).count() as u64;
        let turns_ms = (left + 1) * (hold_ms_max + 4 * waiter_lease_ms);
        let late_us = self.plan.slow_us + 2 * self.plan.timeout_us;
        self.now_us + 1_000 * (2 * max_lease_ms + turns_ms) + late_us
    }

    fn is_done(&self) -> bool {
        let gone = |attempt: &Attempt| attempt.is_over || self.clients[attempt.client].is_dead;
        let under_way = |call: &Call| matches!(call, Call::Send { .. });
        self.attempts.iter().all(gone) && !self.calls.iter().flatten().any(under_way)
    }

    fn undone(&self) -> String {
        let left = (0..self.attempts.len()).filter(|&attempt| {
            let Attempt { is_over, client, .. } = self.attempts[attempt];
            !is_over && !self.clients[client].is_dead
        });
        let left: Vec<_> = left
            .map(|attempt| {
                format!("{}: {:?}", self.checker.name(attempt), self.attempts[attempt].candidate)
            })
            .collect();
        let nodes: Vec<_> = self.nodes.iter().map(|node| format!("{:?}", node.lock)).collect();
        format!("{}\n{}", left.join("\n"), nodes.join("\n"))
    }

    pub(crate) fn at(&mut self, at_us: u64, event: Event) {
        self.pending.push(Some(event));
        let index = self.pending.len() - 1;
        // What is due at one time comes in any order.
        self.events.push(Reverse((at_us, self.dice.any(), index)));
    }

    pub(crate) fn after(&mut self, us: u64, event: Event) {
        self.at(self.now_us + us, event);
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.now_us >= self.plan.faults_until_us
    }

    /// Is everybody's ticket to be respected?
    pub(crate) fn in_order(&self) -> bool {
        self.plan.weather != Weather::Storm
    }

    /// The time on a client's clock.
    pub(crate) fn local_us(&self, client: usize) -> u64 {
        drifted(self.now_us, self.clients[client].drift)
    }

    /// The true time, or a little later, at which a client's clock shows this.
    pub(crate) fn true_us(&self, client: usize, local_us: u64) -> u64 {
        let drift = self.clients[client].drift;
        let mut at_us = drifted(local_us, -drift);
        while drifted(at_us, drift) < local_us {
            at_us += (local_us - drifted(at_us, drift)).max(1);
        }
        at_us
    }

    fn handle(&mut self, event: Event) -> Result<(), BrokenPromise> {
        if let Some(client) = self.client_of(&event) {
            let Client { paused_until_us, is_dead, .. } = self.clients[client];
            if is_dead {
                return Ok(());
            }
            if paused_until_us > self.now_us {
                self.at(paused_until_us, event);
                return Ok(());
            }
        }
        match event {
            Event::Request { node, call, request } => self.requested(node, call, request)?,
            Event::Stop { node, until_us } => self.stop(node, until_us),
            Event::Pause { client, until_us } => {
                self.tell(|| format!("client {client} pauses until {until_us}"));
                self.clients[client].paused_until_us = until_us;
            }
            Event::Death { client } => {
                self.tell(|| format!("client {client} dies"));
                self.clients[client].is_dead = true;
                for attempt in 0..self.attempts.len() {
                    if self.attempts[attempt].client == client {
                        self.checker.dies(attempt);
                    }
                }
                self.calls.iter_mut().filter(|call| client == caller(call)).for_each(|call| {
                    *call = None;
                });
            }
            other => self.drive(other)?,
        }
        Ok(())
    }

    fn client_of(&self, event: &Event) -> Option<usize> {
        match event {
            Event::Request { .. } | Event::Stop { .. } => None,
            Event::Reply { call, .. } | Event::Timeout { call } => {
                self.calls[*call].as_ref().map(Call::client)
            }
            Event::Wake { client, .. }
            | Event::Tick { client }
            | Event::Begin { client }
            | Event::Pause { client, .. }
            | Event::Death { client } => Some(*client),
            Event::Timer { attempt, .. } => Some(self.attempts[*attempt].client),
        }
    }

    /// Nobody may send without end while hardly any time passes.
    pub(crate) fn count_call(&mut self) -> Result<(), BrokenPromise> {
        let third_us = self.plan.waiter_lease_ms * 1_000 / 3;
        if self.now_us - self.rate.0 > third_us {
            self.rate = (self.now_us, 0);
        }
        self.rate.1 += 1;
        self.sum.most_calls = self.sum.most_calls.max(self.rate.1);
        match self.rate.1 > CALLS_MAX {
            true => Err(format!("in circles: {} calls since {}", self.rate.1, self.rate.0)),
            false => Ok(()),
        }
    }

    pub(crate) fn tell(&mut self, what: impl FnOnce() -> String) {
        if let Some(told) = &mut self.told {
            told.push(format!("{:>9} {}", self.now_us, what()));
        }
    }

    pub(crate) fn story(&self) -> String {
        self.told.as_ref().map_or_else(String::new, |told| told.join("\n"))
    }
}

pub(crate) fn drifted(us: u64, drift: i64) -> u64 {
    us.saturating_add_signed(us as i64 * drift / 1_000_000)
}

fn caller(call: &Option<Call>) -> usize {
    call.as_ref().map_or(usize::MAX, Call::client)
}

pub(crate) fn client_id(client: usize) -> ClientId {
    ClientId::of_program(client as u64 + 1)
}

/// Owners are drawn, and so are in no order; but each tells its attempt.
pub(crate) fn owner_of(attempt: usize, random: u64) -> Owner {
    Owner::from_bits(u128::from(random) << 64 | attempt as u128)
}

pub(crate) fn attempt_of(owner: Owner) -> usize {
    owner.expose() as u64 as usize
}
