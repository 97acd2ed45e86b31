//! The requests of a client: acquire, renew, refresh, release.

use std::collections::btree_map::Entry;
use std::sync::Arc;

use taketurns_core::redlock::{RedlockVerdict, RenewalVerdict};
use taketurns_core::{AcquireRequest, Name, Owner, Place, Refusal, Reply, Request};
use tokio::sync::watch;

use super::super::nodes::{
    MajorityProtocol, NodeAnswer, ReplyTally, ReportedState, handle_answer_effects, lock, release,
};
use super::super::{Durability, EngineError, Guarantees};
use super::contention::{Contention, grant, is_retryable};
use super::{Redlock, State};
use crate::clock::local_us;
use crate::random;

impl MajorityProtocol for Redlock {
    const GUARANTEES: Guarantees = Guarantees {
        fair: false,
        fenced: false,
        event_driven: false,
        survives: Durability::MinorityOfServers,
    };

    async fn acquire(
        self: &Arc<Self>,
        name: &Name,
        acquire: AcquireRequest,
    ) -> Result<Reply, EngineError> {
        if !self.unfenced {
            return Err(EngineError::Unfenced);
        }
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
                let contention =
                    lock(&self.state).contentions.get(&owner).map(Contention::subscribe);
                changed = contention.ok_or_else(given_up)?;
            }
        }
    }

    async fn renew(
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
                let Some(contention) = state.contentions.get_mut(&owner) else {
                    return Ok(Reply::NotHeld);
                };
                if let Some(renewed) = contention.contender.renewed(renewal, local_us()) {
                    break (renewed, contention.contender.troubles());
                }
            }
            if changed.changed().await.is_err() {
                return Ok(Reply::NotHeld);
            }
        };
        match renewed {
            RenewalVerdict::Held { until_us } => {
                if let Some(contention) = lock(&self.state).contentions.get_mut(&owner) {
                    contention.reported = ReportedState::Held;
                }
                Ok(Reply::Renewed(grant(until_us)))
            }
            RenewalVerdict::Revoked => Ok(Reply::Revoked),
            RenewalVerdict::Lost => {
                // Its votes on a minority would block all other candidates.
                self.give_up(owner);
                Ok(Reply::NotHeld)
            }
            RenewalVerdict::NoQuorum => {
                self.forget_adopted(owner);
                Err(self.nodes.no_quorum(troubles))
            }
        }
    }

    async fn release(self: &Arc<Self>, name: &Name, owner: Owner) -> Result<Reply, EngineError> {
        let told = lock(&self.state).contentions.get(&owner).map(|contention| contention.reported);
        // Every node may have been told already: a caller that asks again wants the outcome.
        let under_way = self.nodes.release_under_way(owner);
        let given_up = self.give_up(owner);
        if told == Some(ReportedState::Waiting) || (told.is_some() && given_up.is_none()) {
            // Its place was here, whatever the nodes have yet to hear.
            return Ok(Reply::Left);
        }
        let adopted =
            || self.release_everywhere(owner, Contention::adopted(name, self.nodes.count()));
        let tally = given_up.or(under_way).unwrap_or_else(adopted);
        self.nodes.released(&tally).await
    }

    /// The foremost of this client tries again, if it is time. That it holds is told by a wake-up, and here
    /// once more.
    fn refresh(self: &Arc<Self>, name: &Name, _waiter_lease_ms: u64) -> Reply {
        let now_us = local_us();
        let state = &mut *lock(&self.state);
        if let Some(owner) =
            state.queues.of(name).and_then(|queue| queue.poll(now_us, random::bits64()))
        {
            if let Some(contention) = state.contentions.get_mut(&owner) {
                self.begin(owner, contention);
            }
            self.conclude(state, owner);
        }
        let (mut granted, mut quarantined_until_us) = (Vec::new(), None);
        for (owner, contention) in
            state.contentions.iter_mut().filter(|(_, contention)| contention.lock == *name)
        {
            granted.extend(contention.held(now_us).map(|grant| (*owner, grant)));
            quarantined_until_us =
                quarantined_until_us.max(contention.contender.quarantined_until_us(now_us));
        }
        let queue = state.queues.of(name);
        Reply::Refreshed {
            waiting: queue.as_ref().map_or(0, |queue| queue.waiting()),
            front: queue.as_ref().map_or(0, |queue| queue.front()),
            recheck_ms: queue.map(|queue| queue.next_ms()),
            quarantined_until_ms: quarantined_until_us.map(|until_us| until_us / 1_000),
            granted,
        }
    }
}

