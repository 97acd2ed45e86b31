//! Giving back: on every node, until each has heard it or it can't matter any more.

use std::sync::Arc;
use std::time::Duration;

use taketurns_core::client::Backoff;
use taketurns_core::quorum::{Send, What};
use taketurns_core::{Name, Owner};
use tokio::sync::mpsc;

use super::super::{EngineError, Reply, Request};
use super::calls::{Answered, somebody};
use super::driver::Quorum;
use super::node::lock;
use super::run::{self, Errand, Run};
use crate::clock::local_us;
use crate::random;

impl Quorum {
    /// Gives back everything of an owner, on every node, until each has heard it or it can't matter
    /// any more. Answers as the nodes do.
    pub(super) fn give_up(
        self: &Arc<Self>,
        owner: Owner,
    ) -> Option<mpsc::UnboundedReceiver<Answered>> {
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
    ) -> mpsc::UnboundedReceiver<Answered> {
        let (sender, answers) = mpsc::unbounded_channel();
        let until_us = local_us() + lasts_ms * 1_000;
        *lock(&self.releasing).entry(owner).or_default() += errands.len();
        for Errand { send, request } in errands {
            let (quorum, name, sender) = (self.clone(), name.clone(), sender.clone());
            let mut busy = lock(&self.busy).clone();
            self.runtime.spawn(async move {
                let mut backoff = Backoff::default();
                loop {
                    let node = &quorum.nodes[send.node];
                    let heard = node.call(&name, request.clone()).await;
                    if let Ok(heard) = &heard {
                        quorum.look_after(&name, send.node, heard);
                    }
                    let is_over = heard.is_ok() || local_us() >= until_us;
                    let _ = sender.send((send.node, heard.map(|heard| heard.reply)));
                    if is_over {
                        break;
                    }
                    // Whoever goes does not wait for one that is down.
                    busy = None;
                    let pause_us = backoff.pause_us(random::bits64());
                    tokio::time::sleep(Duration::from_micros(pause_us)).await;
                }
                quorum.released(owner);
                drop(busy);
            });
        }
        answers
    }

    /// One node less has to hear of it.
    fn released(&self, owner: Owner) {
        let mut releasing = lock(&self.releasing);
        if let Some(left) = releasing.get_mut(&owner) {
            *left -= 1;
            if *left == 0 {
                releasing.remove(&owner);
            }
        }
    }

    pub(super) async fn let_go(
        self: &Arc<Self>,
        name: &Name,
        owner: Owner,
        bury: bool,
    ) -> Result<Reply, EngineError> {
        let is_releasing = lock(&self.releasing).contains_key(&owner);
        let replies = match self.give_up(owner) {
            Some(answers) => self.most(answers).await?,
            // It is being told to every node already; whoever asks again wants to know how that goes.
            None if is_releasing => {
                self.broadcast(name, Request::Release { owner, bury_until_ms: 0 }).await?
            }
            None => {
                // It was acquired elsewhere.
                let run = &mut Run::new(name, self.nodes.len(), somebody(owner, self.client));
                let release = |node| Send { node, what: What::Release { bury: false } };
                let mut errands = self.errands(run, (0..self.nodes.len()).map(release).collect());
                if bury {
                    errands.iter_mut().for_each(|errand| self.bury(errand));
                }
                self.most(self.release(owner, name, errands, run.lasts_ms())).await?
            }
        };
        let any = |wanted: Reply| replies.contains(&wanted);
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
