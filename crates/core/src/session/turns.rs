//! Keeping: a grant that serves several acquires of one client, one after the other, without the store.
//!
//! ```text
//!   store:  ── grant, with tokens 7…99 ────────────────────────── wanted ──── release, 9 was used ──►
//!   here:   leader: turn 7 ─► next in line: turn 8 ─► idle ─► turn 9 ┘  └─► the first in line leads
//! ```
//!
//! Of the acquires that want the same lock on the same terms one leads: it asks the store as any other
//! does, with tokens for several turns. The grant says how many there are. The end of a turn hands the
//! next one to the first in line. The keep ends when its tokens are used up, when the lock is lost, or
//! when it has lasted for the length of a lease. Then the lock goes back to the store with the last token
//! that was used, and the first in line leads, from the tail of the store's queue.
//!
//! With [`Ask::Turns`] the keep also ends when nobody is in line. With [`Ask::Stay`] the lock is then
//! kept *idle*, and the next acquire takes it at once. Such a keep ends as soon as another client *wants*
//! the lock: at once if no turn is under way, else with that turn. An acquire of this client on other
//! terms wants it too.
//!
//! Invariants, and who upholds them:
//!
//! 1. A turn queue exists exactly as long as one acquire leads it or has a turn, or its hold is idle:
//!    `join_turn_queue` begins it, `pass_lead` and `settle_unused` end it. An acquire that was offered the
//!    lead or a turn and is cancelled passes it on (`end_acquire`).
//! 2. `unused` is a hold that no guard has: idle, or offered to an acquire that has not polled yet. While
//!    it is idle, nobody is in line: `pass_turn` makes it idle only then, and `join_turn_queue` offers it.
//! 3. No turn begins once a release may be under way, or with a token that another turn had: code that gives
//!    the lock back removes it from `holds` first (`begin_give_back`), and only a hold that is there has a
//!    next token (`TurnBudget::next`).
//! 4. No turn begins after the lock was wanted, in a group that stays: `want` ends what is unused at once,
//!    and `pass_turn` asks `is_wanted`. So the store waits at most for the turn under way.
//! 5. What is unused is never renewed, but given back when a renewal is due (`Session::renew`). So a keep
//!    that nobody uses ends within a third of its lease, even if every message that it is wanted was lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::acquire_state::AcquireStage;
use super::{AcquireSpec, Hold, HoldTerms, Session, WaitLimit};
use crate::{Ask, Name, Owner, Token};

/// The acquires of one client that share a grant: same lock, same terms.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TurnGroup {
    pub(super) lock: Name,
    pub(super) lease_ms: u64,
    pub(super) max_hold_us: Option<u64>,
    pub(super) turns: u32,
    /// It is kept idle until it is wanted ([`Ask::Stay`]).
    pub(super) stays: bool,
}

/// The acquires that wait for a local turn, in order, and what is known of the hold that serves them.
#[derive(Debug, Default)]
pub(super) struct TurnQueue {
    waiting: BTreeMap<u64, Owner>,
    next: u64,
    unused: Option<UnusedHold>,
    /// Somebody outside the group wants the lock.
    is_wanted: bool,
}

/// A hold that no guard has.
#[derive(Debug)]
struct UnusedHold {
    hold: Arc<Hold>,
    /// The acquire that was offered it; `None` if the hold is idle.
    offered: Option<Owner>,
}

/// How many local turns a grant still has, and until when.
#[derive(Debug)]
pub(super) struct TurnBudget {
    pub(super) group: Arc<TurnGroup>,
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

impl TurnGroup {
    /// The group of acquires that an acquire shares a grant with, if it does. One that does not wait shares none.
    pub(super) fn of(spec: &AcquireSpec) -> Option<Arc<Self>> {
        let (turns, stays) = match spec.ask {
            _ if spec.wait_limit == WaitLimit::Try => return None,
            Ask::Turns { tokens } => (tokens, false),
            Ask::Stay { tokens } => (tokens, true),
            _ => return None,
        };
        let HoldTerms { ref lock, lease_ms, max_hold_us, .. } = spec.terms;
        Some(Arc::new(Self { lock: lock.clone(), lease_ms, max_hold_us, turns, stays }))
    }
}

impl TurnBudget {
    pub(super) fn first(now_us: u64, group: Arc<TurnGroup>, hold: &Hold) -> Self {
        let until_us = now_us.saturating_add(group.lease_ms.saturating_mul(1_000));
        let left = hold.tokens().saturating_sub(1);
        Self { group, token: hold.token(), left, until_us }
    }

