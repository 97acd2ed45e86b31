//! All that a client holds: taking, renewing, losing and giving back.
//!
//! ```text
//!   granted          renew at a third                       lost, for good
//!   ├────────────────────┼────────────────────────────────────────┤ · · · ┤ engine's deadline
//!                        └─ fails: again and again, with pauses ──►
//! ```
//!
//! Invariant: each held lock has a timer, for the time at which its renewal is due or it is lost. While a
//! renewal is under way, the timer is for the loss. The first to notice a loss reports it
//! ([`super::SessionEvent::Lost`]), and nobody else does.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::release::{ReleaseAction, ReleaseId};
use super::timers::{DueTime, Timer};
use super::turns::{LocalTurn, TurnBudget};
use super::{
    Anchor, Backoff, CallFailure, Hold, HoldTerms, Loss, LossCause, Origin, Session, SessionEvent,
    TimedReply, Transmit, WakerSwap,
};
use crate::{AttemptEnd, Grant, Owner, Reply, Token, limits};

/// Renewals due within this time go along with one that is due now.
const SOON_US: u64 = 250_000;
/// The most renewals in one write. A longer write would delay its own answers.
const TOGETHER_MAX: usize = 256;

/// A renewal comes early by no more than this part of what is left.
const EARLY_PART: u64 = 16;

/// A held lock to be renewed.
#[derive(Clone, Debug)]
pub struct HoldRenewal {
    /// Which.
    pub hold: Arc<Hold>,
    /// How long.
    pub lease_ms: u64,
}

/// What becomes of a guard's lock at its end.
#[derive(Debug)]
pub struct GuardEnd {
    /// Why the lock was lost, if it was.
    pub loss: Option<LossCause>,
    /// For how long it was held; `None` if it was lost.
    pub held_us: Option<u64>,
    /// What its release needs. `None` if another operation of this client holds the lock now, so that nothing is
    /// released.
    pub release: Option<(ReleaseId, ReleaseAction)>,
}

impl Session {
    /// Takes over the lock of a handle, which was just renewed; `token` is the handle's. Returns `None` if the
    /// lease has run out meanwhile.
    pub fn adopt(
        &mut self,
        now_us: u64,
        terms: HoldTerms,
        token: Option<Token>,
        grant: Grant,
        (origin, anchor): (Origin, Anchor),
    ) -> Option<Arc<Hold>> {
        let hold = Hold::new(now_us, terms, grant, anchor)?.adopted(token);
        self.note_owner(hold.owner());
        Some(self.keep(now_us, hold, origin.source, None, None))
    }

    /// From now on it is renewed.
    pub(super) fn keep(
        &mut self,
        now_us: u64,
        hold: Hold,
        source: u64,
        budget: Option<TurnBudget>,
        id: Option<u64>,
    ) -> Arc<Hold> {
        let (owner, hold) = (hold.owner(), Arc::new(hold));
        if self.is_unattended {
            self.forget_id(id);
            self.report(&hold, hold.lose(now_us, LossCause::Unattended));
            return hold;
        }
        // Of a handle that was copied: the other guard is not renewed any more.
        self.forget(owner);
        let mut held = HeldLock::new(now_us, hold.clone(), source, budget);
        held.id = id;
        self.holds.insert(owner, held);
        self.set_hold_timer(now_us, owner);
        hold
    }

    /// A guard ends.
    pub fn release(&mut self, now_us: u64, hold: &Arc<Hold>, turn: Option<&LocalTurn>) -> GuardEnd {
        let loss = self.loss(now_us, hold);
        // Before anybody else can have it: the next of this process may begin at once.
        let held_us = match loss {
            None => hold.end_turn().map(|since_us| now_us.saturating_sub(since_us)),
            Some(_) => None,
        };
        if let Some(turn) = turn
            && self.pass_turn(now_us, hold, &turn.group)
        {
            return GuardEnd { loss, held_us, release: None };
        }
        let id = self.begin_give_back(now_us, hold);
        let next = self.poll_release(now_us, id, &mut WakerSwap::default());
        GuardEnd { loss, held_us, release: Some((id, next)) }
    }

