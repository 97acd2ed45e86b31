//! What stands between candidates and the network: it hands them what is heard, refreshes places,
//! renews, releases, and tells the checker.

use taketurns_core::quorum::{Candidate, NodeRequest, NodeRequestKind, QuorumVerdict};
use taketurns_core::session::Anchor;
use taketurns_core::{Owner, Reply, Request};

use crate::quorum::calls::Call;
use crate::quorum::checker::BrokenPromise;
use crate::quorum::world::{Attempt, Event, World, attempt_of, client_id, owner_of};

/// The next action for an attempt, due at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timer {
    /// Ask those again of whom nothing is known.
    Retry,
    Renew,
    /// Its time may be over.
    Look,
    /// It has held for long enough, or will not wait any longer.
    GiveUp {
        only_if_waiting: bool,
    },
}

impl World {
    /// Something happens to a client that is up.
    pub(crate) fn drive(&mut self, event: Event) -> Result<(), BrokenPromise> {
        match event {
            Event::Begin { client } => self.attempt(client),
            Event::Tick { client } => self.tick(client),
            Event::Reply { call, reply, engine_ms } => match self.calls[call].take() {
                Some(call) => self.replied(call, reply, engine_ms),
                None => Ok(()),
            },
            Event::Timeout { call } => match self.calls[call].take() {
                Some(call) => self.failed(call),
                None => Ok(()),
            },
            Event::Wake { client, node, owner, event } => {
                let attempt = attempt_of(owner);
                if self.attempts[attempt].is_over {
                    return Ok(());
                }
                self.tell(|| format!("{client} is woken by {node} for {attempt}: {event:?}"));
                let now_us = self.local_us(client);
                let candidate = &mut self.attempts[attempt].candidate;
                let sends = candidate.handle_wake(now_us, node, &event);
                self.follow(attempt, sends)
            }
            Event::Timer { attempt, timer } => self.timer(attempt, timer),
            _ => Ok(()),
        }
    }

    fn attempt(&mut self, client: usize) -> Result<(), BrokenPromise> {
        let (nodes, max_lease_ms) = (self.plan.nodes, self.plan.max_lease_ms);
        let waits = !self.dice.chance(self.plan.tries);
        let lease_ms = self.dice.between((max_lease_ms / 4).max(100), max_lease_ms);
        let attempt = self.checker.begins(self.attempts.len().to_string(), nodes);
        let waiter_lease_ms = waits.then_some(self.plan.waiter_lease_ms);
        self.tell(|| format!("{client} begins {attempt}, waits: {waits}, lease: {lease_ms}"));
        self.sum.attempts += 1;
        self.attempts.push(Attempt {
            client,
            candidate: Candidate::new(nodes, lease_ms, waiter_lease_ms),
            owner: owner_of(attempt, self.dice.any()),
            waits,
            lease_ms,
            is_over: false,
            held: None,
            retries: false,
            not_after_ms: vec![0; nodes],
        });
        if waits && self.dice.chance(self.plan.cancels) {
            let after_us = self.dice.between(0, 2_000 * self.plan.waiter_lease_ms);
            let timer = Timer::GiveUp { only_if_waiting: true };
            self.after(after_us, Event::Timer { attempt, timer });
        }
        let sends = self.attempts[attempt].candidate.ask();
        self.follow(attempt, sends)
    }

    /// A third of the waiter lease has passed.
    fn tick(&mut self, client: usize) -> Result<(), BrokenPromise> {
        let third_us = self.plan.waiter_lease_ms * 1_000 / 3;
        let next_us = self.true_us(client, self.local_us(client) + third_us);
        self.at(next_us, Event::Tick { client });
        let now_us = self.local_us(client);
        let mine: Vec<usize> = (0..self.attempts.len())
            .filter(|&attempt| self.attempts[attempt].client == client)
            .filter(|&attempt| !self.attempts[attempt].is_over)
            .collect();
        for node in 0..self.plan.nodes {
            let waits_there = |&&attempt: &&usize| self.attempts[attempt].candidate.waits_on(node);
            let asked: Vec<usize> = mine.iter().filter(waits_there).copied().collect();
            if asked.is_empty() {
                continue;
            }
            let waiter_lease_ms = self.plan.waiter_lease_ms;
            let request = Request::Refresh { client: client_id(client), waiter_lease_ms };
            let call = Call::Refresh { client, node, sent_us: now_us, asked };
            self.call(node, call, request)?;
        }
        for attempt in mine {
            let sends = self.attempts[attempt].candidate.handle_tick(now_us);
            self.follow(attempt, sends)?;
        }
        Ok(())
    }

    fn replied(&mut self, call: Call, reply: Reply, engine_ms: u64) -> Result<(), BrokenPromise> {
        match call {
            Call::Send { attempt, client, send, sent_us } => {
                let anchor = self.observe(client, send.node, sent_us, engine_ms);
                self.tell(|| format!("{attempt} hears of {send:?}: {reply:?}"));
                if let NodeRequestKind::Ask { ticket, .. } = send.kind {
                    self.checker.placed(attempt, send.node, ticket, &reply);
                }
                let now_us = self.local_us(client);
                let candidate = &mut self.attempts[attempt].candidate;
                let sends = candidate.handle_reply(now_us, send, Ok((reply, anchor)));
                self.follow(attempt, sends)
            }
            Call::Refresh { client, node, sent_us, asked } => {
                let anchor = self.observe(client, node, sent_us, engine_ms);
                self.tell(|| format!("{client} refreshed at {node}: {reply:?}"));
                self.refreshed(client, node, &asked, anchor, reply)
            }
        }
    }

