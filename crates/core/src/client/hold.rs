//! A held lock as its client sees it: when to renew, and from when on it counts as lost.
//!
//! ```text
//!   granted          renew at a third                       lost, for good
//!   ├────────────────────┼────────────────────────────────────────┤ · · · ┤ engine's deadline
//!                        └─ fails: again and again, with pauses ──►
//! ```

use super::{Anchor, Backoff};
use crate::limits;

/// Why a lock counts as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LossCause {
    /// The lease ran out before it could be renewed.
    #[error("its lease ran out before it could be renewed")]
    Expired,
    /// The engine no longer knows of the grant.
    #[error("the store no longer knows of it")]
    Gone,
    /// Somebody broke the lock.
    #[error("somebody broke it")]
    Revoked,
    /// It was held for as long as it was allowed to.
    #[error("it was held for its max_hold")]
    MaxHold,
}

/// What a hold needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing until this local time.
    Wait {
        /// When to ask again.
        until_us: u64,
    },
    /// Send a renewal for this long. Until it is answered nothing else is due but being lost.
    Renew {
        /// How long.
        lease_ms: u64,
    },
    /// It is over.
    Lost(LossCause),
}

/// One held lock. Lost is final: nothing that comes later brings it back.
#[derive(Clone, Debug)]
pub struct Hold {
    lease_ms: u64,
    valid_until_us: u64,
    renew_at_us: u64,
    end_us: Option<u64>,
    backoff: Backoff,
    lost: Option<LossCause>,
}

impl Hold {
    /// A grant that is valid until a local time, taken at `now_us`. With `max_hold_us` it is not
    /// renewed past that time from now.
    pub fn new(now_us: u64, valid_until_us: u64, lease_ms: u64, max_hold_us: Option<u64>) -> Self {
        let mut hold = Self {
            lease_ms,
            valid_until_us,
            renew_at_us: 0,
            end_us: max_hold_us.map(|max_hold_us| now_us.saturating_add(max_hold_us)),
            backoff: Backoff::default(),
            lost: None,
        };
        hold.extend(now_us, valid_until_us);
        hold
    }

    /// Is it lost, and why? From its local deadline on it is, whatever else happens.
    pub fn lost(&mut self, now_us: u64) -> Option<LossCause> {
        if self.lost.is_none() && now_us >= self.valid_until_us {
            let at_end = self.end_us.is_some_and(|end_us| self.valid_until_us >= end_us);
            self.lost = Some(if at_end { LossCause::MaxHold } else { LossCause::Expired });
        }
        self.lost
    }

    /// The local time at which it counts as lost unless it is renewed.
    pub fn valid_until_us(&self) -> u64 {
        self.valid_until_us
    }

    /// What is due now?
    pub fn poll(&mut self, now_us: u64) -> Due {
        if let Some(cause) = self.lost(now_us) {
            return Due::Lost(cause);
        }
        if self.renew_at_us > now_us || self.renew_at_us >= self.valid_until_us {
            return Due::Wait { until_us: self.renew_at_us.min(self.valid_until_us) };
        }
        Due::Renew { lease_ms: self.lease_from(now_us) }
    }

    /// A renewal sent at `anchor.sent_us` was granted. False if it came too late: the lock is lost
    /// already, and has to be released.
    pub fn handle_renewed(&mut self, now_us: u64, anchor: Anchor, deadline_ms: u64) -> bool {
        if self.lost(now_us).is_some() {
            return false;
        }
        self.backoff.reset();
        // An answer to an older renewal says less than what is known.
        let valid_until_us = anchor.valid_until_us(deadline_ms).max(self.valid_until_us);
        self.extend(now_us, valid_until_us);
        true
    }

    /// A renewal could not be sent, or its outcome is unknown: again after a pause.
    pub fn handle_failure(&mut self, now_us: u64, random: u64) {
        self.renew_at_us = now_us.saturating_add(self.backoff.pause_us(random));
    }

    /// The engine said that it is over.
    pub fn handle_loss(&mut self, now_us: u64, cause: LossCause) {
        if self.lost(now_us).is_none() {
            self.lost = Some(cause);
        }
    }

    fn extend(&mut self, now_us: u64, valid_until_us: u64) {
        self.valid_until_us =
            self.end_us.map_or(valid_until_us, |end_us| valid_until_us.min(end_us));
        self.renew_at_us = match self.end_us {
            Some(end_us) if self.valid_until_us >= end_us => u64::MAX,
            _ => now_us + self.valid_until_us.saturating_sub(now_us) / 3,
        };
    }

    /// The full lease, or less if the end of `max_hold` is nearer.
    fn lease_from(&self, now_us: u64) -> u64 {
        let Some(end_us) = self.end_us else { return self.lease_ms };
        // A tenth more than is left, so that the margin does not end the hold early.
        let left_ms = end_us.saturating_sub(now_us) / 1_000;
        (left_ms + left_ms / 10 + 10).clamp(limits::LEASE_MS_MIN, self.lease_ms)
    }
}
