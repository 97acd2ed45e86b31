//! Sends the requests of candidates, and hands them the answers and wake-ups of nodes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use taketurns_core::quorum::NodeRequest;
use taketurns_core::{Name, Owner};

use super::super::nodes::{
    NodeAnswer, NodeCalls, NodeListener, NodeSet, handle_answer_effects, lock,
};
use super::super::{EngineError, EngineEvent, Reply, Request, Wake, Wakes};
use super::candidacy::{Candidacy, NodeCall};
use crate::clock::local_us;

/// How far a hint is ahead of the nodes' clocks, so that it is theirs still when it arrives: then all
/// nodes mint the same token, and one round is enough.
const HINT_AHEAD_US: u64 = 1_000_000;

/// What all tasks of one client share.
pub(super) struct Quorum {
    pub(super) nodes: Arc<NodeSet>,
    pub(super) candidacies: Mutex<BTreeMap<Owner, Candidacy>>,
    pub(super) wakes: Wakes,
}

impl NodeListener for Quorum {
    fn nodes(&self) -> &Arc<NodeSet> {
        &self.nodes
    }

    fn wakes(&self) -> &Wakes {
        &self.wakes
    }

    fn handle_clock_set(self: &Arc<Self>, node: usize) {
        let owners: Vec<Owner> = lock(&self.candidacies).keys().copied().collect();
        for owner in owners {
            self.update(owner, |candidacy| {
                candidacy.candidate.handle_clock_set(local_us(), node);
                Vec::new()
            });
        }
    }

    fn handle_event(self: &Arc<Self>, node: usize, woken: EngineEvent) {
        match woken {
            EngineEvent::Wake { wake, .. } => {
                let Wake { owner, event, .. } = wake;
                self.update(owner, |candidacy| {
                    candidacy.candidate.handle_wake(local_us(), node, &event)
                });
            }
            // Nodes are no quorums.
            EngineEvent::Lost { .. } => {}
            EngineEvent::Recheck | EngineEvent::LockChanged { .. } => {
                let mut names: Vec<(Name, u64)> = lock(&self.candidacies)
                    .values()
                    .filter_map(|candidacy| {
                        Some((candidacy.lock.clone(), candidacy.waiter_lease_ms()?))
                    })
                    .collect();
                names.sort();
                names.dedup_by(|a, b| a.0 == b.0);
                for (name, waiter_lease_ms) in names {
                    self.refresh_node(node, &name, waiter_lease_ms);
                }
            }
        }
    }
}

impl Quorum {
    /// Returns the lower bound for the next token: the nodes' median clock, and a little more.
    pub(super) fn hint(&self) -> u64 {
        let now_us = local_us();
        let mut clocks: Vec<u64> =
            self.nodes.all.iter().filter_map(|node| node.clock_ms(now_us)).collect();
        clocks.sort_unstable();
        let median = clocks.get(clocks.len() / 2);
        median.map_or(0, |ms| ms.saturating_mul(1_000).saturating_add(HINT_AHEAD_US))
    }

    pub(super) fn node_calls(
        &self,
        candidacy: &mut Candidacy,
        sends: Vec<NodeRequest>,
    ) -> Vec<NodeCall> {
        if sends.is_empty() {
            return Vec::new();
        }
        let now_us = local_us();
        candidacy.node_calls(sends, self.hint(), |node| self.nodes.all[node].clock_ms(now_us))
    }

    /// Begins calls that handle their answers.
    pub(super) fn begin(
        self: &Arc<Self>,
        owner: Owner,
        name: &Name,
        node_calls: Vec<NodeCall>,
    ) -> NodeCalls {
        let call = |NodeCall { send, request }| {
            let (quorum, name) = (self.clone(), name.clone());
            async move {
                let answer = quorum.nodes.all[send.node].call(&name, request).await;
                quorum.handle_answer(owner, &name, send, answer);
            }
        };
        NodeCalls::new(&self.nodes, node_calls.into_iter().map(call))
    }

    pub(super) fn handle_answer(
        self: &Arc<Self>,
        owner: Owner,
        name: &Name,
        send: NodeRequest,
        answer: Result<NodeAnswer, EngineError>,
    ) {
        if let Ok(answer) = &answer {
            handle_answer_effects(self, name, send.node, answer);
        }
        let answer = answer.and_then(NodeAnswer::timed).map_err(|why| why.to_string());
        self.update(owner, |candidacy| candidacy.candidate.handle_reply(local_us(), send, answer));
    }

    /// Updates a candidacy, sends what it wants sent, and notifies the client of changes.
    pub(super) fn update(
        self: &Arc<Self>,
        owner: Owner,
        advance: impl FnOnce(&mut Candidacy) -> Vec<NodeRequest>,
    ) {
        let mut candidacies = lock(&self.candidacies);
        let Some(candidacy) = candidacies.get_mut(&owner) else { return };
        let sends = advance(candidacy);
        let node_calls = self.node_calls(candidacy, sends);
        let (name, notice) = (candidacy.lock.clone(), candidacy.next_notice(local_us()));
        drop(candidacies);
        drop(self.begin(owner, &name, node_calls));
        if let Some(notice) = notice {
            self.wakes.push(notice.into_event(name, self.nodes.client, owner));
        }
    }

    pub(super) fn owners_of(&self, name: &Name, wanted: impl Fn(&Candidacy) -> bool) -> Vec<Owner> {
        let candidacies = lock(&self.candidacies);
        let ours = candidacies
            .iter()
            .filter(|(_, candidacy)| candidacy.lock == *name && wanted(candidacy));
        ours.map(|(owner, _)| *owner).collect()
    }

    /// Keeps this client's places on a node alive, and handles what became of them.
    pub(super) fn refresh_node(self: &Arc<Self>, node: usize, name: &Name, waiter_lease_ms: u64) {
        let expected = self.owners_of(name, |candidacy| candidacy.candidate.waits_on(node));
        let (quorum, name) = (self.clone(), name.clone());
        self.nodes.runtime.spawn(async move {
            let request = Request::Refresh { client: quorum.nodes.client, waiter_lease_ms };
            let Ok(answer) = quorum.nodes.all[node].call(&name, request).await else { return };
            handle_answer_effects(&quorum, &name, node, &answer);
            let Ok((Reply::Refreshed { waiting, granted, .. }, anchor)) = answer.timed() else {
                return;
            };
            for (owner, grant) in &granted {
                quorum.update(*owner, |candidacy| {
                    candidacy.candidate.handle_refreshed_grant(local_us(), node, grant, anchor)
                });
            }
            let is_granted = |owner: &&Owner| granted.iter().any(|(granted, _)| granted == *owner);
            let missing: Vec<Owner> =
                expected.iter().filter(|owner| !is_granted(owner)).copied().collect();
            if missing.len() > waiting as usize {
                for owner in missing {
                    quorum.update(owner, |candidacy| candidacy.candidate.handle_missing(node));
                }
            }
        });
    }
}
