//! Nodes, machines and a network between them, moved by one queue of what happens next.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use taketurns::ClientId;
use taketurns::engine::{EngineError, EngineEvent};
use taketurns::simulation::Machine;
use taketurns_history::{EventKind, HistoryEvent};

use crate::dice::SimDice;
use crate::life::{SimClient, SimLog};
use crate::machine::{Host, RunEnd, Time};
use crate::net::{SentRequest, SimAnswer, SimNetwork};
use crate::node::SimNode;
use crate::plan::{Keepers, SimPlan};
use crate::resource::{PendingWrite, Resource};
use crate::tickets::Tickets;

/// What happens.
pub(crate) enum Happening {
    Arrives {
        sent: SentRequest,
        connection: u64,
    },
    Answered {
        call: u64,
        said: Result<SimAnswer, EngineError>,
        /// By it a machine learns what time it is at a node.
        tells: Option<(usize, usize)>,
    },
    EngineEvent {
        node: usize,
        client: ClientId,
        woken: EngineEvent,
    },
    Written(PendingWrite),
    Fault(SimFault),
    /// A node is up again.
    Up {
        node: usize,
        how: Outage,
    },
    /// A way between a machine and a node is open again.
    Joined {
        host: usize,
        node: usize,
    },
    Resumes {
        host: usize,
    },
}

/// What goes wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SimFault {
    Down { node: usize, until_us: u64, how: Outage },
    Cut { host: usize, node: usize, until_us: u64 },
    Jump { node: usize, by_us: i64 },
    Pause { host: usize, for_us: u64 },
    Death { host: usize },
}

/// How a node goes down, which decides how it comes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outage {
    /// It stands still, and goes on.
    Freeze,
    /// It starts anew with all that it knew.
    Restart,
    /// It starts anew, and knows nothing.
    Forget,
    /// Another takes its place, which is behind.
    FailOver { lag_us: u64, clock_us: i64 },
}

/// What came of one life.
pub(crate) struct LifeOutcome {
    pub(crate) events: Vec<HistoryEvent>,
    pub(crate) requests: u64,
    /// A lock that contradicts itself, or clients that go round in circles.
    pub(crate) broken: Option<String>,
    pub(crate) story: Vec<String>,
}

/// More requests than this by one machine within a third of a waiter lease go round in circles.
const REQUESTS_MAX: u64 = 3_000;

pub(crate) struct SimWorld {
    pub(crate) plan: Arc<SimPlan>,
    pub(crate) dice: SimDice,
    pub(crate) time: Arc<Time>,
    pub(crate) nodes: Vec<SimNode>,
    pub(crate) tickets: Tickets,
    pub(crate) hosts: Vec<Arc<Host>>,
    pub(crate) net: Arc<SimNetwork>,
    pub(crate) log: Arc<SimLog>,
    resource: Arc<Resource>,
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    happenings: Vec<Option<Happening>>,
    free: Vec<usize>,
    /// Until when the way from a machine to a node is cut, and how often it was made anew.
    pub(crate) cuts: BTreeMap<(usize, usize), u64>,
    pub(crate) connections: BTreeMap<(usize, usize), u64>,
    /// Nodes whose clock was set forward, and machines that have heard of no time there since.
    pub(crate) unaware: BTreeSet<(usize, usize)>,
    pub(crate) is_calm: bool,
    /// How many requests there were since when.
    rate: (u64, u64),
    story: Option<Vec<String>>,
}

impl SimWorld {
    pub(crate) fn new(plan: SimPlan, tells: bool) -> Self {
        let mut dice = SimDice::new(plan.seed ^ 0x5eed);
        let (time, plan) = (Arc::new(Time::default()), Arc::new(plan));
        let log = SimLog::new(time.clone());
        let net = SimNetwork::new(
            Duration::from_millis(plan.timeout_ms),
            Duration::from_millis(plan.max_lease_ms),
        );
        let node = |_| {
            let offset_us = dice.off_by(plan.offset_ms * 1_000);
            let (drift, has_replica) = (dice.off_by(plan.drift), plan.keepers == Keepers::Pair);
            SimNode::new(offset_us, drift, has_replica, &plan)
        };
        let nodes: Vec<SimNode> = (0..plan.keepers.nodes()).map(node).collect();
        Self {
            dice,
            tickets: Tickets::new(nodes.len()),
            nodes,
            hosts: Vec::new(),
            net,
            log,
            resource: Arc::default(),
            queue: BinaryHeap::new(),
            happenings: Vec::new(),
            free: Vec::new(),
            cuts: BTreeMap::new(),
            connections: BTreeMap::new(),
            unaware: BTreeSet::new(),
            is_calm: false,
            rate: (0, 0),
            story: tells.then(Vec::new),
            time,
            plan,
        }
    }

