//! What a candidate wants sent, as requests to nodes whose clocks are known from their replies.

use taketurns_core::quorum::{NodeRequest, NodeRequestKind};
use taketurns_core::session::Anchor;
use taketurns_core::{AcquireRequest, Ask, Ballot, Label, Request};

use crate::quorum::checker::BrokenPromise;
use crate::quorum::world::{Attempt, Event, World, client_id};

/// Ahead of the clocks, so that nodes whose clocks are a little ahead agree all the same.
const SLACK_US: u64 = 1_000_000;

/// A request that is not answered yet.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Send { attempt: usize, client: usize, send: NodeRequest, sent_us: u64 },
    Refresh { client: usize, node: usize, sent_us: u64, asked: Vec<usize> },
}

impl Call {
    pub(crate) fn client(&self) -> usize {
        match self {
            Self::Send { client, .. } | Self::Refresh { client, .. } => *client,
        }
    }

    pub(crate) fn node(&self) -> usize {
        match self {
            Self::Send { send, .. } => send.node,
            Self::Refresh { node, .. } => *node,
        }
    }
}

impl World {
    pub(crate) fn send(&mut self, attempt: usize, send: NodeRequest) -> Result<(), BrokenPromise> {
        let Attempt { client, owner, lease_ms, .. } = self.attempts[attempt];
        let (now_us, node) = (self.local_us(client), send.node);
        let request = match send.kind {
            NodeRequestKind::Ask { ticket, yields, waits, .. } => {
                let within_ms = self.plan.arrives_within_ms;
                let anchor = self.clients[client].anchors[node];
                let not_after_ms =
                    anchor.map_or(0, |anchor| anchor.engine_ms_at(now_us) + within_ms);
                let latest_ms = &mut self.attempts[attempt].not_after_ms[node];
                *latest_ms = not_after_ms.max(*latest_ms);
                Request::Acquire(AcquireRequest {
                    owner,
                    client: client_id(client),
                    ask: Ask::Mutex,
                    at_least_ms: 0,
                    lease_ms,
                    waiter_lease_ms: waits.then_some(self.plan.waiter_lease_ms),
                    not_after_ms,
                    ballot: Some(Ballot { hint: self.hint(client, now_us), ticket, yields }),
                    label: Label::default(),
                })
            }
            NodeRequestKind::Renew { write_back, lease_ms, .. } => {
                let (client, write_back) = (client_id(client), Some(write_back));
                Request::Renew { owner, client, lease_ms, write_back }
            }
            NodeRequestKind::Release { bury } => {
                let latest_ms = self.attempts[attempt].not_after_ms[node];
                let bury_until_ms = if bury { latest_ms } else { 0 };
                Request::Release { owner, bury_until_ms, last_used: None }
            }
        };
        self.call(node, Call::Send { attempt, client, send, sent_us: now_us }, request)
    }

    /// What the clock of the node in the middle shows, as far as known, and some more.
    fn hint(&self, client: usize, now_us: u64) -> u64 {
        let anchors = self.clients[client].anchors.iter().flatten();
        let mut clocks: Vec<u64> = anchors.map(|anchor| anchor.engine_ms_at(now_us)).collect();
        clocks.sort_unstable();
        let middle = clocks.get(clocks.len() / 2);
        middle.map_or(0, |clock_ms| clock_ms * 1_000 + SLACK_US)
    }

    pub(crate) fn call(
        &mut self,
        node: usize,
        call: Call,
        request: Request,
    ) -> Result<(), BrokenPromise> {
        self.count_call()?;
        self.tell(|| format!("  {call:?}"));
        self.calls.push(Some(call));
        let call = self.calls.len() - 1;
        self.after(self.plan.timeout_us, Event::Timeout { call });
        self.travel(Event::Request { node, call, request }, self.plan.lost);
        Ok(())
    }

    pub(crate) fn observe(
        &mut self,
        client: usize,
        node: usize,
        sent_us: u64,
        engine_ms: u64,
    ) -> Anchor {
        let anchor = Anchor { sent_us, engine_ms };
        let newest = &mut self.clients[client].anchors[node];
        if newest.is_none_or(|newest| newest.sent_us <= sent_us) {
            *newest = Some(anchor);
        }
        anchor
    }
}
