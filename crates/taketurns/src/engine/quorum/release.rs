//! Giving back: on every node, until each has heard it or it can't matter any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use taketurns_core::client::Backoff;
use taketurns_core::quorum::{Send, What};
use taketurns_core::{Name, Owner};

use super::super::{EngineError, Reply, Request};
use super::calls::somebody;
use super::driver::Quorum;
use super::node::lock;
use super::run::{self, Errand, Run};
use super::tally::Tally;
use crate::clock::local_us;
use crate::random;

/// For how long the outcome of a release is kept for one who could not be told: longer than any pause
/// between two tries.
const ASKED_AGAIN_WITHIN: Duration = Duration::from_secs(3);

impl Quorum {
    /// Gives back everything of an owner, on every node. Answers what the nodes say to it.
    pub(super) fn give_up(self: &Arc<Self>, owner: Owner) -> Option<Arc<Tally>> {
        let mut run = lock(&self.runs).remove(&owner)?;
        let sends = run.candidate.give_up();
        let errands = self.errands(&mut run, sends);
        // Whoever waits for its outcome learns that it is over.
        drop(run.news(local_us()));
        Some(self.release(owner, &run.lock, errands, run.lasts_ms()))
    }

    fn release(
        self: &Arc<Self>,
        owner: Owner,
        name: &Name,
        errands: Vec<Errand>,
        lasts_ms: u64,
    ) -> Arc<Tally> {
        let tally = Tally::new(self.nodes.len());
        let left = Arc::new(AtomicUsize::new(errands.len()));
        lock(&self.releasing).insert(owner, tally.clone());
        let until_us = local_us() + lasts_ms * 1_000;
        for errand in errands {
            let (quorum, name) = (self.clone(), name.clone());
            let (tally, left) = (tally.clone(), left.clone());
            self.runtime.spawn(async move {
                quorum.tell(&name, errand, until_us, &tally).await;
                if left.fetch_sub(1, Ordering::AcqRel) > 1 {
                    return;
                }
                if tally.is_wanted() {
                    // Told that too few could be reached, and about to ask again.
                    tokio::time::sleep(ASKED_AGAIN_WITHIN).await;
                }
                lock(&quorum.releasing).remove(&owner);
            });
        }
        tally
    }

    /// Tells one node, again and again until it has heard it.
    async fn tell(self: &Arc<Self>, name: &Name, errand: Errand, until_us: u64, tally: &Tally) {
        let Errand { send, request } = errand;
        let mut busy = lock(&self.busy).clone();
        let mut backoff = Backoff::default();
        loop {
            let heard = self.nodes[send.node].call(name, request.clone()).await;
            if let Ok(heard) = &heard {
                self.look_after(name, send.node, heard);
            }
            let is_over = heard.is_ok() || local_us() >= until_us;
            tally.record(send.node, heard.map(|heard| heard.reply));
            if is_over {
                return drop(busy);
            }
            // Whoever goes does not wait for one that is down.
            busy = None;
            let pause_us = backoff.pause_us(random::bits64());
            tokio::time::sleep(Duration::from_micros(pause_us)).await;
        }
    }

    pub(super) async fn let_go(
        self: &Arc<Self>,
        name: &Name,
        owner: Owner,
        bury: bool,
    ) -> Result<Reply, EngineError> {
        // It may be told to every node already: whoever asks again wants to know how that goes.
        let under_way = lock(&self.releasing).get(&owner).cloned();
        let tally = self.give_up(owner).or(under_way).unwrap_or_else(|| {
            // It was acquired elsewhere.
            let run = &mut Run::new(name, self.nodes.len(), somebody(owner, self.client));
            let release = |node| Send { node, what: What::Release { bury: false } };
            let mut errands = self.errands(run, (0..self.nodes.len()).map(release).collect());
            if bury {
                errands.iter_mut().for_each(|errand| self.bury(errand));
            }
            self.release(owner, name, errands, run.lasts_ms())
        });
        tally.want();
        let replies = self.most(&tally).await?;
        // Once claimed it was released before, and some nodes have yet to hear it.
        let is_ours = tally.claim();
        let any = |wanted: Reply| is_ours && replies.contains(&wanted);
        Ok(match (any(Reply::Released), any(Reply::Left)) {
            (true, _) => Reply::Released,
            (false, true) => Reply::Left,
            (false, false) => Reply::NotHeld,
        })
    }

    fn bury(&self, errand: &mut Errand) {
        let clock_ms = self.nodes[errand.send.node].clock_ms(local_us()).unwrap_or(0);
        if let Request::Release { bury_until_ms, .. } = &mut errand.request {
            *bury_until_ms = clock_ms + run::ARRIVES_WITHIN_MS;
        }
    }
}