    /// An attempt at work ends. If it was lost before, it is not done, whatever it says.
    pub fn finish(&mut self, now_us: u64, hold: &Arc<Hold>, end: AttemptEnd) -> GuardEnd {
        let loss = self.loss(now_us, hold);
        let held_us = match loss {
            None => hold.end_turn().map(|since_us| now_us.saturating_sub(since_us)),
            Some(_) => None,
        };
        let id = self.begin_give_back(now_us, hold);
        if let (None, Some(token)) = (loss, hold.token()) {
            self.finish_with(id, token, end);
        }
        let next = self.poll_release(now_us, id, &mut WakerSwap::default());
        GuardEnd { loss, held_us, release: Some((id, next)) }
    }

    /// A guard becomes a handle: nobody renews its lock any more, and nobody here gives it back.
    pub fn carry(&mut self, hold: &Arc<Hold>, turn: Option<&LocalTurn>) {
        self.forget(hold.owner());
        hold.end();
        if let Some(turn) = turn {
            self.pass_lead(&turn.group);
        }
    }

    /// Gives a held lock back in the background.
    pub(super) fn give_back(&mut self, now_us: u64, hold: &Arc<Hold>) {
        let (lock, id) = (hold.name().clone(), self.begin_give_back(now_us, hold));
        self.transmits.push(Transmit::Release { lock, id, owner: hold.owner() });
    }

    fn begin_give_back(&mut self, now_us: u64, hold: &Arc<Hold>) -> ReleaseId {
        let HoldTerms { owner, lease_ms, bury_until_ms, .. } = hold.terms();
        // Of one that was forgotten before it is not known which tokens were used.
        let last_used = self
            .forget(*owner)
            .filter(|_| hold.tokens() > 1)
            .and_then(|held| held.budget.map_or(hold.token(), |budget| budget.last_used()));
        hold.end();
        let for_us = lease_ms.saturating_mul(1_000);
        self.begin_release(now_us, *owner, *bury_until_ms, last_used, for_us)
    }

    pub(super) fn forget(&mut self, owner: Owner) -> Option<HeldLock> {
        let mut held = self.holds.remove(&owner)?;
        self.timers.set(&mut held.due, || Timer::Hold(owner), None);
        self.forget_id(held.id.take());
        if let Some(budget) = &held.budget {
            self.settle_unused(&budget.group, owner);
        }
        Some(held)
    }

    /// Returns why a lock is lost, if it is.
    pub(super) fn loss(&mut self, now_us: u64, hold: &Arc<Hold>) -> Option<LossCause> {
        let loss = hold.loss(now_us);
        self.report(hold, loss);
        loss.map(|loss| loss.cause)
    }

    pub(super) fn report(&mut self, hold: &Arc<Hold>, loss: Option<Loss>) {
        if let Some(Loss { cause, is_news: true }) = loss {
            self.effects.events.push(SessionEvent::Lost { hold: hold.clone(), cause });
        }
    }

    pub(super) fn lose(&mut self, now_us: u64, owner: Owner, cause: LossCause) {
        let Some(held) = self.holds.get(&owner) else { return };
        let hold = held.hold.clone();
        if let Some(loss) = hold.lose(now_us, cause) {
            self.handle_loss(now_us, &hold, loss);
        }
    }

    /// It is lost, and the engine may not know. A renewal may be answered yet, and nobody would keep what
    /// it renewed: so it is given back. But the holder of a lock that was broken has until its deadline to
    /// stop, unless nobody uses it; the engine, which renews it no more, passes it on then.
    fn handle_loss(&mut self, now_us: u64, hold: &Arc<Hold>, loss: Loss) {
        self.report(hold, Some(loss));
        match loss.cause {
            LossCause::Revoked if !self.is_unused(hold) => drop(self.forget(hold.owner())),
            _ => self.give_back(now_us, hold),
        }
    }