impl Redlock {
    /// Starts the contention of this owner, or finds it. The error is what can be answered at once.
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
        if state.contentions.len().is_power_of_two() {
            state.contentions.retain(|owner, contention| !self.is_left(*owner, contention));
        }
        let State { contentions, queues } = state;
        let is_first = queues.of(name).is_none();
        let contention = match contentions.entry(owner) {
            // It asks again, since too few nodes were there.
            Entry::Occupied(known) if known.get().failed == Some(RedlockVerdict::NoQuorum) => {
                known.into_mut()
            }
            Entry::Occupied(known) => return Ok(known.get().subscribe()),
            Entry::Vacant(_) if !is_first && !waits => return Err(Reply::Busy),
            Entry::Vacant(new) => {
                let contention = new.insert(Contention::new(name, self.nodes.count(), acquire));
                if waits {
                    queues.join(name, owner);
                }
                if !is_first {
                    // It waits behind others of this client.
                    contention.failed = Some(RedlockVerdict::Busy);
                    return Ok(contention.subscribe());
                }
                contention
            }
        };
        let changed = contention.subscribe();
        if let Some(queue) = queues.of(name) {
            queue.is_tried_by(owner);
        }
        self.begin(owner, contention);
        // If no node could be asked, that is the end of it.
        self.conclude(state, owner);
        Ok(changed)
    }

    /// The answer to an acquire, once it can be given.
    fn outcome(self: &Arc<Self>, owner: Owner) -> Option<Result<Reply, EngineError>> {
        let now_us = local_us();
        let state = &mut *lock(&self.state);
        let State { contentions, queues } = state;
        // Nobody waits for the answer.
        let Some(contention) = contentions.get_mut(&owner) else { return Some(Err(given_up())) };
        let failed = match contention.contender.verdict(now_us) {
            RedlockVerdict::Held { until_us } => {
                contention.reported = ReportedState::Held;
                return Some(Ok(Reply::Granted(grant(until_us))));
            }
            RedlockVerdict::Lost | RedlockVerdict::Revoked => RedlockVerdict::Over,
            _ => contention.failed?,
        };
        let queue = queues.of(&contention.lock);
        if let (true, Some(queue)) = (contention.waits() && is_retryable(failed), queue)
            && failed != RedlockVerdict::NoQuorum
            && let Some(number) = queue.number_of(owner)
        {
            contention.reported = ReportedState::Waiting;
            let until_us = contention.contender.quarantined_until_us(now_us);
            return Some(Ok(Reply::Queued(Place {
                number,
                front: queue.front(),
                recheck_ms: Some(queue.next_ms()),
                quarantined_until_ms: until_us.map(|until_us| until_us / 1_000),
            })));
        }
        if failed == RedlockVerdict::NoQuorum {
            // The contention stays, so the next attempt continues from here.
            return Some(Err(self.nodes.no_quorum(contention.contender.troubles())));
        }
        self.end(state, owner);
        Some(match failed {
            RedlockVerdict::Refused(refusal) => Ok(Reply::Refused(refusal)),
            RedlockVerdict::Over => Err(EngineError::Unknown("its lease was over too soon".into())),
            _ => Ok(Reply::Busy),
        })
    }

    /// Is it over, and does nobody here care? It was carried elsewhere then, and not released here.
    fn is_left(&self, owner: Owner, contention: &mut Contention) -> bool {
        contention.contender.verdict(local_us()) == RedlockVerdict::Lost
            && !self.wakes.has_owner(owner)
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
        if state
            .contentions
            .get_mut(&owner)
            .is_some_and(|contention| self.is_left(owner, contention))
        {
            state.contentions.remove(&owner);
        }
        let adopted = || Contention::adopted(name, self.nodes.count());
        let contention = state.contentions.entry(owner).or_insert_with(adopted);
        if contention.contender.verdict(local_us()) == RedlockVerdict::Idle {
            return None;
        }
        let (renewal, asked) = contention.contender.renew();
        for node in asked {
            let (redlock, name) = (self.clone(), name.clone());
            let client = self.nodes.client;
            let request = Request::Renew { owner, client, lease_ms, write_back: None };
            self.nodes.runtime.spawn(async move {
                let answer = redlock.nodes.all[node].call(&name, request).await;
                if let Ok(answer) = &answer {
                    handle_answer_effects(&redlock, &name, node, answer);
                }
                let answer = answer.and_then(NodeAnswer::timed).map_err(|error| error.to_string());
                redlock.update(owner, |contention| {
                    contention.contender.handle_renewal_reply(node, renewal, answer)
                });
            });
        }
        Some((renewal, contention.subscribe()))
    }

    /// Forgets a lock that another process acquired, and that could not be renewed here.
    fn forget_adopted(&self, owner: Owner) {
        let mut state = lock(&self.state);
        if state.contentions.get(&owner).is_some_and(|contention| contention.acquire.is_none())
            && !self.wakes.has_owner(owner)
        {
            state.contentions.remove(&owner);
        }
    }

    /// Gives back everything of an owner, on every node. Answers what the nodes say to it.
    pub(super) fn give_up(self: &Arc<Self>, owner: Owner) -> Option<Arc<ReplyTally>> {
        self.end(&mut lock(&self.state), owner)
    }

    fn end(self: &Arc<Self>, state: &mut State, owner: Owner) -> Option<Arc<ReplyTally>> {
        let contention = state.contentions.remove(&owner)?;
        state.queues.leave(&contention.lock, owner);
        if contention.contender.has_left_nothing() {
            return None;
        }
        Some(self.release_everywhere(owner, contention))
    }

    fn release_everywhere(
        self: &Arc<Self>,
        owner: Owner,
        mut contention: Contention,
    ) -> Arc<ReplyTally> {
        // What was acquired elsewhere may still be asked for from there, on a slow node.
        let is_adopted = contention.acquire.is_none();
        let until_ms = |(node, may_arrive): (usize, bool)| match may_arrive {
            _ if is_adopted => self.nodes.arrives_by_ms(node),
            true => contention.not_after_ms[node],
            false => 0,
        };
        let may_arrive = contention.contender.give_up().into_iter().enumerate();
        let bury_until_ms = may_arrive.map(until_ms).collect();
        release(self, owner, &contention.lock, bury_until_ms, contention.lasts_ms()).0
    }
}

fn given_up() -> EngineError {
    EngineError::Unknown("it was given up meanwhile".into())
}
