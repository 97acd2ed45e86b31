//! What a candidate knows of one node: its grant or place there, and the requests under way.

use super::NodeRequestKind;
use crate::session::Anchor;
use crate::{Grant, Place, Refusal, WriteBack};

/// What the candidate has on this node, as far as it knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NodeStanding {
    #[default]
    Nothing,
    /// A place in its queue.
    Waiting,
    Voted(NodeGrant),
}

/// A grant by one node: its vote for the candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeGrant {
    pub(super) number: u64,
    /// The largest that it was said to have.
    pub(super) token: u64,
    /// A lower ticket waits for it.
    pub(super) inquired: bool,
    /// Until which local time it is ours, by the node's own word; 0 if no reply has said so.
    pub(super) until_us: u64,
    /// It was for the full lease. What was handed over lasts no longer than a waiter lease.
    pub(super) full: bool,
}

/// A renewal that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingRenewal {
    pub(super) write_back: WriteBack,
    pub(super) round: u64,
    pub(super) since_us: u64,
}

/// One node from the candidate's point of view.
#[derive(Clone, Debug, Default)]
pub(super) struct CandidateNode {
    pub(super) standing: NodeStanding,
    /// The highest number of a grant that was given up or is gone. None up to it ever counts again.
    pub(super) floor: u64,
    /// The ticket that it has us at.
    pub(super) ticket: Option<u64>,
    /// How many acquires are under way.
    asks: u32,
    /// One of them was not answered, and may arrive yet.
    unanswered: bool,
    /// The grant that was given up, until the node has heard it.
    pub(super) yields: Option<u64>,
    /// The last renewal that is under way.
    pub(super) renewing: Option<PendingRenewal>,
    /// The last round of renewals that it took part in.
    pub(super) renewed: u64,
    pub(super) revoked: bool,
    /// What it had granted is gone, and it is to be asked at once.
    pub(super) regain: bool,
    pub(super) quarantined_until_us: Option<u64>,
    pub(super) was_late: bool,
    pub(super) is_busy: bool,
    pub(super) refusal: Option<Refusal>,
    pub(super) trouble: Option<String>,
}

impl CandidateNode {
    pub(super) fn vote(&self) -> Option<NodeGrant> {
        match self.standing {
            NodeStanding::Voted(vote) => Some(vote),
            _ => None,
        }
    }

    /// Has it a place or a grant of ours?
    pub(super) fn is_known(&self) -> bool {
        self.standing != NodeStanding::Nothing
    }

    /// Has it a place or a grant of ours, as far as can be told?
    pub(super) fn is_ours(&self) -> bool {
        self.is_known() && self.is_in_reach()
    }

    /// Is it said by now whether we have something there?
    pub(super) fn has_answered(&self) -> bool {
        self.is_ours() || self.is_busy || self.refusal.is_some()
    }

    /// Did it say that we have no grant there, or none that can be renewed?
    pub(super) fn has_no_grant(&self) -> bool {
        (self.has_answered() || self.regain) && self.vote().is_none_or(|_| self.revoked)
    }

    /// Is something under way that it may answer?
    pub(super) fn is_awaited(&self) -> bool {
        self.is_asked() || self.is_renewing()
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asks > 0
    }

    /// May an acquire arrive yet?
    pub(super) fn may_be_asked(&self) -> bool {
        self.is_asked() || self.unanswered
    }

    /// Did it answer what was sent last, or may yet?
    pub(super) fn is_in_reach(&self) -> bool {
        self.trouble.is_none() && self.refusal.is_none()
    }

    pub(super) fn needs_yield(&self) -> bool {
        self.yields.is_some() && !self.is_asked()
    }

    /// From now on it is asked again.
    pub(super) fn forgive(&mut self) {
        self.trouble = None;
        self.refusal = None;
    }

    /// Nothing is known, and nothing is under way.
    pub(super) fn is_blank(&self) -> bool {
        !self.is_known() && !self.is_asked()
    }

    pub(super) fn is_renewing(&self) -> bool {
        self.renewing.is_some()
    }

    pub(super) fn is_renewing_with(&self, write_back: WriteBack) -> bool {
        self.renewing.is_some_and(|renewing| renewing.write_back == write_back)
    }

    pub(super) fn is_renewing_in(&self, round: u64) -> bool {
        self.renewing.is_some_and(|renewing| renewing.round >= round)
    }

