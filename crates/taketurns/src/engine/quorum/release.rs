//! Giving back what a candidate may have, on every node.

use std::sync::Arc;

use taketurns_core::{Name, Owner};

use super::super::nodes::{ReplyTally, lock, release};
use super::super::{EngineError, Reply, Request};
use super::calls::unknown_acquire;
use super::candidacy::{Candidacy, NodeCall};
use super::driver::Quorum;
use crate::clock::local_us;

impl Quorum {
    /// Gives back everything of an owner, on every node. Answers what the nodes say to it.
    pub(super) fn give_up(self: &Arc<Self>, owner: Owner) -> Option<Arc<ReplyTally>> {
        let mut candidacy = lock(&self.candidacies).remove(&owner)?;
        let sends = candidacy.candidate.give_up();
        let node_calls = self.node_calls(&mut candidacy, sends);
        // Whoever waits for its outcome learns that it is over.
        drop(candidacy.next_notice(local_us()));
        let bury_until_ms = node_calls.iter().map(bury_until_ms).collect();
        Some(release(self, owner, &candidacy.lock, bury_until_ms, candidacy.lasts_ms()))
    }

    pub(super) async fn release_owner(
        self: &Arc<Self>,
        name: &Name,
        owner: Owner,
    ) -> Result<Reply, EngineError> {
        // It may be told to every node already: whoever asks again wants to know how that goes.
        let under_way = self.nodes.release_under_way(owner);
        let tally = self.give_up(owner).or(under_way).unwrap_or_else(|| {
            // It was acquired elsewhere, and a slow node may have that acquire yet to hear.
            let candidacy =
                Candidacy::new(name, self.nodes.count(), unknown_acquire(owner, self.nodes.client));
            let nodes = 0..self.nodes.count();
            let bury_until_ms = nodes.map(|node| self.nodes.arrives_by_ms(node)).collect();
            release(self, owner, name, bury_until_ms, candidacy.lasts_ms())
        });
        self.nodes.released(&tally).await
    }
}

fn bury_until_ms(node_call: &NodeCall) -> u64 {
    match node_call.request {
        Request::Release { bury_until_ms, .. } => bury_until_ms,
        _ => 0,
    }
}
