//! What a contender hears.

use super::node::{Node, Said};
use super::{Contender, Stage};
use crate::session::Anchor;
use crate::{Refusal, Reply};

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// For people.
    pub why: String,
    /// The request may have been carried out, or may be yet.
    pub unknown: bool,
}

impl Contender {
    /// What a node answered to the acquire of this round. True if that is of no use any more, and the
    /// node is to be told: see [`Contender::handle_released`].
    pub fn handle_acquired(
        &mut self,
        now_us: u64,
        node: usize,
        round: u64,
        heard: Result<(Reply, Anchor), Unanswered>,
    ) -> bool {
        let is_present = self.round == round && matches!(self.stage, Stage::Asking | Stage::Held);
        let node = &mut self.nodes[node];
        if node.is_asked_in(round) {
            node.asked = None;
        }
        node.unheard |= matches!(&heard, Err(unanswered) if unanswered.unknown);
        let granted_until_us = match &heard {
            Ok((Reply::Granted(grant), anchor)) => Some(anchor.valid_until_us(grant.deadline_ms)),
            _ => None,
        };
        if !is_present {
            // What is over for good was buried; what failed is given back.
            let is_to_be_told =
                self.stage != Stage::Over && (granted_until_us.is_some() || node.unheard);
            node.telling += u32::from(is_to_be_told);
            return is_to_be_told;
        }
        node.vote = granted_until_us;
        node.ours = granted_until_us.is_some() || node.unheard;
        node.said = match heard {
            Ok((Reply::Granted(_), _)) => Said::Nothing,
            Ok((Reply::Busy, _)) => Said::Busy,
            Ok((Reply::Refused(refusal), anchor)) => Said::Refused(locally(refusal, anchor)),
            Ok((reply, _)) => Said::Trouble(format!("it answered with {reply:?}")),
            Err(unanswered) => Said::Trouble(unanswered.why),
        };
        self.note_majority(now_us);
        false
    }

    /// Once a majority has answered, the others are given as long again, and no less than 50 ms.
    fn note_majority(&mut self, now_us: u64) {
        let has_answered =
            |node: &Node| node.vote.is_some() || matches!(node.said, Said::Busy | Said::Refused(_));
        if self.patience_us.is_none() && self.count(has_answered) >= self.majority {
            let took_us = now_us.saturating_sub(self.began_us);
            self.patience_us = Some(now_us.saturating_add(took_us.max(self.least_patience_us)));
        }
    }

    /// A release that was to be told to this node was heard there, or can't matter any more.
    pub fn handle_released(&mut self, node: usize) {
        self.nodes[node].telling = self.nodes[node].telling.saturating_sub(1);
    }

    /// What a node answered to a renewal of this round.
    pub fn handle_renewed(
        &mut self,
        node: usize,
        renewal: u64,
        heard: Result<(Reply, Anchor), String>,
    ) {
        let node = &mut self.nodes[node];
        match heard {
            Ok((Reply::Renewed(grant), anchor)) => {
                // Never shorter: an answer may come late.
                let until_us = anchor.valid_until_us(grant.deadline_ms);
                node.vote = Some(node.vote.unwrap_or(0).max(until_us));
                node.renewed = node.renewed.max(renewal);
                node.said = Said::Nothing;
                return;
            }
            Ok((Reply::NotHeld, _)) => node.is_gone(),
            Ok((Reply::Revoked, _)) => node.revoked = true,
            Ok((reply, _)) => node.said = Said::Trouble(format!("it answered with {reply:?}")),
            Err(why) => node.said = Said::Trouble(why),
        }
        if node.renewing == renewal {
            node.renewing = 0;
        }
    }

    /// A node says that the lock was broken.
    pub fn handle_revoked(&mut self, node: usize) {
        self.nodes[node].revoked = true;
    }

    /// The clock of a node was set forward: what it granted may have ended before its time.
    pub fn handle_clock_set(&mut self, node: usize) {
        self.nodes[node].vote = None;
    }
}

/// With the end of a quarantine by the local clock.
fn locally(refusal: Refusal, anchor: Anchor) -> Refusal {
    match refusal {
        Refusal::Quarantined { until_ms } => {
            let left_ms = until_ms.saturating_sub(anchor.engine_ms);
            Refusal::Quarantined { until_ms: anchor.sent_us / 1_000 + left_ms }
        }
        other => other,
    }
}