    /// Sets the timer of a held lock.
    fn set_hold_timer(&mut self, now_us: u64, owner: Owner) {
        let Some(held) = self.holds.get_mut(&owner) else { return };
        let at_us = match held.need(now_us, 0) {
            HoldAction::Wait { until_us } => until_us,
            HoldAction::Renew { .. } => now_us,
            HoldAction::Lost(loss) => {
                let hold = held.hold.clone();
                return self.handle_loss(now_us, &hold, loss);
            }
        };
        self.timers.set(&mut held.due, || Timer::Hold(owner), Some(at_us));
    }

    /// Renews what is due, and what will be soon.
    pub(super) fn renew(&mut self, now_us: u64) {
        let soon = self.timers.due(now_us.saturating_add(SOON_US));
        let holds = soon.filter_map(|(_, timer)| match timer {
            Timer::Hold(owner) => Some(*owner),
            _ => None,
        });
        // A server that does not answer must not hold up what another answers.
        let mut renewals: BTreeMap<u64, Vec<HoldRenewal>> = BTreeMap::new();
        for owner in holds.collect::<Vec<_>>() {
            let Some(hold) = self.holds.get(&owner).map(|held| held.hold.clone()) else { continue };
            let is_unused = self.is_unused(&hold);
            let Some(held) = self.holds.get_mut(&owner) else { continue };
            match held.need(now_us, SOON_US) {
                HoldAction::Wait { .. } => {}
                HoldAction::Renew { .. } if is_unused => self.give_back(now_us, &hold),
                HoldAction::Renew { lease_ms } => {
                    held.handle_renewal_sent();
                    renewals.entry(held.source).or_default().push(HoldRenewal { hold, lease_ms });
                }
                HoldAction::Lost(loss) => self.handle_loss(now_us, &hold, loss),
            }
            self.set_hold_timer(now_us, owner);
        }
        for mut renewals in renewals.into_values() {
            while !renewals.is_empty() {
                let rest = renewals.split_off(renewals.len().min(TOGETHER_MAX));
                self.transmits.push(Transmit::Renew(renewals));
                renewals = rest;
            }
        }
    }

    /// A renewal was answered, or failed. True if the lock is held by it.
    pub fn handle_renewal(
        &mut self,
        now_us: u64,
        owner: Owner,
        answer: Result<TimedReply, CallFailure>,
    ) -> bool {
        if let Ok(answer) = &answer {
            self.observe(now_us, answer.origin, answer.anchor);
        }
        let random = self.jitter.next();
        let Some(held) = self.holds.get_mut(&owner) else { return false };
        let is_renewed = match answer {
            Ok(TimedReply { reply: Reply::Renewed(grant), origin, anchor }) => {
                held.source = origin.source;
                let wanted = held.budget.as_ref().filter(|_| grant.wanted);
                let wanted = wanted.map(|budget| budget.group.clone());
                let until_us = anchor.valid_until_us(grant.deadline_ms);
                if let Some(loss) = held.handle_renewed(now_us, until_us) {
                    let hold = held.hold.clone();
                    self.handle_loss(now_us, &hold, loss);
                    return false;
                }
                if let Some(group) = wanted {
                    self.want(now_us, &group);
                }
                true
            }
            Ok(TimedReply { reply: Reply::Revoked, .. }) => {
                self.lose(now_us, owner, LossCause::Revoked);
                false
            }
            Ok(TimedReply { reply: Reply::NotHeld, .. }) => {
                self.lose(now_us, owner, LossCause::Gone);
                false
            }
            Ok(_) | Err(_) => {
                held.handle_failure(now_us, random);
                false
            }
        };
        self.set_hold_timer(now_us, owner);
        is_renewed
    }
}

