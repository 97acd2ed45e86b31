//! What a client asks of a quorum, answered by its candidates or by a majority of nodes.

use std::sync::Arc;

use taketurns_core::quorum::QuorumVerdict;
use taketurns_core::{Ask, ClientId, Label, Name, Owner, limits};
use tokio::sync::watch;

use super::super::nodes::{lock, refuse_other_kinds};
use super::super::{AcquireRequest, EngineError, Refusal, Reply};
use super::driver::Quorum;
use super::run::{Errand, Failed, Run};
use crate::clock::local_us;

impl Quorum {
    pub(super) async fn acquire(
        self: &Arc<Self>,
        name: &Name,
        acquire: AcquireRequest,
    ) -> Result<Reply, EngineError> {
        refuse_other_kinds(&acquire.ask)?;
        let owner = acquire.owner;
        let run = || Run::new(name, self.nodes.count(), acquire);
        let Some(mut changed) = self.start(owner, run) else {
            return Ok(Reply::Refused(Refusal::Cancelled));
        };
        loop {
            let outcome = {
                let mut runs = lock(&self.runs);
                // Released meanwhile: nobody waits for the answer.
                let Some(run) = runs.get_mut(&owner) else { return Err(given_up()) };
                run.outcome(local_us())
            };
            match outcome {
                None => {}
                Some(Ok(reply @ (Reply::Granted(_) | Reply::Queued(_)))) => return Ok(reply),
                Some(Ok(reply)) => {
                    self.give_up(owner);
                    return Ok(reply);
                }
                Some(Err(Failed::NoQuorum)) => return Err(self.no_quorum_for(owner)),
                Some(Err(Failed::Lost)) => {
                    self.give_up(owner);
                    return Err(EngineError::Unknown("its lease was over too soon".into()));
                }
            }
            if changed.changed().await.is_err() {
                // That run is over; if there is another of this owner, it is as good.
                let run = lock(&self.runs).get(&owner).map(Run::subscribe);
                changed = run.ok_or_else(given_up)?;
            }
        }
    }

    /// A run of this owner, new or known, that asks whom it has to. `None` while it is being released: what
    /// it were granted now, a release under way could take.
    fn start(
        self: &Arc<Self>,
        owner: Owner,
        new: impl FnOnce() -> Run,
    ) -> Option<watch::Receiver<()>> {
        let mut runs = lock(&self.runs);
        if self.nodes.is_releasing(owner) {
            return None;
        }
        // Now and then, since it takes a look at all of them.
        if runs.len().is_power_of_two() {
            runs.retain(|owner, run| !self.is_left(*owner, run));
        }
        let run = runs.entry(owner).or_insert_with(new);
        let changed = run.subscribe();
        let sends = run.candidate.ask();
        let errands = self.errands(run, sends);
        let name = run.lock.clone();
        drop(runs);
        self.dispatch(owner, &name, errands);
        Some(changed)
    }

    /// Does nobody here need it any more?
    fn is_left(&self, owner: Owner, run: &mut Run) -> bool {
        run.is_left(local_us()) && !self.wakes.knows(owner)
    }

    /// What is over, and nobody here cares for, is forgotten: others may have it renewed since.
    fn forget(&self, owner: Owner) {
        let mut runs = lock(&self.runs);
        if runs.get_mut(&owner).is_some_and(|run| self.is_left(owner, run)) {
            runs.remove(&owner);
        }
    }

