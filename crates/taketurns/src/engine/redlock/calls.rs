//! What a client asks.

use std::collections::btree_map::Entry;
use std::sync::Arc;

use taketurns_core::redlock::{RedlockVerdict, RenewalVerdict};
use taketurns_core::{AcquireRequest, Name, Owner, Place, Refusal, Reply, Request};
use tokio::sync::watch;

use super::super::EngineError;
use super::super::nodes::{Tally, lock, look_after, release};
use super::run::{Run, Told, grant, is_hopeful};
use super::{Redlock, State};
use crate::clock::local_us;
use crate::random;

impl Redlock {
    pub(super) async fn acquire(
        self: &Arc<Self>,
        name: &Name,
        acquire: AcquireRequest,
    ) -> Result<Reply, EngineError> {
        let owner = acquire.owner;
        let mut changed = match self.start(name, acquire) {
            Ok(changed) => changed,
            Err(reply) => return Ok(reply),
        };
        loop {
            if let Some(outcome) = self.outcome(owner) {
                return outcome;
            }
            // Released meanwhile, and perhaps asked for anew.
            if changed.changed().await.is_err() {
                let run = lock(&self.state).runs.get(&owner).map(Run::subscribe);
                changed = run.ok_or_else(given_up)?;
            }
        }
    }

    /// A run of this owner, new or known; or what can be answered at once.
    fn start(
        self: &Arc<Self>,
        name: &Name,
        acquire: AcquireRequest,
    ) -> Result<watch::Receiver<()>, Reply> {
        let (owner, waits) = (acquire.owner, acquire.waiter_lease_ms.is_some());
        let state = &mut *lock(&self.state);
        // What it were granted now, a release under way could take.
        if self.nodes.is_releasing(owner) {
            return Err(Reply::Refused(Refusal::Cancelled));
        }
        // Now and then, since it takes a look at all of them.
        if state.runs.len().is_power_of_two() {
            state.runs.retain(|owner, run| !self.is_left(*owner, run));
        }
        let State { runs, lines } = state;
        let is_first = lines.of(name).is_none();
        let run = match runs.entry(owner) {
            // It asks again, since too few nodes were there.
            Entry::Occupied(known) if known.get().failed == Some(RedlockVerdict::NoQuorum) => {
                known.into_mut()
            }
            Entry::Occupied(known) => return Ok(known.get().subscribe()),
            Entry::Vacant(_) if !is_first && !waits => return Err(Reply::Busy),
            Entry::Vacant(new) => {
                let run = new.insert(Run::new(name, self.nodes.count(), acquire));
                if waits {
                    lines.join(name, owner);
                }
                if !is_first {
                    // It waits behind others of this client.
                    run.failed = Some(RedlockVerdict::Busy);
                    return Ok(run.subscribe());
                }
                run
            }
        };
        let changed = run.subscribe();
        if let Some(line) = lines.of(name) {
            line.is_tried_by(owner);
        }
        self.begin(owner, run);
        // If no node could be asked, that is the end of it.
        self.conclude(state, owner);
        Ok(changed)
    }

