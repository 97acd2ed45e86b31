//! The inputs of a candidate: replies of nodes, wake-ups, grants found by a refresh, and the news
//! that a node's clock was set.

use super::node::{NodeGrant, NodeStanding};
use super::{Candidate, NodeRequest, NodeRequestKind};
use crate::session::Anchor;
use crate::{Grant, Refusal, Reply, Token, WakeEvent};

impl Candidate {
    /// Handles a node's reply, or the failure to reach it.
    pub fn handle_reply(
        &mut self,
        now_us: u64,
        sent: NodeRequest,
        heard: Result<(Reply, Anchor), String>,
    ) -> Vec<NodeRequest> {
        let (mut sends, node) = (Vec::new(), sent.node);
        self.note_loss(now_us);
        let is_answer = heard.is_ok();
        self.nodes[node].answered(sent.kind, is_answer);
        match (sent.kind, heard) {
            (kind, Ok((Reply::Granted(grant) | Reply::Renewed(grant), anchor))) => {
                // An acquire without a ticket was granted at once, if at all, and so for the full
                // lease.
                let full = match kind {
                    NodeRequestKind::Renew { lease_ms, .. } => lease_ms >= self.lease_ms,
                    NodeRequestKind::Ask { ticket, .. } => ticket.is_none(),
                    NodeRequestKind::Release { .. } => false,
                };
                self.granted(node, &grant, Some(anchor), full);
                if let NodeRequestKind::Renew { round, .. } = kind {
                    self.nodes[node].renewed = self.nodes[node].renewed.max(round);
                }
            }
            (NodeRequestKind::Ask { known, .. }, Ok((Reply::Queued(place), anchor))) => {
                // A waiter is no holder: the grant that was known when we asked is gone.
                known.into_iter().for_each(|number| self.nodes[node].is_gone(number));
                self.nodes[node].queued(place, anchor);
            }
            (NodeRequestKind::Ask { .. }, Ok((Reply::Busy | Reply::Kept, _))) => {
                self.nodes[node].is_busy = true;
            }
            (NodeRequestKind::Ask { waits, .. }, Ok((Reply::Refused(Refusal::TooLate), _)))
                if !self.nodes[node].was_late && !self.over =>
            {
                // We didn't know its clock well enough. With this reply we do.
                self.nodes[node].was_late = true;
                self.ask_node_and(node, None, waits, &mut sends);
            }
            (_, Ok((Reply::Refused(refusal), anchor))) => {
                self.nodes[node].refused(refusal, anchor);
            }
            (NodeRequestKind::Renew { write_back, .. }, Ok((Reply::NotHeld, _))) => {
                self.nodes[node].is_gone(write_back.number);
                self.nodes[node].regain = true;
            }
            (NodeRequestKind::Renew { write_back, .. }, Ok((Reply::Revoked, _))) => {
                self.revoked(node, Some(write_back.number), &mut sends);
            }
            (NodeRequestKind::Release { .. }, _) => {}
            (_, Ok((reply, _))) => {
                self.nodes[node].trouble = Some(format!("it answered with {reply:?}"));
            }
            (_, Err(why)) => self.nodes[node].trouble = Some(why),
        }
        self.advance(now_us, &mut sends);
        sends
    }

    /// Handles a wake-up from a node. We can't know how long it was in flight, so the grant in it
    /// doesn't count as acknowledged yet.
    pub fn handle_wake(&mut self, now_us: u64, node: usize, event: &WakeEvent) -> Vec<NodeRequest> {
        let mut sends = Vec::new();
        self.note_loss(now_us);
        match event {
            WakeEvent::Granted(grant) => self.granted(node, grant, None, false),
            WakeEvent::Inquired { number } => self.nodes[node].inquired(*number),
            WakeEvent::Revoked { token } => {
                self.revoked(node, token.map(Token::raw), &mut sends);
            }
            WakeEvent::Refused(refusal) => {
                self.nodes[node].standing = NodeStanding::Nothing;
                self.nodes[node].refusal = Some(*refusal);
            }
            // No vote is kept.
            WakeEvent::Wanted { .. } | WakeEvent::DoneBefore(_) => {}
        }
        self.advance(now_us, &mut sends);
        sends
    }

    /// Handles a grant that the reply to a refresh reported.
    pub fn handle_refreshed_grant(
        &mut self,
        now_us: u64,
        node: usize,
        grant: &Grant,
        anchor: Anchor,
    ) -> Vec<NodeRequest> {
        let mut sends = Vec::new();
        self.note_loss(now_us);
        self.granted(node, grant, Some(anchor), false);
        self.advance(now_us, &mut sends);
        sends
    }

    /// Handles the news that a node has fewer of our places than it should: this place may have
    /// lapsed, or been granted without our knowledge. A holder does not ask for its place again:
    /// another client may have released the lock meanwhile, and nobody would give up a place taken
    /// after that.
    pub fn handle_missing(&mut self, node: usize) -> Vec<NodeRequest> {
        let mut sends = Vec::new();
        if self.waits_on(node) && !self.nodes[node].is_asked() && self.is_running() {
            self.ask_node(node, self.nodes[node].yields, &mut sends);
        }
        sends
    }

    /// Handles the news that a node's clock was set forward: its grants may have ended early.
    pub fn handle_clock_set(&mut self, now_us: u64, node: usize) {
        if let NodeStanding::Voted(NodeGrant { number, .. }) = self.nodes[node].standing {
            self.nodes[node].is_gone(number);
        }
        self.note_loss(now_us);
    }

    /// Handles the revocation of the vote with this number, or of any vote. A holder loses the lock
    /// by it. A candidate gives the vote back, because it can't be confirmed any more, and asks for
    /// another if it waits. News about another vote is stale and changes nothing.
    fn revoked(&mut self, node: usize, broken: Option<u64>, sends: &mut Vec<NodeRequest>) {
        let NodeStanding::Voted(NodeGrant { number, .. }) = self.nodes[node].standing else {
            return;
        };
        if broken.is_some_and(|broken| broken != number) {
            return;
        }
        self.nodes[node].revoked = true;
        if !self.is_running() || self.patient {
            return;
        }
        if self.waiter_lease_ms.is_some() {
            self.yield_vote(node, number, sends);
        } else {
            self.nodes[node].is_gone(number);
            self.nodes[node].is_busy = true;
        }
    }

    fn granted(&mut self, node: usize, grant: &Grant, anchor: Option<Anchor>, full: bool) {
        let given_up = self.nodes[node].granted(grant, anchor, full);
        if given_up.is_some() && self.is_running() && self.ticket.is_some() {
            // The node hasn't processed our yield. The next tick repeats it, not this call: with a
            // node that has forgotten how large its numbers were, the two of us would loop at full
            // speed.
            self.nodes[node].yields = given_up;
        }
    }
}
