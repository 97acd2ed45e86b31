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
mod look;
mod members;
mod node;
mod open;
mod release;
mod run;
mod tally;
#[cfg(test)]
mod tests;
mod trust;
mod url;

use std::sync::Arc;
use std::time::Duration;

use taketurns_core::{Ask, Name, Owner, Pattern, View};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::{
    Answer, Engine, EngineError, EngineFuture, Guarantees, Origin, Reply, Request, Stamp, Survives,
    Woken,
};
use crate::clock::local_us;
use driver::Quorum;
use node::{Node, lock};
pub(crate) use open::OpenQuorum;

/// For how long the end of a client waits until all nodes that can be reached have heard what it gave up.
const CLOSE_WITHIN: Duration = Duration::from_millis(300);

fn refuse_other_kinds(ask: &Ask) -> Result<(), EngineError> {
    let why = match ask {
        Ask::Mutex => return Ok(()),
        Ask::Read | Ask::Write => {
            "a quorum has no read-write locks: that readers and writers agree over a majority of \
             nodes has not been shown. Use a mutex, or one server"
        }
        Ask::Permits { .. } => {
            "a quorum has no semaphores: two majorities may give out more permits than there are. \
             Use a mutex, or one server"
        }
        Ask::Any | Ask::Member(_) => {
            "a quorum has no pools: two majorities may give out the same member. Use a mutex for \
             each member, or one server"
        }
    };
    Err(EngineError::Unsupported(why.to_owned()))
}

/// A quorum, as one client sees it.
struct QuorumEngine {
    quorum: Arc<Quorum>,
    max_lease: Duration,
    /// Connects nodes, and passes on what they push.
    tasks: Vec<AbortHandle>,
    /// Ends when every release is heard.
    idle: tokio::sync::Mutex<mpsc::Receiver<()>>,
}

impl Drop for QuorumEngine {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

fn stamp() -> Stamp {
    let now_us = local_us();
    Stamp { now_ms: now_us / 1_000, origin: Origin::default(), sent_us: Some(now_us) }
}

impl QuorumEngine {
    async fn carry_out(&self, name: &Name, request: Request) -> Result<Reply, EngineError> {
        let quorum = &self.quorum;
        match request {
            Request::Acquire(acquire) => quorum.acquire(name, acquire).await,
            Request::Release { owner, bury_until_ms } => {
                quorum.let_go(name, owner, bury_until_ms > 0).await
            }
            Request::Renew { owner, lease_ms, .. } => {
                // Whoever has a handle may ask from anywhere, also when the runtime that would answer
                // has ended.
                let (quorum, name) = (quorum.clone(), name.clone());
                let renew = async move { quorum.renew(&name, owner, lease_ms).await };
                let renewed = self.quorum.runtime.spawn(renew).await;
                renewed.unwrap_or_else(|_| Err(EngineError::Unknown("it has ended".into())))
            }
            Request::Refresh { waiter_lease_ms, .. } => Ok(quorum.refresh(name, waiter_lease_ms)),
            Request::Break { .. } => {
                let replies = quorum.broadcast(name, request).await?;
                let broken = |reply| match reply {
                    Reply::Broken(count) => count,
                    _ => 0,
                };
                Ok(Reply::Broken(replies.into_iter().map(broken).max().unwrap_or(0)))
            }
            Request::ClientGone { .. } | Request::Tick => {
                quorum.broadcast(name, request).await.map(|_| Reply::Done)
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
        let mut watched = lock(&self.quorum.watched);
        watched.entry(owner).or_insert_with(|| (name.clone(), 0)).1 += 1;
        for engine in self.quorum.nodes.iter().filter_map(Node::engine) {
            engine.watch(name, owner);
        }
    }

    fn unwatch(&self, owner: Owner) {
        let mut watched = lock(&self.quorum.watched);
        if let Some((_, count)) = watched.get_mut(&owner) {
            *count -= 1;
            if *count == 0 {
                watched.remove(&owner);
            }
        }
        for engine in self.quorum.nodes.iter().filter_map(Node::engine) {
            engine.unwatch(owner);
        }
    }

    fn ping(&self) -> EngineFuture<'_, Result<Stamp, EngineError>> {
        Box::pin(async move {
            let pinged = self.ask_all(|engine| engine.ping()).await?;
            debug_assert!(pinged.len() >= self.quorum.majority());
            Ok(stamp())
        })
    }

    fn view<'a>(
        &'a self,
        lock: &'a Name,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Option<View>, EngineError>> {
        Box::pin(self.look_at(lock, waiters_max))
    }

    fn list<'a>(
        &'a self,
        pattern: &'a Pattern,
        after: Option<&'a Name>,
        max: usize,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Vec<(Name, View)>, EngineError>> {
        Box::pin(self.look_at_all(pattern, after, max, waiters_max))
    }

    fn max_lease(&self) -> Duration {
        self.max_lease
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees::full(Survives::MinorityOfServers)
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            *lock(&self.quorum.busy) = None;
            let _ = timeout(CLOSE_WITHIN, self.idle.lock().await.recv()).await;
            self.tasks.iter().for_each(AbortHandle::abort);
            for engine in self.quorum.nodes.iter().filter_map(Node::engine) {
                engine.close().await;
            }
        })
    }
}