    /// The answer to an acquire, once it can be given.
    fn outcome(self: &Arc<Self>, owner: Owner) -> Option<Result<Reply, EngineError>> {
        let now_us = local_us();
        let state = &mut *lock(&self.state);
        let State { runs, lines } = state;
        // Nobody waits for the answer.
        let Some(run) = runs.get_mut(&owner) else { return Some(Err(given_up())) };
        let failed = match run.contender.verdict(now_us) {
            RedlockVerdict::Held { until_us } => {
                run.told = Told::Held;
                return Some(Ok(Reply::Granted(grant(until_us))));
            }
            RedlockVerdict::Lost | RedlockVerdict::Revoked => RedlockVerdict::Over,
            _ => run.failed?,
        };
        let line = lines.of(&run.lock);
        if let (true, Some(line)) = (run.waits() && is_hopeful(failed), line)
            && failed != RedlockVerdict::NoQuorum
            && let Some(number) = line.number_of(owner)
        {
            run.told = Told::Waiting;
            let until_us = run.contender.quarantined_until_us(now_us);
            return Some(Ok(Reply::Queued(Place {
                number,
                front: line.front(),
                recheck_ms: Some(line.next_ms()),
                quarantined_until_ms: until_us.map(|until_us| until_us / 1_000),
            })));
        }
        if failed == RedlockVerdict::NoQuorum {
            // Whoever asks again goes on from here.
            return Some(Err(self.nodes.no_quorum(run.contender.troubles())));
        }
        self.end(state, owner);
        Some(match failed {
            RedlockVerdict::Refused(refusal) => Ok(Reply::Refused(refusal)),
            RedlockVerdict::Over => Err(EngineError::Unknown("its lease was over too soon".into())),
            _ => Ok(Reply::Busy),
        })
    }

    /// Is it over, and does nobody here care? It was carried elsewhere then, and not released here.
    fn is_left(&self, owner: Owner, run: &mut Run) -> bool {
        run.contender.verdict(local_us()) == RedlockVerdict::Lost && !self.wakes.knows(owner)
    }

    pub(super) async fn renew(
        self: &Arc<Self>,
        name: &Name,
        owner: Owner,
        lease_ms: u64,
    ) -> Result<Reply, EngineError> {
        let Some((renewal, mut changed)) = self.start_renewal(name, owner, lease_ms) else {
            return Ok(Reply::NotHeld);
        };
        let (renewed, troubles) = loop {
            {
                let mut state = lock(&self.state);
                let Some(run) = state.runs.get_mut(&owner) else { return Ok(Reply::NotHeld) };
                if let Some(renewed) = run.contender.renewed(renewal, local_us()) {
                    break (renewed, run.contender.troubles());
                }
            }
            if changed.changed().await.is_err() {
                return Ok(Reply::NotHeld);
            }
        };
        match renewed {
            RenewalVerdict::Held { until_us } => {
                if let Some(run) = lock(&self.state).runs.get_mut(&owner) {
                    run.told = Told::Held;
                }
                Ok(Reply::Renewed(grant(until_us)))
            }
            RenewalVerdict::Revoked => Ok(Reply::Revoked),
            RenewalVerdict::Lost => {
                // What is left of it on a minority is in everybody's way.
                self.give_up(owner);
                Ok(Reply::NotHeld)
            }
            RenewalVerdict::NoQuorum => {
                self.forget_stranger(owner);
                Err(self.nodes.no_quorum(troubles))
            }
        }
    }

    /// Sends a round of renewals. `None` if there is nothing to renew.
    fn start_renewal(
        self: &Arc<Self>,
        name: &Name,
        owner: Owner,
        lease_ms: u64,
    ) -> Option<(u64, watch::Receiver<()>)> {
        let state = &mut *lock(&self.state);
        if self.nodes.is_releasing(owner) {
            return None;
        }
        // What is over here, others may have renewed since.
        if state.runs.get_mut(&owner).is_some_and(|run| self.is_left(owner, run)) {
            state.runs.remove(&owner);
        }
        let stranger = || Run::stranger(name, self.nodes.count());
        let run = state.runs.entry(owner).or_insert_with(stranger);
        if run.contender.verdict(local_us()) == RedlockVerdict::Idle {
            return None;
        }
        let (renewal, asked) = run.contender.renew();
        for node in asked {
            let (redlock, name) = (self.clone(), name.clone());
            let client = self.nodes.client;
            let request = Request::Renew { owner, client, lease_ms, write_back: None };
            self.nodes.runtime.spawn(async move {
                let heard = redlock.nodes.all[node].call(&name, request).await;
                if let Ok(heard) = &heard {
                    look_after(&redlock, &name, node, heard);
                }
                let heard = heard.map(|heard| (heard.reply, heard.anchor));
                let heard = heard.map_err(|error| error.to_string());
                redlock.with(owner, |run| run.contender.handle_renewal_reply(node, renewal, heard));
            });
        }
        Some((renewal, run.subscribe()))
    }