    /// The whole life: faults, then calm until everybody has had its turn and is gone.
    pub(crate) fn live(mut self) -> LifeOutcome {
        self.note(EventKind::Begins {
            title: format!("seed {}", self.plan.seed),
            locks: self.plan.locks.clone(),
            waiter_lease_us: self.plan.waiter_lease_ms * 1_000,
            max_lease_us: self.plan.max_lease_ms * 1_000,
            stopped_blocks: false,
        });
        self.begin();
        let mut end_us = u64::MAX;
        let mut broken = None;
        while broken.is_none() {
            broken = self.settle().err();
            if self.is_done() {
                break;
            }
            let Some(at_us) = self.next_us() else { break };
            if !self.is_calm && at_us >= self.plan.faults_until_us {
                self.calm();
                end_us = self.end_us();
                continue;
            }
            if at_us > end_us {
                break;
            }
            self.time.set(at_us.max(self.now_us()));
            if broken.is_none() {
                broken = self.advance().err();
            }
        }
        if broken.is_none() {
            self.look_around();
        }
        let requests = self.nodes.iter().map(|node| node.steps).sum();
        // Clients that still run are never heard of again.
        self.hosts.iter().for_each(Host::die);
        LifeOutcome {
            events: self.log.take(),
            requests,
            broken,
            story: self.story.unwrap_or_default(),
        }
    }

    fn begin(&mut self) {
        let plan = self.plan.clone();
        for number in 0..plan.hosts {
            let strokes = self.strokes_of(number);
            let drift = self.dice.off_by(plan.drift);
            let (time, net, dice) = (self.time.clone(), self.net.clone(), self.dice.apart());
            let host = Host::new(number, time, drift, net, dice, strokes);
            let life = SimClient {
                host: host.clone(),
                plan: plan.clone(),
                log: self.log.clone(),
                resource: self.resource.clone(),
            };
            host.spawn(Box::pin(life.live(self.dice.apart())));
            self.hosts.push(host);
        }
        self.plan_faults();
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.time.now_us()
    }

    pub(crate) fn note(&self, what: EventKind) {
        self.log.note(what);
    }

    pub(crate) fn at(&mut self, at_us: u64, happening: Happening) {
        let index = self.free.pop().unwrap_or(self.happenings.len());
        if index == self.happenings.len() {
            self.happenings.push(None);
        }
        self.happenings[index] = Some(happening);
        // What is due at one time comes in any order.
        self.queue.push(Reverse((at_us, self.dice.draw(), index)));
    }

    pub(crate) fn after(&mut self, us: u64, happening: Happening) {
        self.at(self.now_us() + us, happening);
    }

    fn next_us(&self) -> Option<u64> {
        let queued = self.queue.peek().map(|Reverse((at_us, ..))| *at_us);
        let hosts = self.hosts.iter().filter_map(|host| host.due_us());
        hosts.chain(queued).min()
    }

    /// Lets all machines do what they can do now, and sends what they send.
    fn settle(&mut self) -> Result<(), String> {
        loop {
            let ready: Vec<usize> =
                (0..self.hosts.len()).filter(|&host| self.hosts[host].has_work()).collect();
            if ready.is_empty() {
                return Ok(());
            }
            let host = ready[self.dice.index(ready.len())];
            let ran = self.hosts[host].run();
            for sent in self.net.outbox() {
                self.count(sent.host)?;
                self.send(sent);
            }
            for write in self.resource.outbox() {
                let longest_us = 1_000 * (self.plan.max_lease_ms + self.plan.waiter_lease_ms);
                self.after(longest_us * write.delay / 1_000, Happening::Written(write));
            }
            match ran {
                RunEnd::Idle => {}
                RunEnd::Stopped(Some(for_us)) => self.strike(SimFault::Pause { host, for_us }),
                RunEnd::Stopped(None) => self.strike(SimFault::Death { host }),
            }
        }
    }

