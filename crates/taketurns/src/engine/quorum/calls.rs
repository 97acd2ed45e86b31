//! The requests of a client: acquire, renew, release and refresh, answered by candidates.

use std::sync::Arc;

use taketurns_core::quorum::QuorumVerdict;
use taketurns_core::{Ask, ClientId, Label, Name, Owner, limits};
use tokio::sync::watch;

use super::super::nodes::{MajorityProtocol, NodeCalls, ReplyTally, lock, release};
use super::super::{AcquireRequest, Durability, EngineError, Guarantees, Refusal, Reply, Request};
use super::candidacy::{AcquireFailure, Candidacy, NodeCall};
use super::driver::Quorum;
use crate::clock::local_us;

impl MajorityProtocol for Quorum {
    const GUARANTEES: Guarantees = Guarantees::full(Durability::MinorityOfServers);

    async fn acquire(
        self: &Arc<Self>,
        name: &Name,
        acquire: AcquireRequest,
    ) -> Result<Reply, EngineError> {
        let owner = acquire.owner;
        let candidacy = || Candidacy::new(name, self.nodes.count(), acquire);
        let Some((mut changed, mut calls)) = self.start(owner, candidacy) else {
            return Ok(Reply::Refused(Refusal::Cancelled));
        };
        loop {
            let outcome = {
                let mut candidacies = lock(&self.candidacies);
                // Released meanwhile: nobody waits for the answer.
                let Some(candidacy) = candidacies.get_mut(&owner) else { return Err(given_up()) };
                candidacy.outcome(local_us())
            };
            match outcome {
                None => {}
                Some(Ok(reply @ Reply::Granted(_))) => return Ok(reply),
                Some(Ok(reply @ Reply::Queued(_))) => {
                    // It may be granted by any of the answers that are yet to come.
                    calls.go_on();
                    return Ok(reply);
                }
                Some(Ok(reply)) => {
                    drop(self.give_up(owner));
                    return Ok(reply);
                }
                Some(Err(AcquireFailure::NoQuorum)) => return Err(self.no_quorum_for(owner)),
                Some(Err(AcquireFailure::Lost)) => {
                    drop(self.give_up(owner));
                    return Err(EngineError::Unknown("its lease was over too soon".into()));
                }
            }
            if calls.until(changed.changed()).await.is_err() {
                // That candidacy is over; another one of this owner is as good.
                let candidacy = lock(&self.candidacies).get(&owner).map(Candidacy::subscribe);
                changed = candidacy.ok_or_else(given_up)?;
            }
        }
    }

    async fn renew(
        self: &Arc<Self>,
        name: &Name,
        owner: Owner,
        lease_ms: u64,
    ) -> Result<Reply, EngineError> {
        let acquire = || AcquireRequest { lease_ms, ..unknown_acquire(owner, self.nodes.client) };
        self.forget(owner);
        let mut changed = lock(&self.candidacies).get(&owner).map(Candidacy::subscribe);
        let (mut round, mut calls) = (None, self.begin(owner, name, Vec::new()));
        loop {
            let receiver = match &mut changed {
                Some(receiver) => receiver,
                None => {
                    let candidacy = || Candidacy::find(name, self.nodes.count(), acquire());
                    let Some((receiver, begun)) = self.start(owner, candidacy) else {
                        return Ok(Reply::NotHeld);
                    };
                    calls = begun;
                    changed.insert(receiver)
                }
            };
            let step = {
                let mut candidacies = lock(&self.candidacies);
                let Some(candidacy) = candidacies.get_mut(&owner) else {
                    return Ok(Reply::NotHeld);
                };
                let now_us = local_us();
                match (candidacy.candidate.verdict(now_us), round) {
                    (QuorumVerdict::Held { .. }, None) => {
                        let sends = candidacy.candidate.renew(now_us, lease_ms);
                        round = Some(candidacy.candidate.round());
                        RenewalStep::Send(self.node_calls(candidacy, sends))
                    }
                    (QuorumVerdict::Held { .. }, Some(round)) => {
                        match (candidacy.candidate.renewed(round), candidacy.renewed(now_us)) {
                            (None, _) => RenewalStep::Wait,
                            (Some(true), Some(grant)) => RenewalStep::Done(Reply::Renewed(grant)),
                            (Some(_), _) => RenewalStep::NoQuorum,
                        }
                    }
                    (QuorumVerdict::Open, _) => RenewalStep::Wait,
                    (QuorumVerdict::Revoked, _) => RenewalStep::Done(Reply::Revoked),
                    (QuorumVerdict::NoQuorum, _) => RenewalStep::NoQuorum,
                    _ => RenewalStep::Done(Reply::NotHeld),
                }
            };
            match step {
                RenewalStep::Send(node_calls) => calls = self.begin(owner, name, node_calls),
                RenewalStep::Wait => {
                    if calls.until(receiver.changed()).await.is_err() {
                        // Forgotten meanwhile: look the owner up again.
                        changed = lock(&self.candidacies).get(&owner).map(Candidacy::subscribe);
                    }
                }
                RenewalStep::Done(reply) => {
                    self.forget(owner);
                    return Ok(reply);
                }
                RenewalStep::NoQuorum => {
                    let error = self.no_quorum_for(owner);
                    self.forget(owner);
                    return Err(error);
                }
            }
        }
    }