/// A held lock with its renewal schedule.
#[derive(Debug)]
pub(super) struct HeldLock {
    pub(super) hold: Arc<Hold>,
    /// Which server it is on.
    pub(super) source: u64,
    pub(super) due: DueTime,
    /// The public id of its owner, once somebody asked for it.
    pub(super) id: Option<u64>,
    /// If the lock is handed on inside this process.
    pub(super) budget: Option<TurnBudget>,
    renew_at_us: u64,
    is_renewing: bool,
    backoff: Backoff,
}

/// What the session does next with a held lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoldAction {
    /// Nothing until this local time.
    Wait { until_us: u64 },
    /// A renewal for this long. Until it is answered nothing else is due but being lost.
    Renew { lease_ms: u64 },
    /// It is over.
    Lost(Loss),
}

impl HeldLock {
    pub(super) fn new(
        now_us: u64,
        hold: Arc<Hold>,
        source: u64,
        budget: Option<TurnBudget>,
    ) -> Self {
        let mut held = Self {
            hold,
            source,
            due: DueTime::default(),
            id: None,
            budget,
            renew_at_us: 0,
            is_renewing: false,
            backoff: Backoff::default(),
        };
        held.schedule_renewal(now_us);
        held
    }

    /// The next renewal is due at a third of what is left; never if `max_hold` ends before.
    fn schedule_renewal(&mut self, now_us: u64) {
        let until_us = self.hold.valid_until_us();
        let is_last = until_us >= self.hold.end_us();
        let third_us = now_us.saturating_add(until_us.saturating_sub(now_us) / 3);
        self.renew_at_us = if is_last { u64::MAX } else { third_us };
    }

    /// Returns what it needs. A renewal that is due within `by_us` is due now, unless that is much of
    /// what is left: so that many can be renewed together.
    pub(super) fn need(&self, now_us: u64, by_us: u64) -> HoldAction {
        if let Some(loss) = self.hold.loss(now_us) {
            return HoldAction::Lost(loss);
        }
        let until_us = self.hold.valid_until_us();
        let by_us = by_us.min(until_us.saturating_sub(now_us) / EARLY_PART);
        if self.is_renewing {
            return HoldAction::Wait { until_us };
        }
        if self.renew_at_us > now_us + by_us || self.renew_at_us >= until_us {
            return HoldAction::Wait { until_us: self.renew_at_us.min(until_us) };
        }
        HoldAction::Renew { lease_ms: self.lease_from(now_us) }
    }

    pub(super) fn handle_renewal_sent(&mut self) {
        self.is_renewing = true;
    }

    /// A renewal was granted. Returns the loss if it came too late: then the client must release the lock.
    pub(super) fn handle_renewed(&mut self, now_us: u64, valid_until_us: u64) -> Option<Loss> {
        self.is_renewing = false;
        let loss = self.hold.extend(now_us, valid_until_us);
        if loss.is_none() {
            self.backoff.reset();
            self.schedule_renewal(now_us);
        }
        loss
    }

    /// A renewal could not be sent, or its outcome is unknown: again after a pause.
    pub(super) fn handle_failure(&mut self, now_us: u64, random: u64) {
        self.is_renewing = false;
        self.renew_at_us = now_us.saturating_add(self.backoff.pause_us(random));
    }

    /// The full lease, or less if the end of `max_hold` is nearer.
    fn lease_from(&self, now_us: u64) -> u64 {
        let lease_ms = self.hold.terms().lease_ms;
        if self.hold.end_us() == u64::MAX {
            return lease_ms;
        }
        // A tenth more than is left, so that the margin does not end the hold early.
        let left_ms = self.hold.end_us().saturating_sub(now_us) / 1_000;
        (left_ms + left_ms / 10 + limits::LEASE_MS_MIN).min(lease_ms)
    }
}

#[cfg(test)]
mod tests;
