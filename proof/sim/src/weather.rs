//! What goes wrong, and what the network does to messages.

use taketurns::engine::{EngineError, Request};
use taketurns::{Member, Name};
use taketurns_history::{EventKind, Guarantee, LockKind};

use crate::life::MEMBERS;

use crate::net::{SentRequest, SimAnswer, SimQuestion};
use crate::world::{Happening, Outage, SimFault, SimWorld};

/// No message takes longer once nothing goes wrong any more: then the shortest lease can be renewed
/// before it is over, and no answer comes too late.
const CALM_DELAY_US: u64 = 5_000;

const SET_FORWARD: &str = "clock set forward";

impl SimWorld {
    /// After how many steps of its tasks a machine stops, for how long or for good.
    pub(crate) fn strokes_of(&mut self, host: usize) -> Vec<(u64, Option<u64>)> {
        let plan = self.plan.clone();
        let mut strokes = Vec::new();
        for stroke in 0..plan.pauses + plan.deaths {
            // Half of them come at a time instead, and each machine has its share.
            if stroke % 2 == 0 || self.dice.index(plan.hosts) != host {
                continue;
            }
            let for_us = (stroke < plan.pauses).then(|| self.pause_us());
            strokes.push((self.dice.between(1, 400), for_us));
        }
        strokes
    }

    fn pause_us(&mut self) -> u64 {
        let longest_ms = self.plan.max_lease_ms + self.plan.waiter_lease_ms;
        self.dice.between(1_000, 1_000 * longest_ms)
    }

    pub(crate) fn plan_faults(&mut self) {
        let plan = self.plan.clone();
        let end_us = plan.faults_until_us;
        for _ in 0..plan.cuts {
            let (from_us, until_us) = self.span(end_us);
            let (host, node) = (self.dice.index(plan.hosts), self.dice.index(self.nodes.len()));
            self.at(from_us, Happening::Fault(SimFault::Cut { host, node, until_us }));
        }
        let downs = [
            (plan.freezes, Outage::Freeze),
            (plan.restarts, Outage::Restart),
            (plan.forgets, Outage::Forget),
            (plan.failovers, Outage::FailOver { lag_us: 0, clock_us: 0 }),
        ];
        for (times, how) in downs {
            for _ in 0..times {
                let (from_us, until_us) = self.span(end_us);
                let node = self.dice.index(self.nodes.len());
                let how = match how {
                    Outage::FailOver { .. } => Outage::FailOver {
                        lag_us: self.dice.between(0, 1_000 * plan.max_lease_ms),
                        clock_us: self.dice.off_by(100_000),
                    },
                    how => how,
                };
                self.at(from_us, Happening::Fault(SimFault::Down { node, until_us, how }));
            }
        }
        for jump in 0..plan.jumps_back + plan.jumps_forward {
            let by_us = self.dice.between(1_000, 1_000 * plan.max_lease_ms) as i64;
            let by_us = if jump < plan.jumps_back { -by_us } else { by_us };
            let (node, (at_us, _)) = (self.dice.index(self.nodes.len()), self.span(end_us));
            self.at(at_us, Happening::Fault(SimFault::Jump { node, by_us }));
        }
        for stroke in (0..plan.pauses + plan.deaths).step_by(2) {
            let (host, (at_us, _)) = (self.dice.index(plan.hosts), self.span(end_us));
            let fault = match stroke < plan.pauses {
                true => SimFault::Pause { host, for_us: self.pause_us() },
                false => SimFault::Death { host },
            };
            self.at(at_us, Happening::Fault(fault));
        }
    }

    fn span(&mut self, end_us: u64) -> (u64, u64) {
        let from_us = self.dice.between(0, end_us - 1);
        (from_us, self.dice.between(from_us + 1, end_us))
    }