    /// The last token that was used.
    pub(super) fn last_used(&self) -> Option<Token> {
        self.token
    }

    fn has_next(&self, now_us: u64) -> bool {
        self.left > 0 && now_us < self.until_us
    }

    /// Goes on to the next turn, if there is one. Returns its token.
    fn next(&mut self, now_us: u64) -> Option<Option<Token>> {
        if !self.has_next(now_us) {
            return None;
        }
        self.left -= 1;
        self.token = self.token.map(|token| Token::from_raw(token.raw() + 1));
        Some(self.token)
    }
}

impl Session {
    /// Joins the turn queue of the group, or leads a new one. If the group's hold is idle, its next turn is offered
    /// at once.
    pub(super) fn join_turn_queue(
        &mut self,
        now_us: u64,
        group: &Arc<TurnGroup>,
        owner: Owner,
    ) -> AcquireStage {
        let Some(queue) = self.turn_queues.get_mut(group) else {
            self.turn_queues.insert(group.clone(), TurnQueue::default());
            return AcquireStage::Ask;
        };
        let Some(UnusedHold { hold, .. }) = queue.unused.take_if(|unused| unused.offered.is_none())
        else {
            let number = queue.next;
            queue.next += 1;
            queue.waiting.insert(number, owner);
            return AcquireStage::AwaitingTurn { number };
        };
        match self.next_turn(now_us, &hold) {
            Some(turn) => {
                self.offer(group, owner, &hold);
                AcquireStage::Turn { hold, turn }
            }
            None => {
                self.give_back(now_us, &hold);
                AcquireStage::Ask
            }
        }
    }

    pub(super) fn leave_turn_queue(&mut self, group: &Arc<TurnGroup>, number: u64) {
        if let Some(queue) = self.turn_queues.get_mut(group) {
            queue.waiting.remove(&number);
        }
    }

    /// A grant begins to serve its group.
    pub(super) fn begin_keep(&mut self, group: &Arc<TurnGroup>, is_wanted: bool) {
        if let Some(queue) = self.turn_queues.get_mut(group) {
            queue.is_wanted = is_wanted;
        }
    }

    /// The acquire that was offered a turn takes it, or gives it up.
    pub(super) fn handle_answered_offer(&mut self, group: &Arc<TurnGroup>) {
        if let Some(queue) = self.turn_queues.get_mut(group) {
            queue.unused = None;
        }
    }

    /// Hands the turn to the first in line, or keeps the lock idle. False if the lock has to go back to the store:
    /// then the first in line leads.
    pub(super) fn pass_turn(
        &mut self,
        now_us: u64,
        hold: &Arc<Hold>,
        group: &Arc<TurnGroup>,
    ) -> bool {
        let is_held = self.loss(now_us, hold).is_none();
        let Some(queue) = self
            .turn_queues
            .get_mut(group)
            .filter(|queue| is_held && !(group.stays && queue.is_wanted))
        else {
            self.pass_lead(group);
            return false;
        };
        let next = queue.waiting.first_key_value().map(|(number, owner)| (*number, *owner));
        match next {
            Some((number, owner)) => {
                let Some(turn) = self.next_turn(now_us, hold) else {
                    self.pass_lead(group);
                    return false;
                };
                self.leave_turn_queue(group, number);
                self.offer(group, owner, hold);
                self.advance(owner, AcquireStage::Turn { hold: hold.clone(), turn })
            }
            None => {
                let held = self.holds.get(&hold.owner()).and_then(|held| held.budget.as_ref());
                let stays = group.stays && held.is_some_and(|budget| budget.has_next(now_us));
                match stays {
                    true => queue.unused = Some(UnusedHold { hold: hold.clone(), offered: None }),
                    false => self.pass_lead(group),
                }
                stays
            }
        }
    }

    /// Lets the first in line ask the store.
    pub(super) fn pass_lead(&mut self, group: &Arc<TurnGroup>) {
        let Some(queue) = self.turn_queues.get_mut(group) else { return };
        let is_led = match queue.waiting.pop_first() {
            Some((_, owner)) => self.advance(owner, AcquireStage::Ask),
            None => false,
        };
        if !is_led {
            self.turn_queues.remove(group);
        }
    }

