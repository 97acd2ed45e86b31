//! Redlock as specified: a lock held on a majority of nodes with `SET NX PX`, so that it also excludes clients of other
//! libraries. It has no queue and no tokens: a client that fails releases everywhere and retries after a random pause.
//!
//! ```text
//!   acquire ─► Contention: a Contender (pure) ── a round of acquires ──► node 0 … node N-1, all at once
//!      ▲         │ failed: release everywhere, and join this client's RetryQueue
//!      └─────────┴──── refresh: the first of the queue tries again ◄── the client, at random times
//! ```
//!
//! What is decided is decided by [`taketurns_core::redlock::Contender`]. The clock of the engine is the
//! client's own, as that of a [quorum](super::quorum).

mod calls;
mod contention;
mod retry_queue;
mod rounds;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use taketurns_core::{ClientId, Owner};

use super::nodes::{MajorityEngine, NodeList, NodeListener, NodeSet, lock};
use super::{Engine, EngineError, EngineEvent, EngineFuture, Open, Wake, WakeEvent, Wakes};
use crate::runtime::Runtime;
use contention::Contention;
use retry_queue::RetryQueues;

/// A store URL that was understood.
#[derive(Debug)]
pub(crate) struct OpenRedlock {
    members: NodeList,
    /// It is known that there are no tokens.
    unfenced: bool,
}

impl OpenRedlock {
    pub(crate) fn new(members: NodeList, unfenced: bool) -> Self {
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
            // A round pushes events under its mutex, and a task that is woken may call the engine again: so
            // a task of its own passes the events on.
            let (inner, mut events) = wakes.intercept();
            Runtime::current().spawn(async move {
                while let Some(event) = events.recv().await {
                    wakes.push(event);
                }
            });
            let drive = |nodes| Redlock { nodes, state: Mutex::default(), wakes: inner, unfenced };
            MajorityEngine::open(members, client, drive).await
        })
    }

    fn again(&self) -> Option<Box<dyn Open>> {
        Some(Box::new(Self::new(self.members.clone(), self.unfenced)))
    }
}

/// What all tasks of one client share.
struct Redlock {
    nodes: Arc<NodeSet>,
    state: Mutex<State>,
    wakes: Wakes,
    /// It is known that there are no tokens.
    unfenced: bool,
}

/// Owners that contend or hold, and the order in which those of this client wait.
#[derive(Default)]
struct State {
    contentions: BTreeMap<Owner, Contention>,
    queues: RetryQueues,
}

impl NodeListener for Redlock {
    fn nodes(&self) -> &Arc<NodeSet> {
        &self.nodes
    }

    fn wakes(&self) -> &Wakes {
        &self.wakes
    }

    fn handle_clock_set(self: &Arc<Self>, node: usize) {
        let owners: Vec<Owner> = lock(&self.state).contentions.keys().copied().collect();
        for owner in owners {
            self.update(owner, |contention| contention.contender.handle_clock_set(node));
        }
    }

    fn handle_event(self: &Arc<Self>, node: usize, woken: EngineEvent) {
        // No node has a queue, so other events do not concern it.
        if let EngineEvent::Wake {
            wake: Wake { owner, event: WakeEvent::Revoked { .. }, .. },
            ..
        } = woken
        {
            self.update(owner, |contention| contention.contender.handle_revoked(node));
        }
    }
}
