//! What a candidate knows of one node: its grant or place there, and the requests in flight.

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
    /// The largest token that the node reported for it.
    pub(super) token: u64,
    /// A waiter with a lower ticket wants it.
    pub(super) inquired: bool,
    /// Until which local time it is ours, as the node's replies say; 0 if no reply has said so.
    pub(super) until_us: u64,
    /// It was granted for the full lease. A hand-over lasts at most a waiter lease.
    pub(super) full: bool,
}

/// A renewal in flight.
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
    /// The highest number of a grant that was given up or is gone. No grant up to it ever counts
    /// again.
    pub(super) floor: u64,
    /// The ticket that the node has us at.
    pub(super) ticket: Option<u64>,
    /// How many acquires are in flight.
    asks: u32,
    /// One of them was not answered, and may still arrive.
    unanswered: bool,
    /// The grant that was given up, until the node has confirmed it.
    pub(super) yields: Option<u64>,
    /// The last renewal in flight.
    pub(super) renewing: Option<PendingRenewal>,
    /// The last round of renewals that it took part in.
    pub(super) renewed: u64,
    pub(super) revoked: bool,
    /// Its grant is gone; ask it again at once.
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

    /// Returns whether it has a place or a grant of ours.
    pub(super) fn is_known(&self) -> bool {
        self.standing != NodeStanding::Nothing
    }

    /// Returns whether it may have a place or a grant of ours.
    pub(super) fn is_ours(&self) -> bool {
        self.is_known() && self.is_in_reach()
    }

    /// Returns whether it has said if we have something there.
    pub(super) fn has_answered(&self) -> bool {
        self.is_ours() || self.is_busy || self.refusal.is_some()
    }

    /// Returns whether it said that we have no grant there, or none that can be renewed.
    pub(super) fn has_no_grant(&self) -> bool {
        (self.has_answered() || self.regain) && self.vote().is_none_or(|_| self.revoked)
    }

    /// Returns whether a request is in flight that it may answer.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_asked() || self.is_renewing()
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asks > 0
    }

    /// Returns whether an acquire may still arrive.
    pub(super) fn may_be_asked(&self) -> bool {
        self.is_asked() || self.unanswered
    }

    /// Returns whether it answered the last request, or may still answer.
    pub(super) fn is_in_reach(&self) -> bool {
        self.trouble.is_none() && self.refusal.is_none()
    }

    pub(super) fn needs_yield(&self) -> bool {
        self.yields.is_some() && !self.is_asked()
    }

    /// Clears its failure, so that it is asked again.
    pub(super) fn forgive(&mut self) {
        self.trouble = None;
        self.refusal = None;
    }

    /// Returns whether nothing is known and nothing is in flight.
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

    /// Returns whether it has left a renewal unanswered for so long that the others should not wait
    /// for it.
    pub(super) fn is_stuck(&self, now_us: u64, patience_us: u64) -> bool {
        let since_us = self.renewing.map(|renewing| renewing.since_us);
        since_us.is_some_and(|since_us| since_us.saturating_add(patience_us) <= now_us)
    }

    /// Records that an acquire is sent.
    pub(super) fn asked(&mut self) {
        self.asks += 1;
        self.regain = false;
        self.is_busy = false;
        self.forgive();
    }

    /// Records that a request is no longer in flight, answered or not.
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

    /// Records a place in its queue. Ignored if the node has granted since: a wake-up may overtake
    /// a reply.
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

    /// Records a grant. Returns its number if we had given it up.
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

    /// Records that the grant with this number was given up, or is gone.
    pub(super) fn is_gone(&mut self, number: u64) {
        self.floor = self.floor.max(number);
        if self.vote().is_some_and(|vote| vote.number <= number) {
            self.revoked = false;
            self.standing = NodeStanding::Nothing;
        }
    }

    /// Returns why it is of no use to us. A node that may still answer has no trouble.
    pub(super) fn trouble_text(&self) -> Option<String> {
        let refused = || self.refusal.map(|refusal| refusal.to_string());
        let busy = || self.is_busy.then(|| "somebody else holds it there".to_owned());
        self.trouble.clone().or_else(refused).or_else(busy)
    }
}

/// Returns the local time at which the node's clock shows this, as far as it can be known.
fn local_us(anchor: Anchor, engine_ms: u64) -> u64 {
    let left_ms = engine_ms.saturating_sub(anchor.engine_ms);
    anchor.sent_us.saturating_add(left_ms.saturating_mul(1_000))
}
