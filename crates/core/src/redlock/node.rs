//! What a contender knows of one node: whether it granted, and the requests under way.

use crate::Refusal;

/// Why a node did not grant the last acquire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum NodeDenial {
    #[default]
    Nothing,
    Busy,
    /// A quarantine ends at a time of the local clock.
    Refused(Refusal),
    Trouble(String),
}

/// One node from the contender's point of view.
#[derive(Clone, Debug, Default)]
pub(super) struct ContenderNode {
    /// The round of the acquire that is under way.
    pub(super) asked: Option<u64>,
    /// Releases under way.
    pub(super) releasing: u32,
    /// An acquire was not answered, and may arrive yet.
    pub(super) unanswered: bool,
    pub(super) denial: NodeDenial,
    /// Until which local time it has granted the lock.
    pub(super) vote: Option<u64>,
    /// It may have a grant of ours, by what it said last.
    pub(super) ours: bool,
    pub(super) revoked: bool,
    /// The last round of renewals that it was asked in and that is not answered, or was with success.
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

    /// A round begins. True if it can be asked.
    pub(super) fn begin(&mut self, round: u64) -> bool {
        if self.is_asked() || self.releasing > 0 {
            self.denial =
                NodeDenial::Trouble("it has not answered what was sent before".to_owned());
            return false;
        }
        *self = Self { asked: Some(round), unanswered: self.unanswered, ..Self::default() };
        true
    }

    /// May it have a grant of ours, now or yet?
    pub(super) fn may_have(&self) -> bool {
        self.ours || self.is_asked() || self.unanswered
    }

    /// Is it to be told that this round has failed? Of a round before it was told then.
    pub(super) fn needs_release(&self, round: u64) -> bool {
        let is_releasing = self.releasing > 0 || self.is_asked();
        self.ours || self.is_asked_in(round) || (self.unanswered && !is_releasing)
    }

    /// It has nothing of ours, by its own word.
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
