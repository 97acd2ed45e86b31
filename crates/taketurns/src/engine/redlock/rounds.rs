//! Rounds: all nodes are asked at once, and a round that fails is given back everywhere before that is said.

use std::sync::Arc;
use std::time::Duration;

use taketurns_core::redlock::{NodeFailure, RedlockVerdict};
use taketurns_core::{Name, Owner, Reply, Request, WakeEvent};
use tokio::sync::mpsc;

use super::super::EngineError;
use super::super::nodes::{Heard, lock, look_after, tell};
use super::run::{News, Run, Told, is_hopeful};
use super::{Redlock, State};
use crate::client::sleep_until_us;
use crate::clock::local_us;
use crate::random;
use crate::runtime::timeout;

/// For how long the outcome of a round waits until what was won in vain is given back.
const GIVEN_BACK_WITHIN: Duration = Duration::from_millis(300);

impl Redlock {
    /// Begins a round of this owner.
    pub(super) fn begin(self: &Arc<Self>, owner: Owner, run: &mut Run) {
        run.failed = None;
        let (round, asked) = run.contender.ask(local_us());
        for node in asked {
            let Some(request) = run.request(node, self.nodes.arrives_by_ms(node)) else { return };
            let (redlock, name) = (self.clone(), run.lock.clone());
            self.nodes.runtime.spawn(async move {
                let heard = redlock.nodes.all[node].call(&name, request).await;
                redlock.hear(owner, &name, node, round, heard);
            });
        }
    }

    fn hear(
        self: &Arc<Self>,
        owner: Owner,
        name: &Name,
        node: usize,
        round: u64,
        heard: Result<Heard, EngineError>,
    ) {
        if let Ok(heard) = &heard {
            look_after(self, name, node, heard);
        }
        let heard = heard.map(|heard| (heard.reply, heard.anchor)).map_err(|error| NodeFailure {
            why: error.to_string(),
            unknown: matches!(error, EngineError::Unknown(_)),
        });
        let mut state = lock(&self.state);
        // Who gave up has buried it.
        let Some(run) = state.runs.get_mut(&owner) else { return };
        let before_us = run.contender.patience_until_us();
        if run.contender.handle_acquire_reply(local_us(), node, round, heard) {
            self.take_back(owner, run, node, None);
        }
        let until_us = run.contender.patience_until_us().filter(|_| before_us.is_none());
        if let Some(until_us) = until_us
            && run.contender.verdict(local_us()) == RedlockVerdict::Open
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
            redlock.with(owner, |_| ());
        });
    }

    /// Is the round over? Then whoever waits for it is told.
    pub(super) fn conclude(self: &Arc<Self>, state: &mut State, owner: Owner) {
        let now_us = local_us();
        let State { runs, lines } = state;
        let Some(run) = runs.get_mut(&owner) else { return };
        match run.contender.verdict(now_us) {
            RedlockVerdict::Idle
            | RedlockVerdict::Open
            | RedlockVerdict::Lost
            | RedlockVerdict::Revoked => {}
            RedlockVerdict::Held { .. } => lines.leave(&run.lock, owner),
            failed => {
                let quarantined_until_us = run.contender.quarantined_until_us(now_us);
                if let Some(line) = lines.of(&run.lock) {
                    line.handle_failure(owner, now_us, random::bits64(), quarantined_until_us);
                }
                self.retreat(owner, run, failed);
            }
        }
        if let Some(news) = run.news(now_us) {
            self.push(owner, &run.lock, news);
        }
    }

    /// Gives back what was won in a round that failed.
    fn retreat(self: &Arc<Self>, owner: Owner, run: &mut Run, failed: RedlockVerdict) {
        let (given_back, mut rest) = mpsc::channel(1);
        for (node, has_granted) in run.contender.roll_back() {
            self.take_back(owner, run, node, has_granted.then(|| given_back.clone()));
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
        let Some(run) = state.runs.get_mut(&owner) else { return };
        if run.contender.verdict(local_us()) != RedlockVerdict::Idle {
            // It tries again by now.
            return;
        }
        run.failed = Some(failed);
        run.stir();
        if let RedlockVerdict::Refused(refusal) = failed
            && run.told == Told::Waiting
            && !is_hopeful(failed)
        {
            self.push(owner, &run.lock, News::Event(WakeEvent::Refused(refusal)));
            drop(state);
            self.give_up(owner);
        }
    }

    /// Releases what a node may have of a round that failed. It is not buried: the next round may ask for it.
    fn take_back(
        self: &Arc<Self>,
        owner: Owner,
        run: &Run,
        node: usize,
        given_back: Option<mpsc::Sender<()>>,
    ) {
        let (redlock, name, busy) = (self.clone(), run.lock.clone(), self.nodes.busy());
        let until_us = local_us() + run.lasts_ms() * 1_000;
        self.nodes.runtime.spawn(async move {
            let request = Request::Release { owner, bury_until_ms: 0, last_used: None };
            let first = std::sync::Mutex::new(given_back);
            // One that does not hear it at once is not waited for.
            let record = |_: Result<Reply, EngineError>| drop(lock(&first).take());
            tell(&redlock, &name, node, request, until_us, busy, record).await;
            if let Some(run) = lock(&redlock.state).runs.get_mut(&owner) {
                run.contender.handle_release_reply(node);
            }
        });
    }

    pub(super) fn push(&self, owner: Owner, name: &Name, news: News) {
        self.wakes.push(news.into_woken(name.clone(), self.nodes.client, owner));
    }

    /// Lets an owner know something, and tells the client what is news.
    pub(super) fn with(self: &Arc<Self>, owner: Owner, hear: impl FnOnce(&mut Run)) {
        let mut state = lock(&self.state);
        let Some(run) = state.runs.get_mut(&owner) else { return };
        hear(run);
        self.conclude(&mut state, owner);
    }
}
