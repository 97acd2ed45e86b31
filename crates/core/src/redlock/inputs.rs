//! The inputs of a contender: replies of nodes, revocations, and the news that a node's clock was
//! set.

use super::node::{ContenderNode, NodeDenial};
use super::{Contender, ContenderStage};
use crate::session::Anchor;
use crate::{Refusal, Reply};

/// Why a node did not answer an acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFailure {
    /// The reason, for people.
    pub why: String,
    /// The request may have been carried out, or may still be.
    pub unknown: bool,
}

impl Contender {
    /// Handles a node's reply to the acquire of this round. Returns true if the reply came too late
    /// to count, and the node needs a release: see [`Contender::handle_release_reply`].
    pub fn handle_acquire_reply(
        &mut self,
        now_us: u64,
        node: usize,
        round: u64,
        heard: Result<(Reply, Anchor), NodeFailure>,
    ) -> bool {
        let is_present = self.round == round
            && matches!(self.stage, ContenderStage::Asking | ContenderStage::Held);
        let node = &mut self.nodes[node];
        if node.is_asked_in(round) {
            node.asked = None;
        }
        node.unanswered |= matches!(&heard, Err(unanswered) if unanswered.unknown);
        let granted_until_us = match &heard {
            Ok((Reply::Granted(grant), anchor)) => Some(anchor.valid_until_us(grant.deadline_ms)),
            _ => None,
        };
        if !is_present {
            // After the end of all attempts the owner has a tombstone. After a failed round the
            // grant is given back.
            let needs_release = self.stage != ContenderStage::Over
                && (granted_until_us.is_some() || node.unanswered);
            node.releasing += u32::from(needs_release);
            return needs_release;
        }
        node.vote = granted_until_us;
        node.ours = granted_until_us.is_some() || node.unanswered;
        node.denial = match heard {
            Ok((Reply::Granted(_), _)) => NodeDenial::Nothing,
            Ok((Reply::Busy, _)) => NodeDenial::Busy,
            Ok((Reply::Refused(refusal), anchor)) => NodeDenial::Refused(locally(refusal, anchor)),
            Ok((reply, _)) => NodeDenial::Trouble(format!("it answered with {reply:?}")),
            Err(unanswered) => NodeDenial::Trouble(unanswered.why),
        };
        self.note_majority(now_us);
        false
    }

    /// Notes when a majority has answered. The other nodes then get as long again, but at least the
    /// minimum patience.
    fn note_majority(&mut self, now_us: u64) {
        let has_answered = |node: &ContenderNode| {
            node.vote.is_some() || matches!(node.denial, NodeDenial::Busy | NodeDenial::Refused(_))
        };
        if self.patience_us.is_none() && self.count(has_answered) >= self.majority {
            let took_us = now_us.saturating_sub(self.began_us);
            self.patience_us = Some(now_us.saturating_add(took_us.max(self.least_patience_us)));
        }
    }

    /// Handles the reply to a release, or the news that the release no longer matters.
    pub fn handle_release_reply(&mut self, node: usize) {
        self.nodes[node].releasing = self.nodes[node].releasing.saturating_sub(1);
    }

    /// Handles a node's reply to a renewal of this round.
    pub fn handle_renewal_reply(
        &mut self,
        node: usize,
        renewal: u64,
        heard: Result<(Reply, Anchor), String>,
    ) {
        let node = &mut self.nodes[node];
        match heard {
            Ok((Reply::Renewed(grant), anchor)) => {
                // Never shorter: a reply may be late.
                let until_us = anchor.valid_until_us(grant.deadline_ms);
                node.vote = Some(node.vote.unwrap_or(0).max(until_us));
                node.renewed = node.renewed.max(renewal);
                node.denial = NodeDenial::Nothing;
                return;
            }
            Ok((Reply::NotHeld, _)) => node.is_gone(),
            Ok((Reply::Revoked, _)) => node.revoked = true,
            Ok((reply, _)) => {
                node.denial = NodeDenial::Trouble(format!("it answered with {reply:?}"))
            }
            Err(why) => node.denial = NodeDenial::Trouble(why),
        }
        if node.renewing == renewal {
            node.renewing = 0;
        }
    }

    /// Handles the news from a node that the lock was broken.
    pub fn handle_revoked(&mut self, node: usize) {
        self.nodes[node].revoked = true;
    }

    /// Handles the news that a node's clock was set forward: its grant may have ended early.
    pub fn handle_clock_set(&mut self, node: usize) {
        self.nodes[node].vote = None;
    }
}

/// Converts the end of a quarantine to the local clock.
fn locally(refusal: Refusal, anchor: Anchor) -> Refusal {
    match refusal {
        Refusal::Quarantined { until_ms } => {
            let left_ms = until_ms.saturating_sub(anchor.engine_ms);
            Refusal::Quarantined { until_ms: anchor.sent_us / 1_000 + left_ms }
        }
        other => other,
    }
}
