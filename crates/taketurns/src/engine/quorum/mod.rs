//! A lock held on a majority of nodes, each an engine of its own: so that a minority may be dead, slow,
//! cut off or restarted.
//!
//! ```text
//!   call ──► Candidacy: a Candidate (pure) ── requests ──► node 0 … node N-1, all at once
//!   reply ◄── verdict ◄───────────────────── inputs ◄──── replies, wake-ups, failures
//! ```
//!
//! This is a thin driver: what is decided is decided by [`taketurns_core::quorum::Candidate`]. The
//! clock of the engine is the client's own, since no node's is everybody's: a deadline is what a
//! majority of nodes have granted, counted on this client's clock from when it asked.

mod calls;
mod candidacy;
mod driver;
#[cfg(test)]
mod tests;

use std::sync::Mutex;

use taketurns_core::ClientId;

use super::nodes::{MajorityEngine, NodeList};
use super::{Engine, EngineError, EngineFuture, Open, Wakes};
use driver::Quorum;

/// A store URL that was understood.
#[derive(Debug)]
pub(crate) struct OpenQuorum {
    members: NodeList,
}

impl OpenQuorum {
    pub(crate) fn new(members: NodeList) -> Self {
        Self { members }
    }
}

impl Open for OpenQuorum {
    fn open(
        self: Box<Self>,
        client: ClientId,
        wakes: Wakes,
    ) -> EngineFuture<'static, Result<Box<dyn Engine>, EngineError>> {
        Box::pin(async move {
            let drive = |nodes| Quorum { nodes, candidacies: Mutex::default(), wakes };
            MajorityEngine::open(self.members, client, drive).await
        })
    }

    fn again(&self) -> Option<Box<dyn Open>> {
        Some(Box::new(Self::new(self.members.clone())))
    }
}
