//! What a candidate makes of what it knows: where it stands, and what is to be sent next.

use super::node::{CandidateNode, NodeGrant, NodeStanding};
use super::{Candidate, NodeRequest, QuorumVerdict};
use crate::WriteBack;

impl Candidate {
    /// Where it stands at this time. Lost is final.
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

    /// What is lost by now stays lost, whatever is heard from now on.
    pub(super) fn note_loss(&mut self, now_us: u64) {
        self.lost |= self.token.is_some_and(|token| self.until_us(token) <= now_us);
    }

    fn is_revoked(&self) -> bool {
        self.nodes.iter().any(|node| node.revoked)
    }

    /// Where one stands that has not held the lock.
    fn outlook(&self) -> QuorumVerdict {
        if let Some(ticket) = self.ticket {
            return QuorumVerdict::Waiting { ticket };
        }
        let most = |wanted: fn(&CandidateNode) -> bool| {
            self.nodes.iter().filter(|node| wanted(node)).count() >= self.majority
        };
        let refusal = self.nodes.iter().find_map(|node| node.refusal);
        if self.patient && !self.nodes.iter().any(CandidateNode::is_awaited) {
            // All there is was found, and it becomes no more by waiting: a place is none either.
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
            // It can't be had; whether a majority says so is not known yet.
            _ if most(|node| node.has_answered() || node.is_awaited()) => QuorumVerdict::Open,
            _ => QuorumVerdict::NoQuorum,
        }
    }

    /// Until when a majority of nodes hold a grant for us with at least this token.
    fn until_us(&self, token: u64) -> u64 {
        let votes = self.nodes.iter().filter_map(CandidateNode::vote);
        let ends = votes.filter(|vote| vote.token >= token).map(|vote| vote.until_us);
        nth_largest(ends, self.majority)
    }

    /// The token that a majority of acknowledged votes agree on, each of them for the full lease.
    fn agreed(&self, now_us: u64) -> Option<u64> {
        let votes = || self.nodes.iter().filter_map(CandidateNode::vote);
        votes().map(|vote| vote.token).find(|token| {
            let agree = votes().filter(|vote| vote.full && vote.token == *token);
            let ends = agree.map(|vote| vote.until_us);
            nth_largest(ends, self.majority) > now_us
        })
    }

    /// Whatever what is known by now calls for.
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
        // One proposal after the other: it need not be the largest that there is, but a majority must be
        // able to agree on it.
        if tokens.iter().filter(|token| **token <= self.proposal).count() < self.majority {
            self.proposal = tokens.into_iter().max().unwrap_or(0);
        }
        self.confirm(now_us, self.proposal, sends);
    }

    /// As soon as a majority has answered, the largest of what they said is our ticket; and all nodes
    /// are to have us there.
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
            // One that has yet to hear of a yield would answer with what we gave up, and be asked again at
            // once: it is told by the next tick.
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

    /// With less than a majority, whoever has a lower ticket comes first.
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

    /// Gives a vote back, and asks to have it again when it is our turn.
    pub(super) fn yield_vote(&mut self, node: usize, number: u64, sends: &mut Vec<NodeRequest>) {
        self.nodes[node].is_gone(number);
        self.nodes[node].standing = NodeStanding::Waiting;
        self.nodes[node].yields = Some(number);
        self.ask_node(node, Some(number), sends);
    }
}

/// The n-th largest; 0 if there are fewer.
fn nth_largest(values: impl Iterator<Item = u64>, n: usize) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable_by(|a, b| b.cmp(a));
    values.get(n - 1).copied().unwrap_or(0)
}
