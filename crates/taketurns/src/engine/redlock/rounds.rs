//! Rounds: all nodes are asked at once, and a round that fails is given back everywhere before that is said.

use std::sync::Arc;
use std::time::Duration;

use taketurns_core::redlock::{NodeFailure, RedlockVerdict};
use taketurns_core::{Name, Owner, Reply, Request, WakeEvent};
use tokio::sync::mpsc;

use super::super::EngineError;
use super::super::nodes::{
    NodeAnswer, OwnerNotice, ReportedState, handle_answer_effects, lock, tell,
};
use super::contention::{Contention, is_retryable};
use super::{Redlock, State};
use crate::clock::local_us;
use crate::random;
use crate::runtime::{sleep_until_us, timeout};

/// For how long the outcome of a round waits until what was won in vain is given back.
const GIVEN_BACK_WITHIN: Duration = Duration::from_millis(300);

impl Redlock {
    /// Begins a round of this owner.
    pub(super) fn begin(self: &Arc<Self>, owner: Owner, contention: &mut Contention) {
        contention.failed = None;
        let (round, asked) = contention.contender.ask(local_us());
        for node in asked {
            let Some(request) = contention.request(node, self.nodes.arrives_by_ms(node)) else {
                return;
            };
            let (redlock, name) = (self.clone(), contention.lock.clone());
            self.nodes.runtime.spawn(async move {
                let answer = redlock.nodes.all[node].call(&name, request).await;
                redlock.handle_answer(owner, &name, node, round, answer);
            });
        }
    }

    fn handle_answer(
        self: &Arc<Self>,
        owner: Owner,
        name: &Name,
        node: usize,
        round: u64,
        answer: Result<NodeAnswer, EngineError>,
    ) {
        if let Ok(answer) = &answer {
            handle_answer_effects(self, name, node, answer);
        }
        let answer = answer.and_then(NodeAnswer::timed).map_err(|error| NodeFailure {
            why: error.to_string(),
            unknown: matches!(error, EngineError::Unknown(_)),
        });
        let mut state = lock(&self.state);
        // Who gave up has buried it.
        let Some(contention) = state.contentions.get_mut(&owner) else { return };
        let before_us = contention.contender.patience_until_us();
        if contention.contender.handle_acquire_reply(local_us(), node, round, answer) {
            self.release_node(owner, contention, node, None);
        }
        let until_us = contention.contender.patience_until_us().filter(|_| before_us.is_none());
        if let Some(until_us) = until_us
            && contention.contender.verdict(local_us()) == RedlockVerdict::Open
        {
            self.conclude_at(until_us, owner);
        }
        self.conclude(&mut state, owner);
    }

    /// Looks again when the slow are waited for no longer.
    fn conclude_at(self: &Arc<Self>, until_us: u64, owner: Owner) {
        let redlock = self.clone();
        self.nodes.runtime.spawn(async move {
            sleep_until_us(until_us).await;
            redlock.update(owner, |_| ());
        });
    }

    /// Checks whether the round is over, and if so notifies the tasks that wait for it.
    pub(super) fn conclude(self: &Arc<Self>, state: &mut State, owner: Owner) {
        let now_us = local_us();
        let State { contentions, queues } = state;
        let Some(contention) = contentions.get_mut(&owner) else { return };
        match contention.contender.verdict(now_us) {
            RedlockVerdict::Idle
            | RedlockVerdict::Open
            | RedlockVerdict::Lost
            | RedlockVerdict::Revoked => {}
            RedlockVerdict::Held { .. } => queues.leave(&contention.lock, owner),
            failed => {
                let quarantined_until_us = contention.contender.quarantined_until_us(now_us);
                if let Some(queue) = queues.of(&contention.lock) {
                    queue.handle_failure(owner, now_us, random::bits64(), quarantined_until_us);
                }
                self.roll_back(owner, contention, failed);
            }
        }
        if let Some(notice) = contention.next_notice(now_us) {
            self.push(owner, &contention.lock, notice);
        }
    }

    /// Gives back what was won in a round that failed.
    fn roll_back(
        self: &Arc<Self>,
        owner: Owner,
        contention: &mut Contention,
        failed: RedlockVerdict,
    ) {
        let (given_back, mut rest) = mpsc::channel(1);
        for (node, has_granted) in contention.contender.roll_back() {
            self.release_node(owner, contention, node, has_granted.then(|| given_back.clone()));
        }
        drop(given_back);
        let redlock = self.clone();
        self.nodes.runtime.spawn(async move {
            let _ = timeout(GIVEN_BACK_WITHIN, rest.recv()).await;
            redlock.fail(owner, failed);
        });
    }

    /// A round has failed, and what was won in it is given back.
    fn fail(self: &Arc<Self>, owner: Owner, failed: RedlockVerdict) {
        let mut state = lock(&self.state);
        let Some(contention) = state.contentions.get_mut(&owner) else { return };
        if contention.contender.verdict(local_us()) != RedlockVerdict::Idle {
            // It tries again by now.
            return;
        }
        contention.failed = Some(failed);
        contention.notify();
        if let RedlockVerdict::Refused(refusal) = failed
            && contention.reported == ReportedState::Waiting
            && !is_retryable(failed)
        {
            self.push(owner, &contention.lock, OwnerNotice::Wake(WakeEvent::Refused(refusal)));
            drop(state);
            self.give_up(owner);
        }
    }

    /// Releases what a node may have of a round that failed. It is not buried: the next round may ask for it.
    fn release_node(
        self: &Arc<Self>,
        owner: Owner,
        contention: &Contention,
        node: usize,
        given_back: Option<mpsc::Sender<()>>,
    ) {
        let (redlock, name, busy) =
            (self.clone(), contention.lock.clone(), self.nodes.close_guard());
        let until_us = local_us() + contention.lasts_ms() * 1_000;
        self.nodes.runtime.spawn(async move {
            let request = Request::Release { owner, bury_until_ms: 0, last_used: None };
            let first = std::sync::Mutex::new(given_back);
            // One that does not hear it at once is not waited for.
            let record = |_: Result<Reply, EngineError>| drop(lock(&first).take());
            tell(&redlock, &name, node, request, until_us, busy, record).await;
            if let Some(contention) = lock(&redlock.state).contentions.get_mut(&owner) {
                contention.contender.handle_release_reply(node);
            }
        });
    }

    pub(super) fn push(&self, owner: Owner, name: &Name, notice: OwnerNotice) {
        self.wakes.push(notice.into_event(name.clone(), self.nodes.client, owner));
    }

    /// Changes the contention of an owner, and notifies the client of what comes of it.
    pub(super) fn update(self: &Arc<Self>, owner: Owner, change: impl FnOnce(&mut Contention)) {
        let mut state = lock(&self.state);
        let Some(contention) = state.contentions.get_mut(&owner) else { return };
        change(contention);
        self.conclude(&mut state, owner);
    }
}