    pub(super) async fn renew(
        self: &Arc<Self>,
        name: &Name,
        owner: Owner,
        lease_ms: u64,
    ) -> Result<Reply, EngineError> {
        let acquire = || AcquireRequest { lease_ms, ..somebody(owner, self.nodes.client) };
        self.forget(owner);
        let mut changed = lock(&self.runs).get(&owner).map(Run::subscribe);
        let mut round = None;
        loop {
            let receiver = match &mut changed {
                Some(receiver) => receiver,
                None => {
                    let run = || Run::find(name, self.nodes.count(), acquire());
                    let Some(receiver) = self.start(owner, run) else {
                        return Ok(Reply::NotHeld);
                    };
                    changed.insert(receiver)
                }
            };
            let step = {
                let mut runs = lock(&self.runs);
                let Some(run) = runs.get_mut(&owner) else { return Ok(Reply::NotHeld) };
                let now_us = local_us();
                match (run.candidate.verdict(now_us), round) {
                    (QuorumVerdict::Held { .. }, None) => {
                        let sends = run.candidate.renew(now_us, lease_ms);
                        round = Some(run.candidate.round());
                        Step::Send(self.errands(run, sends))
                    }
                    (QuorumVerdict::Held { .. }, Some(round)) => {
                        match (run.candidate.renewed(round), run.renewed(now_us)) {
                            (None, _) => Step::Wait,
                            (Some(true), Some(grant)) => Step::Done(Reply::Renewed(grant)),
                            (Some(_), _) => Step::NoQuorum,
                        }
                    }
                    (QuorumVerdict::Open, _) => Step::Wait,
                    (QuorumVerdict::Revoked, _) => Step::Done(Reply::Revoked),
                    (QuorumVerdict::NoQuorum, _) => Step::NoQuorum,
                    _ => Step::Done(Reply::NotHeld),
                }
            };
            match step {
                Step::Send(errands) => self.dispatch(owner, name, errands),
                Step::Wait => {
                    if receiver.changed().await.is_err() {
                        // Forgotten meanwhile: whoever looks again finds what there is.
                        changed = lock(&self.runs).get(&owner).map(Run::subscribe);
                    }
                }
                Step::Done(reply) => {
                    self.forget(owner);
                    return Ok(reply);
                }
                Step::NoQuorum => {
                    let error = self.no_quorum_for(owner);
                    self.forget(owner);
                    return Err(error);
                }
            }
        }
    }

    pub(super) fn refresh(self: &Arc<Self>, name: &Name, waiter_lease_ms: u64) -> Reply {
        for owner in self.owners_of(name, |_| true) {
            self.with(owner, |run| run.candidate.handle_tick(local_us()));
        }
        for node in 0..self.nodes.count() {
            self.refresh_node(node, name, waiter_lease_ms);
        }
        let now_us = local_us();
        let (mut waiting, mut granted, mut quarantined_until_ms) = (0, Vec::new(), None);
        for (owner, run) in lock(&self.runs).iter_mut().filter(|(_, run)| run.lock == *name) {
            if matches!(run.candidate.verdict(now_us), QuorumVerdict::Waiting { .. }) {
                waiting += 1;
                let until_us = run.candidate.quarantined_until_us(now_us);
                quarantined_until_ms = until_us.map(|until_us| until_us / 1_000);
            }
            granted.extend(run.held(now_us).map(|grant| (*owner, grant)));
        }
        Reply::Refreshed { waiting, front: 0, recheck_ms: None, quarantined_until_ms, granted }
    }

    fn no_quorum_for(&self, owner: Owner) -> EngineError {
        let runs = lock(&self.runs);
        let troubles = runs.get(&owner).map_or(Vec::new(), |run| run.candidate.troubles());
        self.nodes.no_quorum(troubles)
    }
}

/// What a renewal does next.
enum Step {
    Send(Vec<Errand>),
    Wait,
    Done(Reply),
    NoQuorum,
}

fn given_up() -> EngineError {
    EngineError::Unknown("it was given up meanwhile".into())
}

/// For an owner whose lock was acquired elsewhere, so that nothing is known of it.
pub(super) fn somebody(owner: Owner, client: ClientId) -> AcquireRequest {
    AcquireRequest {
        owner,
        client,
        ask: Ask::Mutex,
        lease_ms: limits::LEASE_MS_DEFAULT,
        waiter_lease_ms: None,
        not_after_ms: 0,
        ballot: None,
        label: Label::default(),
    }
}
