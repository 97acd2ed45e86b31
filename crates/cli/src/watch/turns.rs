//! Who held what in the last minutes.

use std::collections::VecDeque;

use serde::Serialize;
use taketurns::{HolderView, Member, Name, Token};

use crate::output::whole_millis;

/// For how long a turn that is over is remembered.
const KEPT_MS: u64 = 15 * 60 * 1_000;
/// How many are, at most: the newest.
const KEPT_MAX: usize = 20_000;

/// One holder's turn, as far as polling has shown it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ObservedTurn {
    /// Tells it from all others of this server.
    pub(crate) id: u64,
    pub(crate) lock: Name,
    pub(crate) who: String,
    pub(crate) why: String,
    pub(crate) token: Option<Token>,
    pub(crate) member: Option<Member>,
    /// When it began, in Unix milliseconds.
    pub(crate) from_ms: u64,
    /// When it was over; null while it goes on.
    pub(crate) to_ms: Option<u64>,
    /// It was broken.
    pub(crate) broken: bool,
    /// At which look the last of this was learnt.
    #[serde(skip)]
    pub(crate) learnt: u64,
}

impl ObservedTurn {
    pub(super) fn began(id: u64, lock: &Name, holder: &HolderView, now_ms: u64, look: u64) -> Self {
        Self {
            id,
            lock: lock.clone(),
            who: holder.label.who().to_owned(),
            why: holder.label.why().to_owned(),
            token: holder.token,
            member: holder.member.clone(),
            from_ms: now_ms.saturating_sub(whole_millis(holder.held_for)),
            to_ms: None,
            broken: holder.revoked,
            learnt: look,
        }
    }
}

/// The turns that are over, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct PastTurns(VecDeque<ObservedTurn>);

impl PastTurns {
    pub(super) fn add(&mut self, turn: ObservedTurn) {
        self.0.push_back(turn);
    }

    /// Forgets what is too old, or too much.
    pub(super) fn trim(&mut self, now_ms: u64) {
        let is_old = |turn: &ObservedTurn| turn.to_ms.unwrap_or(0).saturating_add(KEPT_MS) < now_ms;
        while self.0.len() > KEPT_MAX || self.0.front().is_some_and(is_old) {
            self.0.pop_front();
        }
    }

    /// The newest first.
    pub(super) fn newest(&self) -> impl Iterator<Item = &ObservedTurn> {
        self.0.iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::tests::{held, name};

    #[test]
    fn the_past_is_bounded_in_time_and_in_number() {
        let mut past = PastTurns::default();
        let turn = |id| ObservedTurn {
            to_ms: Some(id),
            ..ObservedTurn::began(id, &name("a"), &held(1, 0).holders[0], id, 1)
        };
        for id in 0..KEPT_MAX as u64 + 5 {
            past.add(turn(id));
        }
        past.trim(0);
        assert_eq!(past.newest().count(), KEPT_MAX);
        assert_eq!(past.newest().last().unwrap().id, 5, "the oldest go");
        past.trim(KEPT_MS + 100);
        assert_eq!(past.newest().last().unwrap().id, 100);
    }
}
