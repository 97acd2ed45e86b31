//! Redlock as specified: a lock held on a majority of nodes that speak `SET NX PX`, so that clients of other
//! libraries are shut out too. No queue, no tokens: whoever fails releases everywhere, and tries again
//! after a random pause.
//!
//! ```text
//!   acquire ─► Run: a Contender (pure) ── a round of acquires ──► node 0 … node N-1, all at once
//!      ▲         │ failed: release everywhere, and join the Line of this client
//!      └─────────┴──── refresh: the foremost of the line tries again ◄── the client, at random times
//! ```
//!
//! What is decided is decided by [`taketurns_core::redlock::Contender`]. The clock of the engine is the
//! client's own, as that of a [quorum](super::quorum).

mod calls;
mod line;
mod rounds;
mod run;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use taketurns_core::{Ask, ClientId, Name, Owner, Pattern, View};

use super::nodes::{Driver, Links, Members, Nodes, lock, refuse_other_kinds, stamp};
use super::{
    Answer, Engine, EngineError, EngineFuture, Guarantees, Open, Reply, Request, Stamp, Survives,
    Wake, WakeEvent, Wakes, Woken,
};
use line::Lines;
use run::Run;

/// A store URL that was understood.
#[derive(Debug)]
pub(crate) struct OpenRedlock {
    members: Members,
    /// It is known that there are no tokens.
    unfenced: bool,
}

impl OpenRedlock {
    pub(crate) fn new(members: Members, unfenced: bool) -> Self {
        Self { members, unfenced }
    }
}

impl Open for OpenRedlock {
    fn open(
        self: Box<Self>,
        client: ClientId,
        wakes: Wakes,
    ) -> EngineFuture<'static, Result<Box<dyn Engine>, EngineError>> {
        Box::pin(async move {
            let Self { members, unfenced } = *self;
            let drive = |nodes| Redlock { nodes, state: Mutex::default(), wakes };
            let (redlock, links) = Links::open(members, client, drive).await?;
            Ok(Box::new(RedlockEngine { redlock, links, unfenced }) as Box<dyn Engine>)
        })
    }
}

/// What all tasks of one client share.
struct Redlock {
    nodes: Arc<Nodes>,
    state: Mutex<State>,
    wakes: Wakes,
}

/// Those who contend or hold, and in which order those wait who wait.
#[derive(Default)]
struct State {
    runs: HashMap<Owner, Run>,
    lines: Lines,
}

impl Driver for Redlock {
    fn nodes(&self) -> &Arc<Nodes> {
        &self.nodes
    }

    fn handle_clock_set(self: &Arc<Self>, node: usize) {
        let owners: Vec<Owner> = lock(&self.state).runs.keys().copied().collect();
        for owner in owners {
            self.with(owner, |run| run.contender.handle_clock_set(node));
        }
    }

    fn handle_woken(self: &Arc<Self>, node: usize, woken: Woken) {
        // Nobody waits on a node, so that nothing else is news.
        if let Woken::Wake { wake: Wake { owner, event: WakeEvent::Revoked, .. }, .. } = woken {
            self.with(owner, |run| run.contender.handle_revoked(node));
        }
    }
}

/// A Redlock, as one client sees it.
struct RedlockEngine {
    redlock: Arc<Redlock>,
    links: Links,
    /// It is known that there are no tokens.
    unfenced: bool,
}

impl RedlockEngine {
    async fn carry_out(&self, name: &Name, request: Request) -> Result<Reply, EngineError> {
        let redlock = &self.redlock;
        match request {
            Request::Acquire(acquire) => {
                refuse_other_kinds(&acquire.ask)?;
                if !self.unfenced {
                    return Err(EngineError::Unfenced);
                }
                redlock.acquire(name, acquire).await
            }
            Request::Release { owner, .. } => redlock.let_go(name, owner).await,
            Request::Renew { owner, lease_ms, .. } => {
                // Whoever has a handle may ask from anywhere, also when the runtime that would answer
                // has ended.
                let (redlock, name) = (redlock.clone(), name.clone());
                let renew = async move { redlock.renew(&name, owner, lease_ms).await };
                let renewed = self.redlock.nodes.runtime.spawn(renew).await;
                renewed.unwrap_or_else(|_| Err(EngineError::Unknown("it has ended".into())))
            }
            Request::Refresh { .. } => Ok(redlock.refresh(name)),
            Request::Break { .. } => redlock.nodes.break_all(name, request).await,
            Request::ClientGone { .. } | Request::Tick => {
                redlock.nodes.broadcast(name, request).await.map(|_| Reply::Done)
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

impl Engine for RedlockEngine {
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
        self.redlock.nodes.watch(name, owner);
    }

    fn unwatch(&self, owner: Owner) {
        self.redlock.nodes.unwatch(owner);
    }

    fn ping(&self) -> EngineFuture<'_, Result<Stamp, EngineError>> {
        Box::pin(self.redlock.nodes.ping())
    }

    fn view<'a>(
        &'a self,
        lock: &'a Name,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Option<View>, EngineError>> {
        Box::pin(self.redlock.nodes.look_at(lock, waiters_max))
    }

    fn list<'a>(
        &'a self,
        pattern: &'a Pattern,
        after: Option<&'a Name>,
        max: usize,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Vec<(Name, View)>, EngineError>> {
        Box::pin(self.redlock.nodes.look_at_all(pattern, after, max, waiters_max))
    }

    fn max_lease(&self) -> Duration {
        self.links.max_lease
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            fair: false,
            fenced: false,
            event_driven: false,
            survives: Survives::MinorityOfServers,
        }
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        Box::pin(self.links.close())
    }
}
