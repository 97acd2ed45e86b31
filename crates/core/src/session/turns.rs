//! Local turns: a grant that is handed on among the acquires of one client, without the store.
//!
//! ```text
//!   store:   ── grant, with tokens 7…10 ─────────────────────────────── release, 10 was used ──►
//!   here:    leader: turn 7 ─► next: turn 8 ─► next: turn 9 ─► next: turn 10 ┘
//!                                 the queue: first come, first served        └─► the next one leads
//! ```
//!
//! Of the acquires that want the same lock on the same terms one leads: it asks the store as any other
//! does, with tokens for several turns. The grant says how many there are. The end of a turn hands the next
//! one to the first in the queue, until the tokens are used up, the lock is lost, or it has been kept for the
//! length of a lease. Then the lock goes back to the store, with the last token that was used, and the first
//! in the queue leads, from the tail of the store's queue.
//!
//! Invariant: a turn queue exists exactly as long as one acquire leads it or has a turn. An acquire that was offered the lead or a turn and is cancelled passes it on.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::acquire_state::AcquireStage;
use super::{Hold, Session};
use crate::{Name, Owner, Token};

/// The acquires of one client that share local turns: same lock, same terms.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TurnGroup {
    pub(super) lock: Name,
    pub(super) lease_ms: u64,
    pub(super) max_hold_us: Option<u64>,
    pub(super) turns: u32,
}

/// The acquires that wait for a local turn, in order.
#[derive(Debug, Default)]
pub(super) struct TurnQueue {
    waiting: BTreeMap<u64, Owner>,
    next: u64,
}

/// How many local turns a grant still has, and until when.
#[derive(Debug)]
pub(super) struct TurnBudget {
    /// The token of the turn under way.
    token: Option<Token>,
    /// How many turns may follow.
    left: u32,
    /// The lock goes back to the store then.
    until_us: u64,
}

/// One turn. Its guard gives it back at the end.
#[derive(Debug)]
pub struct LocalTurn {
    /// The fencing token of this turn.
    pub token: Option<Token>,
    pub(super) group: Arc<TurnGroup>,
}

impl TurnBudget {
    pub(super) fn first(now_us: u64, group: &TurnGroup, hold: &Hold) -> Self {
        let until_us = now_us.saturating_add(group.lease_ms.saturating_mul(1_000));
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
    /// Joins the turn queue of the group, or leads a new one.
    pub(super) fn join_turn_queue(&mut self, group: &Arc<TurnGroup>, owner: Owner) -> AcquireStage {
        match self.turn_queues.get_mut(group) {
            Some(queue) => {
                let number = queue.next;
                queue.next += 1;
                queue.waiting.insert(number, owner);
                AcquireStage::AwaitingTurn { number }
            }
            None => {
                self.turn_queues.insert(group.clone(), TurnQueue::default());
                AcquireStage::Ask
            }
        }
    }

    pub(super) fn leave_turn_queue(&mut self, group: &Arc<TurnGroup>, number: u64) {
        if let Some(queue) = self.turn_queues.get_mut(group) {
            queue.waiting.remove(&number);
        }
    }

    /// Hands the turn to the first in the queue. False if the lock has to go back to the store: then the
    /// first in the queue leads.
    pub(super) fn pass_turn(
        &mut self,
        now_us: u64,
        hold: &Arc<Hold>,
        group: &Arc<TurnGroup>,
    ) -> bool {
        let is_held = self.loss(now_us, hold).is_none();
        let has_next = self.turn_queues.get(group).is_some_and(|queue| !queue.waiting.is_empty());
        let budget = self.holds.get_mut(&hold.owner()).and_then(|held| held.budget.as_mut());
        let next = budget.filter(|_| is_held && has_next).and_then(|budget| budget.next(now_us));
        match next {
            Some(token) => {
                let turn = LocalTurn { token, group: group.clone() };
                self.wake_next(group, AcquireStage::Turn { hold: hold.clone(), turn })
            }
            None => {
                self.pass_lead(group);
                false
            }
        }
    }

    /// Lets the next of the queue ask the store.
    pub(super) fn pass_lead(&mut self, group: &Arc<TurnGroup>) {
        if !self.wake_next(group, AcquireStage::Ask) {
            self.turn_queues.remove(group);
        }
    }

    fn wake_next(&mut self, group: &Arc<TurnGroup>, stage: AcquireStage) -> bool {
        let next = self.turn_queues.get_mut(group).and_then(|queue| queue.waiting.pop_first());
        let Some(acquire) = next.and_then(|(_, owner)| self.acquires.get_mut(&owner)) else {
            return false;
        };
        acquire.stage = stage;
        self.effects.wakers.extend(acquire.waker.take());
        true
    }
}
