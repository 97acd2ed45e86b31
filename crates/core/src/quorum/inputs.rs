//! What comes in to a candidate: answers of nodes, wake-ups, grants found by a refresh, and news that a clock
//! was set.

use super::node::{NodeGrant, NodeStanding};
use super::{Candidate, NodeRequest, NodeRequestKind};
use crate::session::Anchor;
use crate::{Grant, Refusal, Reply, Token, WakeEvent};

impl Candidate {
    /// A node answered, or could not be reached.
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
                // Asked without a ticket, it was granted at once, if at all.
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
                // Whoever waits does not hold: what was granted before we asked is gone.
                known.into_iter().for_each(|number| self.nodes[node].is_gone(number));
                self.nodes[node].queued(place, anchor);
            }
            (NodeRequestKind::Ask { .. }, Ok((Reply::Busy, _))) => self.nodes[node].is_busy = true,
            (NodeRequestKind::Ask { waits, .. }, Ok((Reply::Refused(Refusal::TooLate), _)))
                if !self.nodes[node].was_late && !self.over =>
            {
                // Its clock was not known well enough, and is now.
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

    /// A node sent a wake-up. How long it was under way is not known: so what it tells of is not
    /// acknowledged yet.
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
        }
        self.advance(now_us, &mut sends);
        sends
    }

    /// The answer to a refresh told of this grant.
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

    /// A node has fewer places of ours than it should: this one may have lapsed, or been granted
    /// unheard. Whoever has the lock does without: another client may have released it meanwhile, and a place
    /// taken after that is nobody's.
    pub fn handle_missing(&mut self, node: usize) -> Vec<NodeRequest> {
        let mut sends = Vec::new();
        if self.waits_on(node) && !self.nodes[node].is_asked() && self.is_running() {
            self.ask_node(node, self.nodes[node].yields, &mut sends);
        }
        sends
    }

    /// The clock of a node was set forward: what it granted may have ended before its time.
    pub fn handle_clock_set(&mut self, now_us: u64, node: usize) {
        if let NodeStanding::Voted(NodeGrant { number, .. }) = self.nodes[node].standing {
            self.nodes[node].is_gone(number);
        }
        self.note_loss(now_us);
    }

    /// The vote of this number was broken, or whichever there is. A holder loses the lock by that. A
    /// candidate gives the vote back, for it can't be confirmed any more, and asks for another if it
    /// waits. News of another vote is old, and changes nothing.
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
            // The node has not heard that we gave it up. It is told by the next tick, not now: were it one
            // that has forgotten how large its numbers were, the two of us would go on at full speed.
            self.nodes[node].yields = given_up;
        }
    }
}