    async fn release(self: &Arc<Self>, name: &Name, owner: Owner) -> Result<Reply, EngineError> {
        // Every node may have been told already: a caller that asks again wants the outcome.
        let under_way = self.nodes.release_under_way(owner);
        self.nodes.handle_late_answers();
        let under_way = under_way.map(|tally| (tally, self.begin(owner, name, Vec::new())));
        let (tally, mut calls) = self.give_up(owner).or(under_way).unwrap_or_else(|| {
            // It was acquired elsewhere, and a slow node may have that acquire yet to hear.
            let candidacy =
                Candidacy::new(name, self.nodes.count(), unknown_acquire(owner, self.nodes.client));
            let nodes = 0..self.nodes.count();
            let bury_until_ms = nodes.map(|node| self.nodes.arrives_by_ms(node)).collect();
            release(self, owner, name, bury_until_ms, candidacy.lasts_ms())
        });
        calls.until(self.nodes.released(&tally)).await
    }

    fn refresh(self: &Arc<Self>, name: &Name, waiter_lease_ms: u64) -> Reply {
        for owner in self.owners_of(name, |_| true) {
            self.update(owner, |candidacy| candidacy.candidate.handle_tick(local_us()));
        }
        for node in 0..self.nodes.count() {
            self.refresh_node(node, name, waiter_lease_ms);
        }
        let now_us = local_us();
        let (mut waiting, mut granted, mut quarantined_until_ms) = (0, Vec::new(), None);
        for (owner, candidacy) in
            lock(&self.candidacies).iter_mut().filter(|(_, candidacy)| candidacy.lock == *name)
        {
            if matches!(candidacy.candidate.verdict(now_us), QuorumVerdict::Waiting { .. }) {
                waiting += 1;
                let until_us = candidacy.candidate.quarantined_until_us(now_us);
                quarantined_until_ms = until_us.map(|until_us| until_us / 1_000);
            }
            granted.extend(candidacy.held(now_us).map(|grant| (*owner, grant)));
        }
        Reply::Refreshed { waiting, front: 0, recheck_ms: None, quarantined_until_ms, granted }
    }
}

impl Quorum {
    /// Starts the candidacy of this owner, or finds it, and asks the nodes. `None` while it is being released: what
    /// it were granted now, a release under way could take.
    fn start(
        self: &Arc<Self>,
        owner: Owner,
        new: impl FnOnce() -> Candidacy,
    ) -> Option<(watch::Receiver<()>, NodeCalls)> {
        let mut candidacies = lock(&self.candidacies);
        if self.nodes.is_releasing(owner) {
            return None;
        }
        // Now and then, since it takes a look at all of them.
        if candidacies.len().is_power_of_two() {
            candidacies.retain(|owner, candidacy| !self.is_left(*owner, candidacy));
        }
        let candidacy = candidacies.entry(owner).or_insert_with(new);
        let changed = candidacy.subscribe();
        let sends = candidacy.candidate.ask();
        let node_calls = self.node_calls(candidacy, sends);
        let name = candidacy.lock.clone();
        drop(candidacies);
        Some((changed, self.begin(owner, &name, node_calls)))
    }

    /// Does nobody here need it any more?
    fn is_left(&self, owner: Owner, candidacy: &mut Candidacy) -> bool {
        candidacy.is_left(local_us()) && !self.wakes.has_owner(owner)
    }

    /// What is over, and nobody here cares for, is forgotten: others may have it renewed since.
    fn forget(&self, owner: Owner) {
        let mut candidacies = lock(&self.candidacies);
        if candidacies.get_mut(&owner).is_some_and(|candidacy| self.is_left(owner, candidacy)) {
            candidacies.remove(&owner);
        }
    }

    /// Gives back everything of an owner, on every node. Returns where their replies are counted, and the calls.
    fn give_up(self: &Arc<Self>, owner: Owner) -> Option<(Arc<ReplyTally>, NodeCalls)> {
        let mut candidacy = lock(&self.candidacies).remove(&owner)?;
        let sends = candidacy.candidate.give_up();
        let node_calls = self.node_calls(&mut candidacy, sends);
        // A caller that waits for its outcome learns that it is over.
        drop(candidacy.next_notice(local_us()));
        let bury_until_ms = node_calls.iter().map(bury_until_ms).collect();
        Some(release(self, owner, &candidacy.lock, bury_until_ms, candidacy.lasts_ms()))
    }

    fn no_quorum_for(&self, owner: Owner) -> EngineError {
        let candidacies = lock(&self.candidacies);
        let troubles =
            candidacies.get(&owner).map_or(Vec::new(), |candidacy| candidacy.candidate.troubles());
        self.nodes.no_quorum(troubles)
    }
}

/// What a renewal does next.
enum RenewalStep {
    Send(Vec<NodeCall>),
    Wait,
    Done(Reply),
    NoQuorum,
}

fn given_up() -> EngineError {
    EngineError::Unknown("it was given up meanwhile".into())
}

/// For an owner whose lock was acquired elsewhere, so that nothing is known of it.
fn unknown_acquire(owner: Owner, client: ClientId) -> AcquireRequest {
    AcquireRequest {
        owner,
        client,
        ask: Ask::Mutex,
        at_least_ms: 0,
        lease_ms: limits::LEASE_MS_DEFAULT,
        waiter_lease_ms: None,
        not_after_ms: 0,
        ballot: None,
        label: Label::default(),
    }
}

fn bury_until_ms(node_call: &NodeCall) -> u64 {
    match node_call.request {
        Request::Release { bury_until_ms, .. } => bury_until_ms,
        _ => 0,
    }
}
