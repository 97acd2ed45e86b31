//! What a candidate concludes from what it knows: its verdict, and which requests to send next.

use super::node::{CandidateNode, NodeGrant, NodeStanding};
use super::{Candidate, NodeRequest, QuorumVerdict};
use crate::WriteBack;

impl Candidate {
    /// Returns its verdict at this time. [`QuorumVerdict::Lost`] is final.
    pub fn verdict(&mut self, now_us: u64) -> QuorumVerdict {
        let Some(token) = self.token else { return self.outlook() };
        self.note_loss(now_us);
        let until_us = self.until_us(token);
        let left = self.nodes.iter().filter(|node| node.vote().is_some() && !node.revoked).count();
        match self.lost {
            false if left < self.majority && self.is_revoked() => QuorumVerdict::Revoked,
            false => QuorumVerdict::Held { token, until_us },
            true => QuorumVerdict::Lost,
        }
    }

    /// Records a loss, so that the lock stays lost whatever the nodes answer later.
    pub(super) fn note_loss(&mut self, now_us: u64) {
        self.lost |= self.token.is_some_and(|token| self.until_us(token) <= now_us);
    }

    fn is_revoked(&self) -> bool {
        self.nodes.iter().any(|node| node.revoked)
    }

    /// Returns the verdict of a candidate that has not held the lock yet.
    fn outlook(&self) -> QuorumVerdict {
        if let Some(ticket) = self.ticket {
            return QuorumVerdict::Waiting { ticket };
        }
        let most = |wanted: fn(&CandidateNode) -> bool| {
            self.nodes.iter().filter(|node| wanted(node)).count() >= self.majority
        };
        let refusal = self.nodes.iter().find_map(|node| node.refusal);
        if self.patient && !self.nodes.iter().any(CandidateNode::is_awaited) {
            // Every node has answered. The finder never queues, so waiting finds no more, and a
            // place in a queue counts as nothing.
            return if most(CandidateNode::has_no_grant) {
                QuorumVerdict::Busy
            } else {
                QuorumVerdict::NoQuorum
            };
        }
        match refusal {
            _ if most(|node| node.is_ours() || node.is_awaited()) => QuorumVerdict::Open,
            _ if most(|node| node.is_ours() || node.is_busy) => QuorumVerdict::Busy,
            Some(refusal) if most(CandidateNode::has_answered) => QuorumVerdict::Refused(refusal),
            // No majority can grant it, but it is still open whether a majority says so.
            _ if most(|node| node.has_answered() || node.is_awaited()) => QuorumVerdict::Open,
            _ => QuorumVerdict::NoQuorum,
        }
    }

    /// Returns until when a majority of nodes hold a grant for us with at least this token.
    fn until_us(&self, token: u64) -> u64 {
        let votes = self.nodes.iter().filter_map(CandidateNode::vote);
        let ends = votes.filter(|vote| vote.token >= token).map(|vote| vote.until_us);
        nth_largest(ends, self.majority)
    }

    /// Returns the token that a majority of acknowledged votes agree on, each for the full lease.
    fn agreed(&self, now_us: u64) -> Option<u64> {
        let votes = || self.nodes.iter().filter_map(CandidateNode::vote);
        votes().map(|vote| vote.token).find(|token| {
            let agree = votes().filter(|vote| vote.full && vote.token == *token);
            let ends = agree.map(|vote| vote.until_us);
            nth_largest(ends, self.majority) > now_us
        })
    }