    /// Has it left a renewal unanswered for so long that others should not be kept waiting?
    pub(super) fn is_stuck(&self, now_us: u64, patience_us: u64) -> bool {
        let since_us = self.renewing.map(|renewing| renewing.since_us);
        since_us.is_some_and(|since_us| since_us.saturating_add(patience_us) <= now_us)
    }

    /// An acquire is sent.
    pub(super) fn asked(&mut self) {
        self.asks += 1;
        self.regain = false;
        self.is_busy = false;
        self.forgive();
    }

    /// Something is under way no more, and was answered or not.
    pub(super) fn answered(&mut self, kind: NodeRequestKind, is_answer: bool) {
        match kind {
            NodeRequestKind::Ask { yields, .. } => {
                self.asks = self.asks.saturating_sub(1);
                self.unanswered |= !is_answer;
                if is_answer && self.yields == yields {
                    self.yields = None;
                }
            }
            NodeRequestKind::Renew { write_back, round, .. }
                if self.is_renewing_with(write_back) && !self.is_renewing_in(round + 1) =>
            {
                self.renewing = None;
            }
            _ => {}
        }
    }

    /// It has us in its queue. Not news if it has granted since: a wake-up may overtake a reply.
    pub(super) fn queued(&mut self, place: Place, anchor: Anchor) {
        let quarantine_ends = |until_ms: u64| local_us(anchor, until_ms);
        self.quarantined_until_us = place.quarantined_until_ms.map(quarantine_ends);
        self.was_late = false;
        if self.vote().is_none() {
            self.standing = NodeStanding::Waiting;
            self.ticket = Some(place.number);
        }
    }

    pub(super) fn refused(&mut self, refusal: Refusal, anchor: Anchor) {
        let refusal = match refusal {
            Refusal::Quarantined { until_ms } => {
                let until_us = local_us(anchor, until_ms);
                self.quarantined_until_us = Some(until_us);
                Refusal::Quarantined { until_ms: until_us / 1_000 }
            }
            other => other,
        };
        self.refusal = Some(refusal);
    }

    /// It says that it has a grant for us. Answers the number of one that we gave up.
    pub(super) fn granted(
        &mut self,
        grant: &Grant,
        anchor: Option<Anchor>,
        full: bool,
    ) -> Option<u64> {
        let (vote, token) = (grant.vote?, grant.token?.raw());
        if vote.number <= self.floor {
            return Some(vote.number);
        }
        let until_us = anchor.map_or(0, |anchor| anchor.valid_until_us(grant.deadline_ms));
        let number = vote.number;
        self.was_late = false;
        if self.vote().is_none_or(|known| known.number <= number) {
            self.ticket = Some(vote.ticket);
        }
        self.standing = NodeStanding::Voted(match self.vote() {
            Some(known) if known.number > number => known,
            Some(known) if known.number == number => NodeGrant {
                number,
                token: known.token.max(token),
                inquired: vote.inquired,
                until_us: known.until_us.max(until_us),
                full: known.full || full,
            },
            known => {
                self.revoked = false;
                self.floor = self.floor.max(known.map_or(0, |known| known.number));
                NodeGrant { number, token, inquired: vote.inquired, until_us, full }
            }
        });
        None
    }

    pub(super) fn inquired(&mut self, number: u64) {
        if let NodeStanding::Voted(vote) = &mut self.standing {
            vote.inquired |= vote.number == number;
        }
    }

    /// The grant of this number was given up, or is not there any more.
    pub(super) fn is_gone(&mut self, number: u64) {
        self.floor = self.floor.max(number);
        if self.vote().is_some_and(|vote| vote.number <= number) {
            self.revoked = false;
            self.standing = NodeStanding::Nothing;
        }
    }

    /// Why it is of no use to us. Nothing is wrong with one that may still answer.
    pub(super) fn trouble_text(&self) -> Option<String> {
        let refused = || self.refusal.map(|refusal| refusal.to_string());
        let busy = || self.is_busy.then(|| "somebody else holds it there".to_owned());
        self.trouble.clone().or_else(refused).or_else(busy)
    }
}

/// The local time at which a node's clock shows this, as far as it can be known.
fn local_us(anchor: Anchor, engine_ms: u64) -> u64 {
    let left_ms = engine_ms.saturating_sub(anchor.engine_ms);
    anchor.sent_us.saturating_add(left_ms.saturating_mul(1_000))
}
