//! A lock held on a majority of nodes, each an engine of its own: so that a minority may be dead, slow,
//! cut off or restarted.
//!
//! ```text
//!   call ──► Run: a Candidate (pure) ── sends ──► node 0 … node N-1, all at once
//!   reply ◄── verdict ◄───────────────── hears ◄── replies, wake-ups, failures
//! ```
//!
//! This is a thin driver: what is decided is decided by [`taketurns_core::quorum::Candidate`]. The
//! clock of the engine is the client's own, since no node's is everybody's: a deadline is what a
//! majority of nodes have granted, counted on this client's clock from when it asked.

mod calls;
mod driver;
mod release;
mod run;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use taketurns_core::{Ask, ClientId, Name, Owner, Pattern, View};

use super::nodes::{Links, Members, refuse_other_kinds, stamp};
use super::{
    Answer, Engine, EngineError, EngineFuture, Guarantees, Open, Reply, Request, Stamp, Survives,
    Wakes,
};
use driver::Quorum;

/// A store URL that was understood.
#[derive(Debug)]
pub(crate) struct OpenQuorum {
    members: Members,
}

impl OpenQuorum {
    pub(crate) fn new(members: Members) -> Self {
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
            let drive = |nodes| Quorum { nodes, runs: Mutex::default(), wakes };
            let (quorum, links) = Links::open(self.members, client, drive).await?;
            Ok(Box::new(QuorumEngine { quorum, links }) as Box<dyn Engine>)
        })
    }
}

/// A quorum, as one client sees it.
struct QuorumEngine {
    quorum: Arc<Quorum>,
    links: Links,
}

impl QuorumEngine {
    async fn carry_out(&self, name: &Name, request: Request) -> Result<Reply, EngineError> {
        let quorum = &self.quorum;
        match request {
            Request::Acquire(acquire) => quorum.acquire(name, acquire).await,
            Request::Release { owner, .. } => quorum.let_go(name, owner).await,
            Request::Renew { owner, lease_ms, .. } => {
                // Whoever has a handle may ask from anywhere, also when the runtime that would answer
                // has ended.
                let (quorum, name) = (quorum.clone(), name.clone());
                let renew = async move { quorum.renew(&name, owner, lease_ms).await };
                let renewed = self.quorum.nodes.runtime.spawn(renew).await;
                renewed.unwrap_or_else(|_| Err(EngineError::Unknown("it has ended".into())))
            }
            Request::Refresh { waiter_lease_ms, .. } => Ok(quorum.refresh(name, waiter_lease_ms)),
            Request::Break { .. } => quorum.nodes.break_all(name, request).await,
            Request::ClientGone { .. } | Request::Tick => {
                quorum.nodes.broadcast(name, request).await.map(|_| Reply::Done)
            }
            Request::Resize { permits } => {
                refuse_other_kinds(&Ask::Permits { take: 1, of: permits }).map(|()| Reply::Done)
            }
            Request::PoolAdd { .. } | Request::PoolRemove { .. } => {
                refuse_other_kinds(&Ask::Any).map(|()| Reply::Done)
            }
        }
    }
}

impl Engine for QuorumEngine {
    fn call<'a>(
        &'a self,
        lock: &'a Name,
        request: Request,
    ) -> EngineFuture<'a, Result<Answer, EngineError>> {
        Box::pin(async move {
            let reply = self.carry_out(lock, request).await?;
            Ok(Answer { reply, stamp: stamp(), more: false })
        })
    }

    fn watch(&self, name: &Name, owner: Owner) {
        self.quorum.nodes.watch(name, owner);
    }

    fn unwatch(&self, owner: Owner) {
        self.quorum.nodes.unwatch(owner);
    }

    fn ping(&self) -> EngineFuture<'_, Result<Stamp, EngineError>> {
        Box::pin(self.quorum.nodes.ping())
    }

    fn view<'a>(
        &'a self,
        lock: &'a Name,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Option<View>, EngineError>> {
        Box::pin(self.quorum.nodes.look_at(lock, waiters_max))
    }

    fn list<'a>(
        &'a self,
        pattern: &'a Pattern,
        after: Option<&'a Name>,
        max: usize,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Vec<(Name, View)>, EngineError>> {
        Box::pin(self.quorum.nodes.look_at_all(pattern, after, max, waiters_max))
    }

    fn max_lease(&self) -> Duration {
        self.links.max_lease
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees::full(Survives::MinorityOfServers)
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        Box::pin(self.links.close())
    }
}
