//! Turns that are handed on inside one client, without the store.
//!
//! ```text
//!   store:   ── grant, with tokens 7…10 ─────────────────────────────── release, 10 was used ──►
//!   here:    leader: turn 7 ─► next: turn 8 ─► next: turn 9 ─► next: turn 10 ┘
//!                                 the line: first come, first served         └─► the next one leads
//! ```
//!
//! Of the acquires that want the same lock on the same terms one leads: it asks the store as any other
//! does, with tokens for several turns. The grant says how many there are. The end of a turn hands the next one to the first in line, until
//! the tokens are used up, the lock is lost, or it has been kept for the length of a lease: then the
//! lock goes back to the store, with the last token that was used, and the first in line leads, from the tail of the store's queue.
//!
//! Invariant: a line is there exactly as long as somebody leads it or has a turn, and that is one at a
//! time. An acquire that was offered the lead or a turn and is cancelled passes it on.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::acquiring::Stage;
use super::{Hold, Session};
use crate::{Name, Owner, Token};

/// What is shared: a lock on these terms.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Course {
    pub(super) lock: Name,
    pub(super) lease_ms: u64,
    pub(super) max_hold_us: Option<u64>,
    pub(super) turns: u32,
}

/// The acquires that wait for one of this client to be done, in order.
#[derive(Debug, Default)]
pub(super) struct Line {
    waiting: BTreeMap<u64, Owner>,
    next: u64,
}

/// What is handed on with a held lock.
#[derive(Debug)]
pub(super) struct Seat {
    /// The token of the turn under way.
    token: Option<Token>,
    /// How many turns may follow.
    left: u32,
    /// From then on it is others' turn.
    until_us: u64,
}

/// One turn. Its guard gives it back at the end.
#[derive(Debug)]
pub struct Turn {
    /// The fencing token of this turn.
    pub token: Option<Token>,
    pub(super) course: Arc<Course>,
}

impl Seat {
    pub(super) fn first(now_us: u64, course: &Course, hold: &Hold) -> Self {
        let until_us = now_us.saturating_add(course.lease_ms.saturating_mul(1_000));
        Self { token: hold.token(), left: hold.tokens().saturating_sub(1), until_us }
    }

    /// The last token that was used.
    pub(super) fn last_used(&self) -> Option<Token> {
        self.token
    }

    /// Goes on to the next turn, if there is one. Returns its token.
    fn next(&mut self, now_us: u64) -> Option<Option<Token>> {
        if now_us >= self.until_us {
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        self.token = self.token.map(|token| Token::from_raw(token.raw() + 1));
        Some(self.token)
    }
}

impl Session {
    /// Joins the line, or leads a new one.
    pub(super) fn enter_line(&mut self, course: &Arc<Course>, owner: Owner) -> Stage {
        match self.lines.get_mut(course) {
            Some(line) => {
                let number = line.next;
                line.next += 1;
                line.waiting.insert(number, owner);
                Stage::InLine { number }
            }
            None => {
                self.lines.insert(course.clone(), Line::default());
                Stage::Ask
            }
        }
    }

    pub(super) fn leave_line(&mut self, course: &Arc<Course>, number: u64) {
        if let Some(line) = self.lines.get_mut(course) {
            line.waiting.remove(&number);
        }
    }

    /// Hands the turn to the first in line. False if the lock has to go back to the store: then the
    /// first in line leads.
    pub(super) fn pass_on(&mut self, now_us: u64, hold: &Arc<Hold>, course: &Arc<Course>) -> bool {
        let is_held = self.loss(now_us, hold).is_none();
        let has_next = self.lines.get(course).is_some_and(|line| !line.waiting.is_empty());
        let seat = self.holds.get_mut(&hold.owner()).and_then(|kept| kept.seat.as_mut());
        let next = seat.filter(|_| is_held && has_next).and_then(|seat| seat.next(now_us));
        match next {
            Some(token) => {
                let turn = Turn { token, course: course.clone() };
                self.tell_next(course, Stage::Turn { hold: hold.clone(), turn })
            }
            None => {
                self.lead_on(course);
                false
            }
        }
    }

    /// Somebody else of the line asks the store.
    pub(super) fn lead_on(&mut self, course: &Arc<Course>) {
        if !self.tell_next(course, Stage::Ask) {
            self.lines.remove(course);
        }
    }

    fn tell_next(&mut self, course: &Arc<Course>, stage: Stage) -> bool {
        let next = self.lines.get_mut(course).and_then(|line| line.waiting.pop_first());
        let Some(acquire) = next.and_then(|(_, owner)| self.acquires.get_mut(&owner)) else {
            return false;
        };
        acquire.stage = stage;
        self.effects.wakers.extend(acquire.waker.take());
        true
    }
}