    /// The store says that another client wants the lock.
    pub(super) fn handle_wanted(&mut self, now_us: u64, owner: Owner, token: Token) {
        if let Some(acquire) = self.acquires.get_mut(&owner) {
            acquire.wanted = Some(token);
            return;
        }
        let held = self.holds.get(&owner).filter(|held| held.hold.is_of(Some(token)));
        let budget = held.and_then(|held| held.budget.as_ref());
        if let Some(group) = budget.map(|budget| budget.group.clone()) {
            self.want(now_us, &group);
        }
    }

    /// An acquire of this client wants the lock: those who keep it on other terms end their keep.
    pub(super) fn want_of_others(&mut self, now_us: u64, lock: &Name, own: Option<&TurnGroup>) {
        let (lease_ms, max_hold_us, turns, stays) = (0, None, 0, false);
        let first = TurnGroup { lock: lock.clone(), lease_ms, max_hold_us, turns, stays };
        let groups = self.turn_queues.range::<TurnGroup, _>(&first..).map(|(group, _)| group);
        let others = groups
            .take_while(|group| group.lock == *lock)
            .filter(|group| group.stays && own.is_none_or(|own| own != &***group));
        for group in others.cloned().collect::<Vec<_>>() {
            self.want(now_us, &group);
        }
    }

    /// Somebody outside the group wants the lock.
    pub(super) fn want(&mut self, now_us: u64, group: &Arc<TurnGroup>) {
        let Some(queue) = self.turn_queues.get_mut(group) else { return };
        queue.is_wanted = true;
        if let Some(unused) = &queue.unused {
            let hold = unused.hold.clone();
            self.give_back(now_us, &hold);
        }
    }

    /// Gives back all that is kept idle.
    pub fn end_keeps(&mut self, now_us: u64) {
        let unused = self.turn_queues.values().filter_map(|queue| queue.unused.as_ref());
        for hold in unused.map(|unused| unused.hold.clone()).collect::<Vec<_>>() {
            self.give_back(now_us, &hold);
        }
    }

    /// Is it held without a guard?
    pub(super) fn is_unused(&self, hold: &Hold) -> bool {
        let budget = self.holds.get(&hold.owner()).and_then(|held| held.budget.as_ref());
        let queue = budget.and_then(|budget| self.turn_queues.get(&budget.group));
        let unused = queue.and_then(|queue| queue.unused.as_ref());
        unused.is_some_and(|unused| unused.hold.owner() == hold.owner())
    }

    /// A hold is not kept any more. An acquire that was offered it leads, as soon as it polls.
    pub(super) fn settle_unused(&mut self, group: &Arc<TurnGroup>, owner: Owner) {
        let Some(queue) = self.turn_queues.get_mut(group) else { return };
        match queue.unused.take_if(|unused| unused.hold.owner() == owner) {
            Some(UnusedHold { offered: Some(offered), .. }) => {
                if let Some(acquire) = self.acquires.get_mut(&offered) {
                    acquire.stage = AcquireStage::Ask;
                }
            }
            Some(UnusedHold { offered: None, .. }) => drop(self.turn_queues.remove(group)),
            None => {}
        }
    }

    fn next_turn(&mut self, now_us: u64, hold: &Hold) -> Option<LocalTurn> {
        let budget = self.holds.get_mut(&hold.owner())?.budget.as_mut()?;
        let token = budget.next(now_us)?;
        Some(LocalTurn { token, group: budget.group.clone() })
    }

    fn offer(&mut self, group: &Arc<TurnGroup>, owner: Owner, hold: &Arc<Hold>) {
        if let Some(queue) = self.turn_queues.get_mut(group) {
            queue.unused = Some(UnusedHold { hold: hold.clone(), offered: Some(owner) });
        }
    }

    /// Moves an acquire in line on, and wakes it.
    fn advance(&mut self, owner: Owner, stage: AcquireStage) -> bool {
        let Some(acquire) = self.acquires.get_mut(&owner) else { return false };
        acquire.stage = stage;
        self.effects.wakers.extend(acquire.waker.take());
        true
    }
}