    pub(crate) fn strike(&mut self, fault: SimFault) {
        if self.is_calm {
            return;
        }
        self.tell(|| format!("{fault:?}"));
        let now_us = self.now_us();
        match fault {
            SimFault::Down { node, until_us, how } => {
                let down_until_us = &mut self.nodes[node].down_until_us;
                *down_until_us = (*down_until_us).max(until_us);
                self.fault(kind_of(how), format!("node {node}"), Vec::new());
                self.at(until_us, Happening::Up { node, how });
            }
            SimFault::Cut { host, node, until_us } => {
                let cut = self.cuts.entry((host, node)).or_default();
                *cut = (*cut).max(until_us);
                self.fault("cut", way(host, node), Vec::new());
                self.at(until_us, Happening::Joined { host, node });
            }
            SimFault::Jump { node, by_us } => {
                self.nodes[node].jump(by_us);
                let on = format!("node {node}");
                if by_us <= 0 {
                    return self.fault("clock set back", on, Vec::new());
                }
                // It ends leases that their holders still count on. A client that has not noticed it yet also counts
                // on too much of its next lease.
                let alive = self.hosts.iter().filter(|host| !host.is_dead());
                self.unaware.extend(alive.map(|host| (node, host.number)));
                let excuses = self.plan.not_promised_to_the_unaware();
                self.fault(SET_FORWARD, on, excuses);
            }
            SimFault::Pause { host, for_us } => {
                if !self.hosts[host].is_dead() {
                    self.hosts[host].pause(now_us + for_us);
                    self.note(EventKind::Paused { client: host as u32 });
                    self.after(for_us, Happening::Resumes { host });
                }
            }
            SimFault::Death { host } => {
                if !self.hosts[host].is_dead() {
                    self.hosts[host].ask_witnesses();
                    self.hosts[host].die();
                    self.net.forget(host);
                    // Never will it be aware of a clock that was set forward: what it claimed last stands.
                    self.note(EventKind::Died { client: host as u32 });
                }
            }
        }
    }

    /// A machine has heard what time it is at a node. What comes of a clock that was set forward is
    /// over once all have.
    pub(crate) fn is_aware(&mut self, node: usize, host: usize) {
        if self.unaware.remove(&(node, host))
            && self.unaware.range((node, 0)..(node + 1, 0)).next().is_none()
        {
            self.note(EventKind::Mended {
                kind: SET_FORWARD.to_owned(),
                on: format!("node {node}"),
            });
        }
    }

    fn fault(&mut self, kind: &str, on: String, excuses: Vec<Guarantee>) {
        self.note(EventKind::Fault { kind: kind.to_owned(), on, excuses });
    }

    pub(crate) fn up(&mut self, node: usize, how: Outage) {
        let (now_us, max_lease_ms) = (self.now_us(), self.plan.max_lease_ms);
        let kept = &mut self.nodes[node];
        match how {
            Outage::Freeze => {}
            Outage::Restart => kept.restart(now_us, max_lease_ms),
            Outage::Forget => kept.forget(now_us, max_lease_ms),
            Outage::FailOver { lag_us, clock_us } => {
                kept.fail_over(now_us, lag_us, clock_us, max_lease_ms);
            }
        }
        if matches!(how, Outage::Forget | Outage::FailOver { .. }) && self.nodes.len() == 1 {
            self.note(EventKind::Forgot);
            self.add_members();
        }
        self.note(EventKind::Mended { kind: kind_of(how).to_owned(), on: format!("node {node}") });
        self.tell(|| format!("node {node} is up after {how:?}"));
        if how != Outage::Freeze {
            for host in 0..self.hosts.len() {
                self.joined(host, node);
            }
        }
    }

    /// What members a pool has is for people to say, again if it was forgotten.
    fn add_members(&mut self) {
        let now_us = self.now_us();
        for pool in self.plan.locks.iter().filter(|lock| lock.kind == LockKind::Pool) {
            for member in MEMBERS {
                let member = Member::new(member).expect("a member");
                let name = Name::new(&pool.name).expect("a name");
                // Nobody waits yet whom this could wake.
                let _ = self.nodes[0].step(now_us, 0, &name, &Request::PoolAdd { member });
            }
        }
    }

    /// There is a new connection from a machine to a node.
    pub(crate) fn joined(&mut self, host: usize, node: usize) {
        *self.connections.entry((host, node)).or_default() += 1;
        self.net.doubt(host, node);
        self.note(EventKind::Mended { kind: "cut".to_owned(), on: way(host, node) });
    }

    pub(crate) fn resumes(&mut self, host: usize) {
        if self.hosts[host].paused_until_us() <= self.now_us() && !self.hosts[host].is_dead() {
            self.note(EventKind::Resumed { client: host as u32 });
        }
    }

    /// Nothing goes wrong from here on.
    pub(crate) fn calm(&mut self) {
        self.time.set(self.plan.faults_until_us.max(self.now_us()));
        self.is_calm = true;
        self.hosts.iter().for_each(|host| host.calm());
        self.note(EventKind::Calm);
        self.tell(|| "calm".to_owned());
    }

