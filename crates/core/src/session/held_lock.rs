//! One lock that the session keeps: when to renew it, and from when on it counts as lost.
//!
//! ```text
//!   granted          renew at a third                       lost, for good
//!   ├────────────────────┼────────────────────────────────────────┤ · · · ┤ engine's deadline
//!                        └─ fails: again and again, with pauses ──►
//! ```

use std::sync::Arc;

use super::timers::DueTime;
use super::turns::TurnBudget;
use super::{Backoff, Hold, Loss};
use crate::limits;

/// A renewal comes early by no more than this part of what is left.
const EARLY_PART: u64 = 16;

/// A held lock with its renewal schedule.
#[derive(Debug)]
pub(super) struct HeldLock {
    pub(super) hold: Arc<Hold>,
    /// Which server it is on.
    pub(super) source: u64,
    pub(super) due: DueTime,
    /// The public id of its owner, once somebody asked for it.
    pub(super) id: Option<String>,
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
        held.plan(now_us);
        held
    }

    /// The next renewal is due at a third of what is left; never if `max_hold` ends before.
    fn plan(&mut self, now_us: u64) {
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

    /// A renewal was granted. Returns the loss if it came too late: then the lock has to be released.
    pub(super) fn handle_renewed(&mut self, now_us: u64, valid_until_us: u64) -> Option<Loss> {
        self.is_renewing = false;
        let loss = self.hold.extend(now_us, valid_until_us);
        if loss.is_none() {
            self.backoff.reset();
            self.plan(now_us);
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