    /// Nobody may send without end while hardly any time passes.
    fn count(&mut self, host: usize) -> Result<(), String> {
        let third_us = self.plan.waiter_lease_ms * 1_000 / 3;
        if self.now_us() - self.rate.0 > third_us {
            self.rate = (self.now_us(), 0);
        }
        self.rate.1 += 1;
        match self.rate.1 > REQUESTS_MAX {
            true => Err(format!(
                "in circles: {} requests since {}, the last by client {host}",
                self.rate.1, self.rate.0
            )),
            false => Ok(()),
        }
    }

    /// Whatever is due now happens.
    fn advance(&mut self) -> Result<(), String> {
        self.hosts.iter().for_each(|host| host.ring());
        let now_us = self.now_us();
        while let Some(&Reverse((at_us, _, index))) = self.queue.peek() {
            if at_us > now_us {
                break;
            }
            self.queue.pop();
            self.free.push(index);
            if let Some(happening) = self.happenings[index].take() {
                self.happens(happening)?;
            }
        }
        Ok(())
    }

    fn happens(&mut self, happening: Happening) -> Result<(), String> {
        match happening {
            Happening::Arrives { sent, connection } => self.arrives(sent, connection)?,
            Happening::Answered { call, said, tells } => {
                self.net.answer(call, said);
                tells.into_iter().for_each(|(node, host)| self.is_aware(node, host));
            }
            Happening::EngineEvent { node, client, woken } => self.net.push(node, client, woken),
            Happening::Written(write) => {
                for what in self.resource.arrives(write) {
                    self.note(what);
                }
            }
            Happening::Fault(fault) => self.strike(fault),
            Happening::Up { node, how } => self.up(node, how),
            Happening::Joined { host, node } => self.joined(host, node),
            Happening::Resumes { host } => self.resumes(host),
        }
        Ok(())
    }

    /// By when everybody must have held: all that the dead and the forgetful leave behind is over, and
    /// one after the other has had its turn.
    fn end_us(&self) -> u64 {
        let SimPlan { max_lease_ms, waiter_lease_ms, hold_ms_max, gap_ms_max, timeout_ms, .. } =
            *self.plan;
        let kept_ms = self.plan.at_least_ms_max + self.plan.pause_ms;
        let turns = (self.plan.hosts * self.plan.tasks * self.plan.turns) as u64;
        let turn_ms = hold_ms_max + gap_ms_max + kept_ms + 4 * waiter_lease_ms + 2 * timeout_ms;
        // A lock that was broken goes on until its deadline, and an acquire that may be under way is
        // buried for ten seconds.
        let rest_ms = 4 * max_lease_ms + 20_000;
        self.now_us() + 1_000 * ((turns + 1) * turn_ms + rest_ms)
    }

    fn is_done(&self) -> bool {
        self.hosts.iter().all(|host| host.is_dead() || host.tasks() == 0)
    }

    /// What is left when all is over.
    fn look_around(&mut self) {
        if !self.is_calm {
            self.calm();
        }
        for host in &self.hosts {
            if !host.is_dead() && host.tasks() > 0 {
                let (tasks, number) = (host.tasks(), host.number);
                self.note(EventKind::Left { thing: format!("{tasks} tasks of client {number}") });
            }
        }
        for (node, host) in self.unaware.clone() {
            self.is_aware(node, host);
        }
        if self.plan.is_smooth {
            // Every release and cancel was sent, and arrived.
            self.note_what_is_left();
        }
        let longest_ms = 2 * self.plan.max_lease_ms + 2 * self.plan.waiter_lease_ms;
        self.time.set(self.now_us() + 1_000 * longest_ms);
        self.note_what_is_left();
    }

    fn note_what_is_left(&mut self) {
        let now_us = self.now_us();
        for node in 0..self.nodes.len() {
            for left in self.nodes[node].left(now_us) {
                self.note(EventKind::Left { thing: format!("{left} on node {node}") });
            }
        }
    }

    pub(crate) fn tell(&mut self, what: impl FnOnce() -> String) {
        let now_us = self.now_us();
        if let Some(story) = &mut self.story {
            story.push(format!("{now_us:>9} {}", what()));
        }
    }
}
