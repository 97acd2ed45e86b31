//! A lock held on a majority of nodes: what a candidate for it decides, as a pure function of its
//! inputs and of time.
//!
//! ```text
//!   start ─► Ask everyone ─┬─ a majority votes, all with one token ────────────────► held
//!                          ├─ a majority answers ─► ticket ─► wait ─ votes ─► confirm ─► held
//!                          └─ no majority can be had ─► busy, refused, no quorum
//! ```
//!
//! Each node is a [`Lock`](crate::Lock) of its own and knows nothing of the others. Invariants:
//!
//! - A candidate holds the lock with token T only while a majority of nodes hold a grant for it
//!   whose token is at least T. Each grant must be acknowledged by a reply and must last beyond the
//!   present, counted from the *sending* of the request. [`Candidate::verdict`] upholds it.
//! - T was the token of a majority of its grants at one time, and each node mints a larger token
//!   for every later grant. So the tokens of holders increase.
//! - A grant that was given up, or that its node says is gone, never counts again, whatever is
//!   reported of it later. Grants are told apart by their number. The floor of each node upholds
//!   it.
//! - The ticket is settled once and is the same on all nodes. Every candidate without a majority
//!   gives way to the lowest ticket, which so gets a majority.

mod decide;
mod inputs;
mod node;
#[cfg(test)]
mod tests;

use node::{CandidateNode, NodeGrant, NodeStanding, PendingRenewal};

use crate::{Refusal, WriteBack};

/// Returns how many of `nodes` nodes are a majority.
pub const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// A request to send to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRequest {
    /// The index of the node.
    pub node: usize,
    /// The request.
    pub kind: NodeRequestKind,
}

/// What a [`NodeRequest`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeRequestKind {
    /// An acquire with a ballot.
    Ask {
        /// See [`crate::Ballot::ticket`].
        ticket: Option<u64>,
        /// See [`crate::Ballot::yields`].
        yields: Option<u64>,
        /// Queue if it can't be granted at once.
        waits: bool,
        /// The grant of this node that was known when the request was sent.
        known: Option<u64>,
    },
    /// A renewal of one grant.
    Renew {
        /// The grant, and the token to agree on.
        write_back: WriteBack,
        /// The new lease.
        lease_ms: u64,
        /// The round of renewals that it belongs to: see [`Candidate::renew`].
        round: u64,
    },
    /// A release of whatever the owner has there.
    Release {
        /// Leave a tombstone, because an acquire may still be in flight.
        bury: bool,
    },
}

/// The state of a candidacy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuorumVerdict {
    /// Too few nodes have answered.
    Open,
    /// It waits in the queue.
    Waiting {
        /// At this ticket.
        ticket: u64,
    },
    /// It holds the lock.
    Held {
        /// With this token.
        token: u64,
        /// Until this local time.
        until_us: u64,
    },
    /// It held the lock and no longer does.
    Lost,
    /// It held the lock, and the lock was broken.
    Revoked,
    /// It does not wait, and others hold or wait.
    Busy,
    /// Too many nodes refuse it: no majority is left.
    Refused(Refusal),
    /// Too many nodes did not answer: no majority is left. See [`Candidate::troubles`].
    NoQuorum,
}

/// One owner's candidacy for one lock.
#[derive(Clone, Debug)]
pub struct Candidate {
    majority: usize,
    lease_ms: u64,
    /// `None` if it does not wait.
    waiter_lease_ms: Option<u64>,
    nodes: Vec<CandidateNode>,
    ticket: Option<u64>,
    /// The token that it asks a majority to agree on.
    proposal: u64,
    /// The token with which it holds, or held.
    token: Option<u64>,
    lost: bool,
    over: bool,
    /// Rounds of renewals so far.
    round: u64,
    /// Decides nothing before every node has answered.
    patient: bool,
}

impl Candidate {
    /// Returns a candidate for a lease on this many nodes. Without a waiter lease it does not wait.
    pub fn new(nodes: usize, lease_ms: u64, waiter_lease_ms: Option<u64>) -> Self {
        Self {
            majority: majority(nodes),
            lease_ms,
            waiter_lease_ms,
            nodes: vec![CandidateNode::default(); nodes],
            ticket: None,
            proposal: 0,
            token: None,
            lost: false,
            over: false,
            round: 0,
            patient: false,
        }
    }

    /// Returns a candidate that finds what an owner already has. It asks for nothing new and can
    /// wait for the answers of all nodes, which show the token that was agreed on.
    pub fn finder(nodes: usize, lease_ms: u64) -> Self {
        Self { patient: true, ..Self::new(nodes, lease_ms, None) }
    }

    /// Asks all nodes whose state is unknown: at the start, and again after
    /// [`QuorumVerdict::NoQuorum`].
    pub fn ask(&mut self) -> Vec<NodeRequest> {
        let mut sends = Vec::new();
        for node in 0..self.nodes.len() {
            if self.nodes[node].is_blank() {
                self.ask_node(node, None, &mut sends);
            }
        }
        sends
    }

