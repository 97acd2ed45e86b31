//! The nodes, each a lock with a clock of its own, and the network before them.

use taketurns_core::{Lock, Now, Reply, Request};

use crate::quorum::checker::BrokenPromise;
use crate::quorum::world::{Event, World, attempt_of, drifted};

/// When the clocks of all nodes would show the same if none were off.
const EPOCH_US: u64 = 1_790_000_000_000_000;

pub(crate) struct Node {
    pub(crate) lock: Lock,
    pub(crate) offset_us: i64,
    pub(crate) drift: i64,
    pub(crate) down_until_us: u64,
}

impl World {
    /// Puts a message under way: it may be lost, late, or come twice.
    pub(crate) fn travel(&mut self, event: Event, lost: u64) {
        if !self.is_calm() && (self.is_cut(&event) || self.dice.chance(lost)) {
            return self.tell(|| format!("    lost: {event:?}"));
        }
        if !self.is_calm() && self.dice.chance(self.plan.doubled) {
            let us = self.delay_us();
            self.after(us, event.clone());
        }
        let us = self.delay_us();
        self.after(us, event);
    }

    fn is_cut(&self, event: &Event) -> bool {
        let (client, node) = match event {
            Event::Wake { client, node, .. } => (*client, *node),
            Event::Request { call, .. } | Event::Reply { call, .. } => match &self.calls[*call] {
                Some(call) => (call.client(), call.node()),
                None => return false,
            },
            _ => return false,
        };
        self.cuts.iter().any(|&(cut_client, cut_node, from_us, until_us)| {
            (cut_client, cut_node) == (client, node) && (from_us..until_us).contains(&self.now_us)
        })
    }

    fn delay_us(&mut self) -> u64 {
        let is_slow = !self.is_calm() && self.dice.chance(self.plan.slow);
        let most_us = if is_slow { self.plan.slow_us } else { self.plan.delay_us };
        self.dice.between(50, most_us.max(50))
    }

    fn node_now(&self, node: usize) -> Now {
        let Node { offset_us, drift, .. } = self.nodes[node];
        let wall_us = (EPOCH_US + drifted(self.now_us, drift)).saturating_add_signed(offset_us);
        Now { ms: wall_us / 1_000, wall_us }
    }

    pub(crate) fn stop(&mut self, node: usize, until_us: u64) {
        let forgets = self.plan.forgets && self.dice.chance(500);
        self.tell(|| format!("node {node} stops until {until_us}, forgets: {forgets}"));
        self.nodes[node].down_until_us = self.nodes[node].down_until_us.max(until_us);
        if forgets {
            // As of when it is up again: until then it steps no more.
            let (now_us, down_until_us) = (self.now_us, self.nodes[node].down_until_us);
            self.now_us = down_until_us;
            let mut lock = Lock::new();
            lock.quarantine(self.node_now(node).ms + self.plan.max_lease_ms);
            self.now_us = now_us;
            self.nodes[node].lock = lock;
        }
    }

    pub(crate) fn requested(
        &mut self,
        node: usize,
        call: usize,
        request: Request,
    ) -> Result<(), BrokenPromise> {
        let down_until_us = self.nodes[node].down_until_us;
        if down_until_us > self.now_us {
            // It is refused, or waits in a buffer until the node goes on.
            if self.dice.chance(500) {
                self.at(down_until_us, Event::Request { node, call, request });
            }
            return Ok(());
        }
        let reply = self.step(node, &request)?;
        self.tell(|| format!("    node {node}: {request:?} -> {reply:?}"));
        let exact = self.is_exact();
        match (&request, &reply) {
            (Request::Acquire(acquire), Reply::Granted(_) | Reply::Queued(_)) if exact => {
                self.checker.taken_in(attempt_of(acquire.owner), node)?;
            }
            (Request::Release { owner, .. }, _) => {
                self.checker.released(attempt_of(*owner), node);
            }
            _ => {}
        }
        let engine_ms = self.node_now(node).ms;
        self.travel(Event::Reply { call, reply, engine_ms }, self.plan.lost);
        Ok(())
    }

    pub(crate) fn step(&mut self, node: usize, request: &Request) -> Result<Reply, BrokenPromise> {
        let now = self.node_now(node);
        let step = self.nodes[node].lock.apply(now, request);
        self.sum.steps += 1;
        for wake in step.wakes {
            let client = (wake.client.bits() - 1) as usize;
            let lost = self.plan.wakes_lost;
            let (owner, event) = (wake.owner, wake.event);
            self.travel(Event::Wake { client, node, owner, event }, lost);
        }
        let audit = self.nodes[node].lock.audit();
        audit.map_err(|corrupt| format!("node {node} after {request:?}: {corrupt}"))?;
        Ok(step.reply)
    }

    pub(crate) fn must_be_empty(&mut self) -> Result<(), BrokenPromise> {
        for node in 0..self.nodes.len() {
            self.step(node, &Request::Tick)?;
            let lock = &self.nodes[node].lock;
            if lock.holding() + lock.waiting() > 0 {
                return Err(format!("L: node {node} is not empty in the end: {lock:?}"));
            }
        }
        Ok(())
    }

    /// Does every request come once at most, and is every release remembered?
    pub(crate) fn is_exact(&self) -> bool {
        self.plan.doubled == 0 && !self.plan.forgets
    }
}
