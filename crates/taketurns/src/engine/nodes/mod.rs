//! What every engine needs that decides by a majority of nodes, each node an engine of its own: the list of
//! nodes, connections, calls to all, releases, merged views. `quorum` and `redlock` are built on it.
//!
//! ```text
//!   NodeList (who they are) ─► Trust (which lost state) ─► NodeConnections
//!   NodeListener: an engine over them ── calls, broadcasts, releases ──► NodeSet ── events, clocks ──► NodeListener
//! ```

mod connection;
mod engine;
mod exam;
mod membership;
mod node;
mod node_calls;
mod notice;
mod release;
mod tally;
mod trust;
mod url;
mod views;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use taketurns_core::quorum::majority;
use taketurns_core::{Ask, ClientId, Name, Owner};
use tokio::sync::mpsc;

use super::{EngineError, EngineEvent, Origin, Reply, Request, Stamp, Wakes};
use crate::clock::local_us;
use crate::error::{NoQuorum, NodeTrouble};
use crate::runtime::Runtime;
use crate::telling::target;
pub(crate) use connection::NodeConnections;
pub(crate) use engine::{MajorityEngine, MajorityProtocol};
pub(crate) use exam::examine;
pub(crate) use node::{NodeAnswer, QuorumNode, lock};
pub(crate) use node_calls::{LateCalls, NodeCalls};
pub(crate) use notice::{OwnerNotice, ReportedState};
pub(crate) use release::{release, tell};
pub(crate) use tally::ReplyTally;
pub(crate) use url::NodeList;

/// An acquire that arrives at a node later than this after its sending changes nothing.
pub(crate) const ARRIVES_WITHIN_MS: u64 = 10_000;

/// An engine over nodes, as the connections to the nodes see it.
pub(crate) trait NodeListener: Send + Sync + 'static {
    fn nodes(&self) -> &Arc<NodeSet>;

    /// The client's.
    fn wakes(&self) -> &Wakes;

    /// The clock of a node was set forward: what it granted may have ended before its time.
    fn handle_clock_set(self: &Arc<Self>, node: usize);

    /// A node pushed an event.
    fn handle_event(self: &Arc<Self>, node: usize, woken: EngineEvent);
}

/// All nodes, as one client sees them.
pub(crate) struct NodeSet {
    pub(crate) all: Vec<QuorumNode>,
    pub(crate) client: ClientId,
    pub(crate) runtime: Runtime,
    /// Calls whose outcome did not wait for their answers.
    late: LateCalls,
    /// Owners that are being released, and what the nodes say to it.
    releasing: Mutex<BTreeMap<Owner, Arc<ReplyTally>>>,
    /// Each release under way has a clone.
    busy: Mutex<Option<mpsc::Sender<()>>>,
}

impl NodeSet {
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn majority(&self) -> usize {
        majority(self.all.len())
    }

    /// Sends one request to all nodes, and waits for a majority of answers.
    pub(crate) async fn broadcast(
        self: &Arc<Self>,
        name: &Name,
        request: Request,
    ) -> Result<Vec<Reply>, EngineError> {
        let tally = ReplyTally::new(self.count());
        let call = |node: usize| {
            let (nodes, name, tally) = (self.clone(), name.clone(), tally.clone());
            let request = request.clone();
            async move {
                let answer = nodes.all[node].call(&name, request).await;
                tally.record(node, answer.map(|answer| answer.reply));
            }
        };
        let mut calls = NodeCalls::new(self, (0..self.count()).map(call));
        calls.until(self.most(&tally)).await
    }

    /// Breaks a lock on all nodes.
    pub(crate) async fn break_all(
        self: &Arc<Self>,
        name: &Name,
        request: Request,
    ) -> Result<Reply, EngineError> {
        let replies = self.broadcast(name, request).await?;
        let broken = |reply| match reply {
            Reply::Broken(count) => count,
            _ => 0,
        };
        Ok(Reply::Broken(replies.into_iter().map(broken).max().unwrap_or(0)))
    }

    /// What a majority answers.
    pub(crate) async fn most(&self, tally: &ReplyTally) -> Result<Vec<Reply>, EngineError> {
        let most = tally.most().await;
        most.map_err(|troubles| self.no_quorum(troubles))
    }

    /// Too few can be used, for these reasons.
    pub(crate) fn no_quorum(
        &self,
        troubles: impl IntoIterator<Item = (usize, String)>,
    ) -> EngineError {
        let trouble = |(node, why)| self.trouble(node, why, false);
        self.no_quorum_of(troubles.into_iter().map(trouble).collect())
    }

    fn no_quorum_of(&self, mut nodes: Vec<NodeTrouble>) -> EngineError {
        nodes.sort_by(|a, b| a.node.cmp(&b.node));
        EngineError::NoQuorum(NoQuorum { needed: self.majority(), of: self.count(), nodes })
    }

    fn trouble(&self, node: usize, why: String, loading: bool) -> NodeTrouble {
        NodeTrouble { node: self.all[node].address.clone(), why, loading }
    }
}

/// Does what any answer may call for, whatever it was about: a clock that was set, a step left undone.
pub(crate) fn handle_answer_effects<D: NodeListener>(
    driver: &Arc<D>,
    name: &Name,
    node: usize,
    answer: &NodeAnswer,
) {
    let nodes = driver.nodes();
    if answer.clock_set {
        let address = &nodes.all[node].address;
        tracing::warn!(
            target: target::QUORUM,
            %address,
            "the clock of a node was set forward: its votes no longer count"
        );
        driver.handle_clock_set(node);
    }
    if answer.more {
        let (nodes, name) = (nodes.clone(), name.clone());
        nodes.runtime.clone().spawn(async move {
            while let Ok(NodeAnswer { more: true, .. }) =
                nodes.all[node].call(&name, Request::Tick).await
            {}
        });
    }
}

/// The clock of an engine over nodes is the client's own, since no node's is everybody's.
pub(crate) fn stamp() -> Stamp {
    let now_us = local_us();
    Stamp { now_ms: now_us / 1_000, origin: Origin::default(), sent_us: Some(now_us) }
}

/// Only mutexes can be held by a majority.
pub(crate) fn refuse_other_kinds(ask: &Ask) -> Result<(), EngineError> {
    let why = match ask {
        Ask::Mutex => return Ok(()),
        Ask::Turns { .. } | Ask::Stay { .. } => {
            "a quorum's locks can't be kept for several turns: its nodes agree on one token at a time, \
             and can't reserve several. Leave out keep, or use one server"
        }
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
        Ask::Once(_) => return Err(refuse_once()),
    };
    Err(EngineError::Unsupported(why.to_owned()))
}

pub(crate) fn refuse_once() -> EngineError {
    let why = "a quorum has no once: that its nodes agree that work is done, whichever of them forget it, has not \
               been shown. Use one server, or a file";
    EngineError::Unsupported(why.to_owned())
}

/// A node would keep a vote that its candidate gave up.
pub(crate) fn refuse_to_rest(at_least_ms: u64) -> Result<(), EngineError> {
    let why = "a quorum's locks can't stay taken after their release: leave out at_least, or use one server";
    if at_least_ms > 0 { Err(EngineError::Unsupported(why.to_owned())) } else { Ok(()) }
}
