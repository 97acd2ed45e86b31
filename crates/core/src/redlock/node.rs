//! What a contender knows of one node: whether it granted, and the requests in flight.

use crate::Refusal;

/// Why a node did not grant the last acquire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum NodeDenial {
    #[default]
    Nothing,
    Busy,
    /// The end of a quarantine in it is a local time.
    Refused(Refusal),
    Trouble(String),
}

/// One node from the contender's point of view.
#[derive(Clone, Debug, Default)]
pub(super) struct ContenderNode {
    /// The round of the acquire in flight.
    pub(super) asked: Option<u64>,
    /// How many releases are in flight.
    pub(super) releasing: u32,
    /// An acquire was not answered, and may still arrive.
    pub(super) unanswered: bool,
    pub(super) denial: NodeDenial,
    /// Until which local time it has granted the lock.
    pub(super) vote: Option<u64>,
    /// It may have a grant of ours, going by its last reply.
    pub(super) ours: bool,
    pub(super) revoked: bool,
    /// The last round of renewals in which it was asked, and has not answered or has succeeded.
    pub(super) renewing: u64,
    /// The last round of renewals that it took part in.
    pub(super) renewed: u64,
}

impl ContenderNode {
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    pub(super) fn is_asked_in(&self, round: u64) -> bool {
        self.asked == Some(round)
    }

    /// Begins a round. Returns true if the node can be asked.
    pub(super) fn begin(&mut self, round: u64) -> bool {
        if self.is_asked() || self.releasing > 0 {
            self.denial =
                NodeDenial::Trouble("it has not answered what was sent before".to_owned());
            return false;
        }
        *self = Self { asked: Some(round), unanswered: self.unanswered, ..Self::default() };
        true
    }

    /// Returns whether it may have a grant of ours, now or later.
    pub(super) fn may_have(&self) -> bool {
        self.ours || self.is_asked() || self.unanswered
    }

    /// Returns whether it needs a release for this round. Earlier rounds sent their own.
    pub(super) fn needs_release(&self, round: u64) -> bool {
        let is_releasing = self.releasing > 0 || self.is_asked();
        self.ours || self.is_asked_in(round) || (self.unanswered && !is_releasing)
    }

    /// Records the node's reply that it has nothing of ours.
    pub(super) fn is_gone(&mut self) {
        self.vote = None;
        self.ours = false;
        self.denial = NodeDenial::Trouble("it holds it no more".to_owned());
    }

    pub(super) fn trouble_text(&self) -> Option<String> {
        match &self.denial {
            NodeDenial::Nothing => None,
            NodeDenial::Busy => Some("somebody else holds it there".to_owned()),
            NodeDenial::Refused(refusal) => Some(refusal.to_string()),
            NodeDenial::Trouble(why) => Some(why.clone()),
        }
    }
}
