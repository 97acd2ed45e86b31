//! Sends what candidates want sent, and lets them hear what comes back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use taketurns_core::quorum::NodeRequest;
use taketurns_core::{Name, Owner};

use super::super::nodes::{Driver, Heard, Nodes, lock, look_after};
use super::super::{EngineError, Origin, Reply, Request, Wake, WakeEvent, Wakes, Woken};
use super::run::{Errand, News, Run};
use crate::clock::local_us;

/// How far a hint is ahead of the nodes' clocks, so that it is theirs still when it arrives: then all
/// nodes mint the same token, and one round is enough.
const HINT_AHEAD_US: u64 = 1_000_000;

/// What all tasks of one client share.
pub(super) struct Quorum {
    pub(super) nodes: Arc<Nodes>,
    pub(super) runs: Mutex<BTreeMap<Owner, Run>>,
    pub(super) wakes: Wakes,
}

impl Driver for Quorum {
    fn nodes(&self) -> &Arc<Nodes> {
        &self.nodes
    }

    fn wakes(&self) -> &Wakes {
        &self.wakes
    }

    fn handle_clock_set(self: &Arc<Self>, node: usize) {
        let owners: Vec<Owner> = lock(&self.runs).keys().copied().collect();
        for owner in owners {
            self.with(owner, |run| {
                run.candidate.handle_clock_set(local_us(), node);
                Vec::new()
            });
        }
    }

    fn handle_woken(self: &Arc<Self>, node: usize, woken: Woken) {
        match woken {
            Woken::Wake { wake, .. } => {
                let Wake { owner, event, .. } = wake;
                self.with(owner, |run| run.candidate.handle_wake(local_us(), node, &event));
            }
            // Nodes are no quorums.
            Woken::Gone { .. } => {}
            Woken::Recheck | Woken::Stirred { .. } => {
                let mut names: Vec<(Name, u64)> = lock(&self.runs)
                    .values()
                    .filter_map(|run| Some((run.lock.clone(), run.waiter_lease_ms()?)))
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
    /// At least this is to be the next token: the nodes' median clock, and a little more.
    pub(super) fn hint(&self) -> u64 {
        let now_us = local_us();
        let mut clocks: Vec<u64> =
            self.nodes.all.iter().filter_map(|node| node.clock_ms(now_us)).collect();
        clocks.sort_unstable();
        let median = clocks.get(clocks.len() / 2);
        median.map_or(0, |ms| ms.saturating_mul(1_000).saturating_add(HINT_AHEAD_US))
    }

    pub(super) fn errands(&self, run: &mut Run, sends: Vec<NodeRequest>) -> Vec<Errand> {
        if sends.is_empty() {
            return Vec::new();
        }
        let now_us = local_us();
        run.errands(sends, self.hint(), |node| self.nodes.all[node].clock_ms(now_us))
    }

    /// Sends, each in a task of its own, and hears what comes back.
    pub(super) fn dispatch(self: &Arc<Self>, owner: Owner, name: &Name, errands: Vec<Errand>) {
        for Errand { send, request } in errands {
            let (quorum, name) = (self.clone(), name.clone());
            self.nodes.runtime.spawn(async move {
                let heard = quorum.nodes.all[send.node].call(&name, request).await;
                quorum.hear(owner, &name, send, heard);
            });
        }
    }

    pub(super) fn hear(
        self: &Arc<Self>,
        owner: Owner,
        name: &Name,
        send: NodeRequest,
        heard: Result<Heard, EngineError>,
    ) {
        if let Ok(heard) = &heard {
            look_after(self, name, send.node, heard);
        }
        let heard = heard.map(|heard| (heard.reply, heard.anchor)).map_err(|why| why.to_string());
        self.with(owner, |run| run.candidate.handle_reply(local_us(), send, heard));
    }

    /// Lets a run go on, sends what it wants sent, and tells the client what is news.
    pub(super) fn with(
        self: &Arc<Self>,
        owner: Owner,
        go_on: impl FnOnce(&mut Run) -> Vec<NodeRequest>,
    ) {
        let mut runs = lock(&self.runs);
        let Some(run) = runs.get_mut(&owner) else { return };
        let sends = go_on(run);
        let errands = self.errands(run, sends);
        let (name, news) = (run.lock.clone(), run.news(local_us()));
        drop(runs);
        self.dispatch(owner, &name, errands);
        let event = match news {
            Some(News::Granted(grant)) => WakeEvent::Granted(grant),
            Some(News::Revoked(token)) => WakeEvent::Revoked { token: Some(token) },
            Some(News::Lost) => return self.wakes.push(Woken::Gone { owner }),
            None => return,
        };
        let wake = Wake { client: self.nodes.client, owner, event };
        self.wakes.push(Woken::Wake { lock: name, wake, origin: Origin::default() });
    }

    pub(super) fn owners_of(&self, name: &Name, wanted: impl Fn(&Run) -> bool) -> Vec<Owner> {
        let runs = lock(&self.runs);
        let ours = runs.iter().filter(|(_, run)| run.lock == *name && wanted(run));
        ours.map(|(owner, _)| *owner).collect()
    }

    /// Keeps this client's places on a node alive, and hears what became of them.
    pub(super) fn refresh_node(self: &Arc<Self>, node: usize, name: &Name, waiter_lease_ms: u64) {
        let expected = self.owners_of(name, |run| run.candidate.waits_on(node));
        let (quorum, name) = (self.clone(), name.clone());
        self.nodes.runtime.spawn(async move {
            let request = Request::Refresh { client: quorum.nodes.client, waiter_lease_ms };
            let Ok(heard) = quorum.nodes.all[node].call(&name, request).await else { return };
            look_after(&quorum, &name, node, &heard);
            let Reply::Refreshed { waiting, granted, .. } = &heard.reply else { return };
            for (owner, grant) in granted {
                let anchor = heard.anchor;
                quorum.with(*owner, |run| {
                    run.candidate.handle_refreshed_grant(local_us(), node, grant, anchor)
                });
            }
            let is_granted = |owner: &&Owner| granted.iter().any(|(granted, _)| granted == *owner);
            let missing: Vec<Owner> =
                expected.iter().filter(|owner| !is_granted(owner)).copied().collect();
            if missing.len() > *waiting as usize {
                for owner in missing {
                    quorum.with(owner, |run| run.candidate.handle_missing(node));
                }
            }
        });
    }
}