    /// Of what was got elsewhere and could not be renewed, nothing is known.
    fn forget_stranger(&self, owner: Owner) {
        let mut state = lock(&self.state);
        if state.runs.get(&owner).is_some_and(|run| run.acquire.is_none())
            && !self.wakes.knows(owner)
        {
            state.runs.remove(&owner);
        }
    }

    /// The foremost of this client tries again, if it is time. That it holds is told by a wake-up, and here
    /// once more.
    pub(super) fn refresh(self: &Arc<Self>, name: &Name) -> Reply {
        let now_us = local_us();
        let state = &mut *lock(&self.state);
        if let Some(owner) =
            state.lines.of(name).and_then(|line| line.poll(now_us, random::bits64()))
        {
            if let Some(run) = state.runs.get_mut(&owner) {
                self.begin(owner, run);
            }
            self.conclude(state, owner);
        }
        let (mut granted, mut quarantined_until_us) = (Vec::new(), None);
        for (owner, run) in state.runs.iter_mut().filter(|(_, run)| run.lock == *name) {
            granted.extend(run.held(now_us).map(|grant| (*owner, grant)));
            quarantined_until_us =
                quarantined_until_us.max(run.contender.quarantined_until_us(now_us));
        }
        let line = state.lines.of(name);
        Reply::Refreshed {
            waiting: line.as_ref().map_or(0, |line| line.waiting()),
            front: line.as_ref().map_or(0, |line| line.front()),
            recheck_ms: line.map(|line| line.next_ms()),
            quarantined_until_ms: quarantined_until_us.map(|until_us| until_us / 1_000),
            granted,
        }
    }

    /// Gives back everything of an owner, on every node. Answers what the nodes say to it.
    pub(super) fn give_up(self: &Arc<Self>, owner: Owner) -> Option<Arc<Tally>> {
        self.end(&mut lock(&self.state), owner)
    }

    fn end(self: &Arc<Self>, state: &mut State, owner: Owner) -> Option<Arc<Tally>> {
        let run = state.runs.remove(&owner)?;
        state.lines.leave(&run.lock, owner);
        if run.contender.has_left_nothing() {
            return None;
        }
        Some(self.release(owner, run))
    }

    fn release(self: &Arc<Self>, owner: Owner, mut run: Run) -> Arc<Tally> {
        // What was acquired elsewhere may still be asked for from there, on a slow node.
        let is_strange = run.acquire.is_none();
        let until_ms = |(node, may_arrive): (usize, bool)| match may_arrive {
            _ if is_strange => self.nodes.arrives_by_ms(node),
            true => run.not_after_ms[node],
            false => 0,
        };
        let may_arrive = run.contender.give_up().into_iter().enumerate();
        let bury_until_ms = may_arrive.map(until_ms).collect();
        release(self, owner, &run.lock, bury_until_ms, run.lasts_ms())
    }

    pub(super) async fn let_go(
        self: &Arc<Self>,
        name: &Name,
        owner: Owner,
    ) -> Result<Reply, EngineError> {
        let told = lock(&self.state).runs.get(&owner).map(|run| run.told);
        // It may be told to every node already: whoever asks again wants to know how that goes.
        let under_way = self.nodes.release_under_way(owner);
        let given_up = self.give_up(owner);
        if told == Some(Told::Waiting) || (told.is_some() && given_up.is_none()) {
            // Its place was here, whatever the nodes have yet to hear.
            return Ok(Reply::Left);
        }
        let stranger = || self.release(owner, Run::stranger(name, self.nodes.count()));
        let tally = given_up.or(under_way).unwrap_or_else(stranger);
        self.nodes.released(&tally).await
    }
}

fn given_up() -> EngineError {
    EngineError::Unknown("it was given up meanwhile".into())
}
