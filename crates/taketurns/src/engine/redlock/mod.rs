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

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use taketurns_core::{AcquireRequest, ClientId, Name, Owner};

use super::nodes::{Decides, Driver, Majority, Members, Nodes, lock};
use super::{
    Engine, EngineError, EngineFuture, Guarantees, Open, Reply, Survives, Wake, WakeEvent, Wakes,
    Woken,
};
use crate::runtime::Runtime;
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
            // What a round decides is told under its mutex, and whom it wakes may come back: so a task
            // passes it on.
            let (told, mut news) = wakes.aside();
            Runtime::current().spawn(async move {
                while let Some(woken) = news.recv().await {
                    wakes.push(woken);
                }
            });
            let drive = |nodes| Redlock { nodes, state: Mutex::default(), wakes: told, unfenced };
            Majority::open(members, client, drive).await
        })
    }

    fn again(&self) -> Option<Box<dyn Open>> {
        Some(Box::new(Self::new(self.members.clone(), self.unfenced)))
    }
}

/// What all tasks of one client share.
struct Redlock {
    nodes: Arc<Nodes>,
    state: Mutex<State>,
    wakes: Wakes,
    /// It is known that there are no tokens.
    unfenced: bool,
}

/// Those who contend or hold, and in which order those wait who wait.
#[derive(Default)]
struct State {
    runs: BTreeMap<Owner, Run>,
    lines: Lines,
}

impl Driver for Redlock {
    fn nodes(&self) -> &Arc<Nodes> {
        &self.nodes
    }

    fn wakes(&self) -> &Wakes {
        &self.wakes
    }

    fn handle_clock_set(self: &Arc<Self>, node: usize) {
        let owners: Vec<Owner> = lock(&self.state).runs.keys().copied().collect();
        for owner in owners {
            self.with(owner, |run| run.contender.handle_clock_set(node));
        }
    }

    fn handle_woken(self: &Arc<Self>, node: usize, woken: Woken) {
        // Nobody waits on a node, so that nothing else is news.
        if let Woken::Wake { wake: Wake { owner, event: WakeEvent::Revoked { .. }, .. }, .. } =
            woken
        {
            self.with(owner, |run| run.contender.handle_revoked(node));
        }
    }
}

impl Decides for Redlock {
    const GUARANTEES: Guarantees = Guarantees {
        fair: false,
        fenced: false,
        event_driven: false,
        survives: Survives::MinorityOfServers,
    };

    async fn acquire(
        self: &Arc<Self>,
        name: &Name,
        acquire: AcquireRequest,
    ) -> Result<Reply, EngineError> {
        if !self.unfenced {
            return Err(EngineError::Unfenced);
        }
        self.acquire(name, acquire).await
    }

    async fn renew(
        self: &Arc<Self>,
        name: &Name,
        owner: Owner,
        lease_ms: u64,
    ) -> Result<Reply, EngineError> {
        self.renew(name, owner, lease_ms).await
    }

    async fn release(self: &Arc<Self>, name: &Name, owner: Owner) -> Result<Reply, EngineError> {
        self.let_go(name, owner).await
    }

    fn refresh(self: &Arc<Self>, name: &Name, _waiter_lease_ms: u64) -> Reply {
        self.refresh(name)
    }
}
