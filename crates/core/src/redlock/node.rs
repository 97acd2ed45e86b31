//! What a contender knows of one node.

use crate::Refusal;

/// What a node said to the last acquire, if it did not grant it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Said {
    #[default]
    Nothing,
    Busy,
    /// A quarantine ends at a time of the local clock.
    Refused(Refusal),
    Trouble(String),
}

/// One node, as a contender sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// The round of the acquire that is under way.
    pub(super) asked: Option<u64>,
    /// Releases under way.
    pub(super) telling: u32,
    /// An acquire was not answered, and may arrive yet.
    pub(super) unheard: bool,
    pub(super) said: Said,
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

impl Node {
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    pub(super) fn is_asked_in(&self, round: u64) -> bool {
        self.asked == Some(round)
    }

    /// A round begins. True if it can be asked.
    pub(super) fn begin(&mut self, round: u64) -> bool {
        if self.is_asked() || self.telling > 0 {
            self.said = Said::Trouble("it has not answered what was sent before".to_owned());
            return false;
        }
        *self = Self { asked: Some(round), unheard: self.unheard, ..Self::default() };
        true
    }

    /// May it have a grant of ours, now or yet?
    pub(super) fn may_have(&self) -> bool {
        self.ours || self.is_asked() || self.unheard
    }

    /// Is it to be told that this round has failed? Of a round before it was told then.
    pub(super) fn is_to_be_told(&self, round: u64) -> bool {
        let is_told = self.telling > 0 || self.is_asked();
        self.ours || self.is_asked_in(round) || (self.unheard && !is_told)
    }

    /// It has nothing of ours, by its own word.
    pub(super) fn is_gone(&mut self) {
        self.vote = None;
        self.ours = false;
        self.said = Said::Trouble("it holds it no more".to_owned());
    }

    pub(super) fn why(&self) -> Option<String> {
        match &self.said {
            Said::Nothing => None,
            Said::Busy => Some("somebody else holds it there".to_owned()),
            Said::Refused(refusal) => Some(refusal.to_string()),
            Said::Trouble(why) => Some(why.clone()),
        }
    }
}