    /// Does whatever the present state calls for.
    pub(super) fn advance(&mut self, now_us: u64, sends: &mut Vec<NodeRequest>) {
        if self.over {
            return;
        }
        if let Some(token) = self.token {
            if matches!(self.verdict(now_us), QuorumVerdict::Held { .. }) {
                self.confirm(now_us, token, sends);
            }
            return;
        }
        if let Some(token) = self.agreed(now_us) {
            self.token = Some(token);
            return;
        }
        if self.patient && self.nodes.iter().any(CandidateNode::is_asked) {
            return;
        }
        let patience_us = self.waiter_lease_ms.unwrap_or(self.lease_ms) * 1_000 / 3;
        let responsive =
            |node: &&CandidateNode| node.is_in_reach() && !node.is_stuck(now_us, patience_us);
        let votes = self.nodes.iter().filter(responsive).filter_map(CandidateNode::vote);
        let tokens: Vec<u64> = votes.map(|vote| vote.token).collect();
        if tokens.len() < self.majority {
            self.settle_ticket(sends);
            self.give_way(sends);
            return;
        }
        // One proposal at a time. It need not be the largest token, but a majority must be able to
        // agree on it.
        if tokens.iter().filter(|token| **token <= self.proposal).count() < self.majority {
            self.proposal = tokens.into_iter().max().unwrap_or(0);
        }
        self.confirm(now_us, self.proposal, sends);
    }

    /// Settles the ticket as soon as a majority has answered: the largest ticket that they
    /// assigned. Then asks all nodes to move us there.
    fn settle_ticket(&mut self, sends: &mut Vec<NodeRequest>) {
        if self.waiter_lease_ms.is_none() {
            return;
        }
        if self.ticket.is_none() {
            let tickets: Vec<u64> = self.nodes.iter().filter_map(|node| node.ticket).collect();
            if tickets.len() < self.majority {
                return;
            }
            self.ticket = tickets.into_iter().max();
        }
        for node in 0..self.nodes.len() {
            let state = &self.nodes[node];
            let is_elsewhere = state.is_known() && state.ticket != self.ticket;
            // A node that hasn't processed our yield would answer with the grant that we gave up,
            // and we would ask again at once. The next tick repeats the yield instead.
            let is_ready = state.is_in_reach() && !state.is_asked() && state.yields.is_none();
            if is_elsewhere && is_ready {
                self.ask_node(node, None, sends);
            }
        }
    }

    /// Writes the token, and the full lease, to every vote that does not have them.
    fn confirm(&mut self, now_us: u64, token: u64, sends: &mut Vec<NodeRequest>) {
        for node in 0..self.nodes.len() {
            let state = &self.nodes[node];
            let Some(vote) = state.vote().filter(|_| !state.revoked) else { continue };
            let write_back = WriteBack { number: vote.number, token };
            let is_there = vote.full && vote.token >= token && vote.until_us > now_us;
            if !is_there && state.is_in_reach() && !state.is_renewing_with(write_back) {
                self.renew_node(now_us, node, write_back, self.lease_ms, sends);
            }
        }
    }

    /// Gives votes back to lower tickets while we have less than a majority.
    fn give_way(&mut self, sends: &mut Vec<NodeRequest>) {
        if self.ticket.is_none() {
            return;
        }
        for node in 0..self.nodes.len() {
            match self.nodes[node].standing {
                NodeStanding::Voted(NodeGrant { number, inquired: true, .. }) => {
                    self.yield_vote(node, number, sends);
                }
                NodeStanding::Nothing if self.nodes[node].regain && self.nodes[node].is_blank() => {
                    self.ask_node(node, None, sends);
                }
                _ => {}
            }
        }
    }

    /// Gives a vote back, and queues for it again.
    pub(super) fn yield_vote(&mut self, node: usize, number: u64, sends: &mut Vec<NodeRequest>) {
        self.nodes[node].is_gone(number);
        self.nodes[node].standing = NodeStanding::Waiting;
        self.nodes[node].yields = Some(number);
        self.ask_node(node, Some(number), sends);
    }
}

/// Returns the n-th largest value; 0 if there are fewer.
fn nth_largest(values: impl Iterator<Item = u64>, n: usize) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable_by(|a, b| b.cmp(a));
    values.get(n - 1).copied().unwrap_or(0)
}