    /// Handles the passing of a third of the waiter lease: keeps votes alive, and asks the nodes
    /// again that have nothing of ours.
    pub fn handle_tick(&mut self, now_us: u64) -> Vec<NodeRequest> {
        let mut sends = Vec::new();
        let Some(waiter_lease_ms) = self.waiter_lease_ms.filter(|_| self.is_running()) else {
            return sends;
        };
        self.nodes.iter_mut().for_each(CandidateNode::forgive);
        self.advance(now_us, &mut sends);
        for node in 0..self.nodes.len() {
            match self.nodes[node].standing {
                NodeStanding::Waiting if self.nodes[node].needs_yield() => {
                    self.ask_node(node, self.nodes[node].yields, &mut sends);
                }
                NodeStanding::Nothing if self.nodes[node].is_blank() => {
                    self.ask_node(node, None, &mut sends);
                }
                NodeStanding::Voted(NodeGrant { number, .. })
                    if !self.nodes[node].is_renewing() =>
                {
                    let write_back = WriteBack { number, token: 0 };
                    self.renew_node(now_us, node, write_back, waiter_lease_ms, &mut sends);
                }
                _ => {}
            }
        }
        sends
    }

    /// Renews the lock for this long, and asks once more for missing votes. [`Candidate::renewed`]
    /// returns the outcome of that round.
    pub fn renew(&mut self, now_us: u64, lease_ms: u64) -> Vec<NodeRequest> {
        let mut sends = Vec::new();
        let QuorumVerdict::Held { token, .. } = self.verdict(now_us) else { return sends };
        self.round += 1;
        self.lease_ms = self.lease_ms.max(lease_ms);
        for node in 0..self.nodes.len() {
            match self.nodes[node].standing {
                NodeStanding::Voted(_) if self.nodes[node].revoked => {}
                NodeStanding::Voted(NodeGrant { number, .. }) => {
                    let write_back = WriteBack { number, token };
                    self.renew_node(now_us, node, write_back, lease_ms, &mut sends);
                }
                _ if self.nodes[node].is_asked() => {}
                _ => {
                    self.ask_node_and(node, None, false, &mut sends);
                }
            }
        }
        sends
    }

    /// Ends the candidacy: gives everything back on all nodes, even on those that never answered.
    pub fn give_up(&mut self) -> Vec<NodeRequest> {
        self.over = true;
        let release = |(node, state): (usize, &CandidateNode)| NodeRequest {
            node,
            kind: NodeRequestKind::Release { bury: state.may_be_asked() },
        };
        self.nodes.iter().enumerate().map(release).collect()
    }

    /// Returns the token with which it holds the lock, or held it.
    pub fn token(&self) -> Option<u64> {
        self.token
    }

    /// Returns how many rounds of renewals there were.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Returns whether a majority of nodes have renewed in this round or a later one. `None` while
    /// that is open.
    pub fn renewed(&self, round: u64) -> Option<bool> {
        let renewed = self.nodes.iter().filter(|node| node.renewed >= round).count();
        let is_open = || self.nodes.iter().any(|node| node.is_renewing_in(round));
        let is_majority = renewed >= self.majority;
        (is_majority || !is_open()).then_some(is_majority)
    }

    /// Returns the floor of this node: its grants count only if their number is larger.
    pub fn floor(&self, node: usize) -> u64 {
        self.nodes[node].floor
    }

    /// Returns whether we have a place on this node for a refresh to keep. After a loss we don't:
    /// another client may have released it.
    pub fn waits_on(&self, node: usize) -> bool {
        matches!(self.nodes[node].standing, NodeStanding::Waiting) && !self.lost
    }

    /// Returns until which local time too many nodes are in quarantine for a majority to vote.
    pub fn quarantined_until_us(&self, now_us: u64) -> Option<u64> {
        let mut ends: Vec<u64> =
            self.nodes.iter().map(|node| node.quarantined_until_us.unwrap_or(0)).collect();
        ends.sort_unstable();
        Some(ends[self.majority - 1]).filter(|until_us| *until_us > now_us)
    }

    /// Returns, for each node without a vote or place of ours, the reason as far as it is known.
    pub fn troubles(&self) -> Vec<(usize, String)> {
        let troubles = self.nodes.iter().enumerate();
        troubles.filter_map(|(node, state)| Some((node, state.trouble_text()?))).collect()
    }

    fn is_running(&self) -> bool {
        self.token.is_none() && !self.over
    }

    fn ask_node(&mut self, node: usize, yields: Option<u64>, sends: &mut Vec<NodeRequest>) {
        self.ask_node_and(node, yields, self.waiter_lease_ms.is_some(), sends);
    }

    fn ask_node_and(
        &mut self,
        node: usize,
        yields: Option<u64>,
        waits: bool,
        sends: &mut Vec<NodeRequest>,
    ) {
        let known = self.nodes[node].vote().map(|vote| vote.number);
        self.nodes[node].asked();
        sends.push(NodeRequest {
            node,
            kind: NodeRequestKind::Ask { ticket: self.ticket, yields, waits, known },
        });
    }

    fn renew_node(
        &mut self,
        now_us: u64,
        node: usize,
        write_back: WriteBack,
        lease_ms: u64,
        sends: &mut Vec<NodeRequest>,
    ) {
        let round = self.round;
        self.nodes[node].renewing = Some(PendingRenewal { write_back, round, since_us: now_us });
        sends.push(NodeRequest {
            node,
            kind: NodeRequestKind::Renew { write_back, lease_ms, round },
        });
    }
}