    /// Puts a request under way: it may be lost, late, or come twice; or it is known not to go.
    pub(crate) fn send(&mut self, sent: SentRequest) {
        let way = (sent.host, sent.node);
        let is_cut = self.cuts.get(&way).is_some_and(|&until_us| until_us > self.now_us());
        let is_down = self.nodes[sent.node].down_until_us > self.now_us();
        if (is_cut || is_down) && !self.is_calm && self.dice.chance(300) {
            let said = Err(EngineError::Unreachable("refused".to_owned()));
            let us = self.delay_us();
            return self.after(us, Happening::Answered { call: sent.call, said, tells: None });
        }
        if !self.is_calm && (is_cut || self.dice.chance(self.plan.lost)) {
            return self.tell(|| format!("    lost: {sent:?}"));
        }
        let connection = self.connections.get(&way).copied().unwrap_or(0);
        if !self.is_calm && self.dice.chance(self.plan.doubled) {
            let us = self.delay_us();
            let sent = sent.clone();
            self.after(us, Happening::Arrives { sent, connection });
        }
        let us = self.delay_us();
        self.after(us, Happening::Arrives { sent, connection });
    }

    pub(crate) fn delay_us(&mut self) -> u64 {
        let is_slow = !self.is_calm && self.dice.chance(self.plan.slow);
        let most_us = match (is_slow, self.is_calm) {
            (true, _) => self.plan.slow_us,
            (false, true) => self.plan.delay_us.min(CALM_DELAY_US),
            (false, false) => self.plan.delay_us,
        };
        self.dice.between(50, most_us.max(50))
    }

    /// A request is at its node.
    pub(crate) fn arrives(&mut self, sent: SentRequest, connection: u64) -> Result<(), String> {
        // What is sent again is sent because there was no answer, and no connection brings it later.
        if self.net.is_answered(sent.call) {
            return Ok(());
        }
        let node = sent.node;
        let down_until_us = self.nodes[node].down_until_us;
        if down_until_us > self.now_us() {
            // It waits in a buffer until the node goes on, or is gone with it.
            if self.dice.chance(500) {
                self.at(down_until_us, Happening::Arrives { sent, connection });
            }
            return Ok(());
        }
        let now_us = self.now_us();
        let kept = &mut self.nodes[node];
        let said = match &sent.question {
            SimQuestion::Ping => SimAnswer::Ping(kept.stamp(now_us, connection)),
            SimQuestion::View(name, waiters_max) => {
                SimAnswer::View(Box::new(kept.view(now_us, name, *waiters_max)))
            }
            SimQuestion::Step(name, request) => {
                let done = kept.step(now_us, connection, name, request)?;
                let reply = done.answer.reply.clone();
                self.tell(|| format!("    node {node}, {name}: {request:?} -> {reply:?}"));
                if self.nodes.len() == 1 {
                    done.noted.into_iter().for_each(|what| self.note(what));
                } else if self.plan.is_smooth
                    && let Request::Acquire(acquire) = request
                    && let Some(op) = self.tickets.answered(node, acquire, &reply)
                {
                    // Where messages are lost, so may be the refreshes that keep a place.
                    self.note(EventKind::Line { lock: name.to_string(), ops: vec![op] });
                }
                for wake in done.wakes {
                    self.wake(node, name.clone(), wake);
                }
                SimAnswer::Step(done.answer)
            }
        };
        let is_cut = self.cuts.get(&(sent.host, node)).is_some_and(|&until_us| until_us > now_us);
        if !self.is_calm && (is_cut || self.dice.chance(self.plan.lost)) {
            return Ok(());
        }
        let us = self.delay_us();
        let tells = Some((node, sent.host)).filter(|way| self.unaware.contains(way));
        self.after(us, Happening::Answered { call: sent.call, said: Ok(said), tells });
        Ok(())
    }

    fn wake(&mut self, node: usize, lock: taketurns::Name, wake: taketurns::engine::Wake) {
        let client = wake.client;
        let Some(host) = self.net.host_of(node, client) else { return };
        let is_cut = self.cuts.get(&(host, node)).is_some_and(|&until_us| until_us > self.now_us());
        if !self.is_calm && (is_cut || self.dice.chance(self.plan.wakes_lost)) {
            return self.tell(|| format!("    lost: {wake:?}"));
        }
        let connection = self.connections.get(&(host, node)).copied().unwrap_or(0);
        let origin = self.nodes[node].origin(connection);
        let woken = taketurns::engine::EngineEvent::Wake { lock, wake, origin };
        if !self.is_calm && self.dice.chance(self.plan.doubled) {
            let us = self.delay_us();
            self.after(us, Happening::EngineEvent { node, client, woken: woken.clone() });
        }
        let us = self.delay_us();
        self.after(us, Happening::EngineEvent { node, client, woken });
    }
}

fn way(host: usize, node: usize) -> String {
    format!("client {host} and node {node}")
}

fn kind_of(how: Outage) -> &'static str {
    match how {
        Outage::Freeze => "freeze",
        Outage::Restart => "restart",
        Outage::Forget => "restart without its state",
        Outage::FailOver { .. } => "fail-over to a stale replica",
    }
}