    fn refreshed(
        &mut self,
        client: usize,
        node: usize,
        asked: &[usize],
        anchor: Anchor,
        reply: Reply,
    ) -> Result<(), BrokenPromise> {
        let Reply::Refreshed { waiting, granted, .. } = reply else {
            return Err(format!("a refresh is answered with {reply:?}"));
        };
        let now_us = self.local_us(client);
        for (owner, grant) in &granted {
            let attempt = attempt_of(*owner);
            if !self.attempts[attempt].is_over {
                let candidate = &mut self.attempts[attempt].candidate;
                let sends = candidate.handle_refreshed_grant(now_us, node, grant, anchor);
                self.follow(attempt, sends)?;
            }
        }
        let is_granted = |&attempt: &usize| {
            granted.iter().any(|(owner, _): &(Owner, _)| attempt_of(*owner) == attempt)
        };
        let missing: Vec<usize> = asked
            .iter()
            .copied()
            .filter(|attempt| !is_granted(attempt) && !self.attempts[*attempt].is_over)
            .collect();
        if missing.len() > waiting as usize {
            for attempt in missing {
                let sends = self.attempts[attempt].candidate.handle_missing(node);
                self.follow(attempt, sends)?;
            }
        }
        Ok(())
    }

    fn failed(&mut self, call: Call) -> Result<(), BrokenPromise> {
        let Call::Send { attempt, client, send, .. } = call else { return Ok(()) };
        self.tell(|| format!("{attempt} hears nothing of {send:?}"));
        if matches!(send.kind, NodeRequestKind::Release { .. }) {
            return self.send(attempt, send);
        }
        let (now_us, silent) = (self.local_us(client), Err("silent".to_owned()));
        let sends = self.attempts[attempt].candidate.handle_reply(now_us, send, silent);
        self.follow(attempt, sends)
    }

    fn timer(&mut self, attempt: usize, timer: Timer) -> Result<(), BrokenPromise> {
        let Attempt { client, is_over, held, lease_ms, .. } = self.attempts[attempt];
        if is_over {
            return Ok(());
        }
        let now_us = self.local_us(client);
        match timer {
            Timer::Retry => {
                self.attempts[attempt].retries = false;
                let sends = self.attempts[attempt].candidate.ask();
                self.follow(attempt, sends)
            }
            Timer::Renew => {
                let sends = self.attempts[attempt].candidate.renew(now_us, lease_ms);
                self.renew_later(attempt);
                self.follow(attempt, sends)
            }
            Timer::Look => {
                self.look_later(attempt);
                self.follow(attempt, Vec::new())
            }
            Timer::GiveUp { only_if_waiting: true } if held.is_some() => Ok(()),
            Timer::GiveUp { .. } => self.give_up(attempt),
        }
    }

    fn renew_later(&mut self, attempt: usize) {
        let Attempt { client, held, .. } = self.attempts[attempt];
        let now_us = self.local_us(client);
        let left_us = held.map_or(0, |(_, until_us)| until_us.saturating_sub(now_us));
        let at_us = self.true_us(client, now_us + (left_us / 3).max(5_000));
        self.at(at_us, Event::Timer { attempt, timer: Timer::Renew });
    }

    fn look_later(&mut self, attempt: usize) {
        let Attempt { client, held, .. } = self.attempts[attempt];
        let Some((_, until_us)) = held.filter(|held| held.1 > self.local_us(client)) else {
            return;
        };
        let at_us = self.true_us(client, until_us);
        self.at(at_us, Event::Timer { attempt, timer: Timer::Look });
    }

    /// Sends what the candidate wants sent, and looks at what has come of it.
    fn follow(&mut self, attempt: usize, sends: Vec<NodeRequest>) -> Result<(), BrokenPromise> {
        for send in sends {
            self.send(attempt, send)?;
        }
        let Attempt { client, is_over, waits, retries, held, .. } = self.attempts[attempt];
        if is_over {
            return Ok(());
        }
        let now_us = self.local_us(client);
        match self.attempts[attempt].candidate.verdict(now_us) {
            QuorumVerdict::Open => Ok(()),
            QuorumVerdict::Waiting { ticket } => self.checker.settled(attempt, ticket),
            QuorumVerdict::Held { token, until_us } => {
                let true_us = self.true_us(client, until_us);
                self.tell(|| format!("{attempt} holds with {token} until {true_us}"));
                let in_order = self.in_order();
                self.checker.holds(self.now_us, attempt, token, true_us, in_order)?;
                self.attempts[attempt].held = Some((token, until_us));
                if held.is_none() {
                    self.sum.holds += 1;
                    self.renew_later(attempt);
                    self.look_later(attempt);
                    let us = self.dice.between(0, self.plan.hold_ms_max * 1_000);
                    let timer = Timer::GiveUp { only_if_waiting: false };
                    self.after(us, Event::Timer { attempt, timer });
                }
                Ok(())
            }
            QuorumVerdict::Refused(_) | QuorumVerdict::NoQuorum if waits => {
                if !retries {
                    self.attempts[attempt].retries = true;
                    let us = self.dice.between(1_000, 50_000);
                    self.after(us, Event::Timer { attempt, timer: Timer::Retry });
                }
                Ok(())
            }
            QuorumVerdict::Lost if self.in_order() => {
                Err(format!("{attempt} lost what it held, though nothing went wrong"))
            }
            _ => self.give_up(attempt),
        }
    }

    fn give_up(&mut self, attempt: usize) -> Result<(), BrokenPromise> {
        self.tell(|| format!("{attempt} gives up"));
        self.checker.ends(attempt);
        self.attempts[attempt].is_over = true;
        for send in self.attempts[attempt].candidate.give_up() {
            self.send(attempt, send)?;
        }
        Ok(())
    }
}
