//! What is counted and measured, for whichever recorder of the `metrics` crate the application has.
//! Without the feature `metrics`, and without a recorder, all of it is nothing.
//!
//! No other file names a metric. A label's value is one of a few words: no lock's name, no owner and
//! no label of a holder becomes one, since there may be any number of them, and some are secrets. Every
//! key is a constant, so nothing is allocated for it. `docs/metrics.md` explains them all.

#[cfg(feature = "metrics")]
mod recorder;
#[cfg(not(feature = "metrics"))]
#[path = "meter/silent.rs"]
mod recorder;
#[cfg(all(test, feature = "metrics"))]
mod tests;

use taketurns_core::session::{Anchor, LossCause, TimedReply};
use taketurns_core::{Kind, Reply, Request};

use crate::{Error, ErrorKind};

pub(crate) use recorder::describe;
use recorder::{count, measure, shift};

const ACQUIRE_WAIT: &str = "taketurns_acquire_wait_seconds";
const HOLD: &str = "taketurns_hold_seconds";
const QUEUE_DEPTH: &str = "taketurns_queue_depth";
const HELD: &str = "taketurns_held";
const WAITING: &str = "taketurns_waiting";
const RENEWALS: &str = "taketurns_renewals_total";
const LOSSES: &str = "taketurns_losses_total";
#[cfg(any(feature = "metrics", feature = "redis"))]
const RECONNECTS: &str = "taketurns_reconnects_total";
const WAKEUPS: &str = "taketurns_wakeups_total";
const WAKEUP_DELAY: &str = "taketurns_wakeup_delay_seconds";
const STORE_CALL: &str = "taketurns_store_call_seconds";

/// A metric with these labels, as a constant.
#[cfg(feature = "metrics")]
macro_rules! key {
    ($name:expr $(, $label:literal => $value:literal)*) => {
        const {
            &metrics::Key::from_static_parts(
                $name,
                const { &[$(metrics::Label::from_static_parts($label, $value)),*] },
            )
        }
    };
}
#[cfg(not(feature = "metrics"))]
macro_rules! key {
    ($name:expr $(, $label:literal => $value:literal)*) => {
        $name
    };
}

const MICROS: f64 = 1e-6;

/// How an acquire ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    Granted,
    /// It would not wait, and others had it.
    Busy,
    /// Its time was over.
    Timeout,
    /// The store said that it can't be had.
    Refused,
    /// The store did not say, or can't be used.
    Failed,
    /// Nobody wanted it any more.
    Cancelled,
}

impl WaitOutcome {
    pub(crate) fn of_error(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Timeout | ErrorKind::Quarantined => Self::Timeout,
            ErrorKind::KindMismatch
            | ErrorKind::QueueFull
            | ErrorKind::PoolFull
            | ErrorKind::InvalidPermits
            | ErrorKind::InvalidLease
            | ErrorKind::Unfenced
            | ErrorKind::Unsupported => Self::Refused,
            _ => Self::Failed,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Busy => "busy",
            Self::Timeout => "timeout",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// An acquire under way. However it ends, it does not wait any more.
pub(crate) struct WaitMeasure {
    kind: Kind,
}

impl WaitMeasure {
    pub(crate) fn begin(kind: Kind) -> Self {
        shift(key!(WAITING), 1.0);
        Self { kind }
    }

    /// After so long.
    pub(crate) fn end(self, how: WaitOutcome, waited_us: u64) {
        macro_rules! of {
            ($outcome:literal) => {
                match self.kind {
                    Kind::Mutex => key!(ACQUIRE_WAIT, "outcome" => $outcome, "kind" => "mutex"),
                    Kind::RwLock => key!(ACQUIRE_WAIT, "outcome" => $outcome, "kind" => "rwlock"),
                    Kind::Semaphore { .. } => {
                        key!(ACQUIRE_WAIT, "outcome" => $outcome, "kind" => "semaphore")
                    }
                    Kind::Pool => key!(ACQUIRE_WAIT, "outcome" => $outcome, "kind" => "pool"),
                }
            };
        }
        let key = match how {
            WaitOutcome::Granted => of!("granted"),
            WaitOutcome::Busy => of!("busy"),
            WaitOutcome::Timeout => of!("timeout"),
            WaitOutcome::Refused => of!("refused"),
            WaitOutcome::Failed => of!("failed"),
            WaitOutcome::Cancelled => of!("cancelled"),
        };
        measure(key, waited_us as f64 * MICROS);
    }
}

impl Drop for WaitMeasure {
    fn drop(&mut self) {
        shift(key!(WAITING), -1.0);
    }
}

/// How a held lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldOutcome {
    Released,
    Dropped,
    Lost,
    /// It was made a handle: from then on it is somebody else's.
    Carried,
}

impl HoldOutcome {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Dropped => "dropped",
            Self::Lost => "lost",
            Self::Carried => "carried",
        }
    }
}

/// Somebody here holds a lock, or has a turn of it.
pub(crate) fn hold_began() {
    shift(key!(HELD), 1.0);
}

/// It is not held any more, after so long.
pub(crate) fn hold_ended(held_us: u64, how: HoldOutcome) {
    shift(key!(HELD), -1.0);
    let key = match how {
        HoldOutcome::Released => key!(HOLD, "outcome" => "released"),
        HoldOutcome::Dropped => key!(HOLD, "outcome" => "dropped"),
        HoldOutcome::Lost => key!(HOLD, "outcome" => "lost"),
        HoldOutcome::Carried => key!(HOLD, "outcome" => "carried"),
    };
    measure(key, held_us as f64 * MICROS);
}

/// An acquire was given a place in a queue, behind so many.
pub(crate) fn queued(ahead: u64) {
    measure(key!(QUEUE_DEPTH), ahead.saturating_add(1) as f64);
}

/// What a renewal was answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenewalOutcome {
    Renewed,
    /// It was not held any more.
    Lost,
    /// The store did not say.
    Failed,
}

impl RenewalOutcome {
    pub(crate) fn of<E>(answer: &Result<TimedReply, E>) -> Self {
        match answer.as_ref().map(|answer| &answer.reply) {
            Ok(Reply::Renewed(_)) => Self::Renewed,
            Ok(Reply::Revoked | Reply::NotHeld) => Self::Lost,
            _ => Self::Failed,
        }
    }
}

pub(crate) fn renewal(how: RenewalOutcome) {
    count(match how {
        RenewalOutcome::Renewed => key!(RENEWALS, "outcome" => "renewed"),
        RenewalOutcome::Lost => key!(RENEWALS, "outcome" => "lost"),
        RenewalOutcome::Failed => key!(RENEWALS, "outcome" => "failed"),
    });
}

pub(crate) fn lost(cause: LossCause) {
    count(match cause {
        LossCause::Expired => key!(LOSSES, "cause" => "expired"),
        LossCause::Gone => key!(LOSSES, "cause" => "gone"),
        LossCause::Revoked => key!(LOSSES, "cause" => "revoked"),
        LossCause::MaxHold => key!(LOSSES, "cause" => "max_hold"),
        LossCause::ClockSet => key!(LOSSES, "cause" => "clock_set"),
        LossCause::Unattended => key!(LOSSES, "cause" => "unattended"),
        _ => key!(LOSSES, "cause" => "other"),
    });
}

/// A connection took the place of one that was there before.
#[cfg(feature = "redis")]
pub(crate) fn reconnected() {
    count(key!(RECONNECTS));
}

/// The engine pushed a wake-up for somebody of this client.
pub(crate) fn woken() {
    count(key!(WAKEUPS));
}

/// A waiting acquire heard that it was granted, with the engine's deadline and the lease that this is
/// the end of.
pub(crate) fn granted_late(anchor: Anchor, deadline_ms: u64, lease_ms: u64, now_us: u64) {
    let delay_us = delay_us(anchor, deadline_ms.saturating_sub(lease_ms), now_us);
    measure(key!(WAKEUP_DELAY), delay_us as f64 * MICROS);
}

/// How long ago the engine's clock showed `granted_ms`, at most. The engine said the anchor's time no
/// earlier than it was asked: so what it did then was done no earlier than this.
fn delay_us(anchor: Anchor, granted_ms: u64, now_us: u64) -> u64 {
    let since_us = now_us.saturating_sub(anchor.sent_us);
    let (before_ms, after_ms) =
        (anchor.engine_ms.saturating_sub(granted_ms), granted_ms.saturating_sub(anchor.engine_ms));
    since_us
        .saturating_add(before_ms.saturating_mul(1_000))
        .saturating_sub(after_ms.saturating_mul(1_000))
}

/// What the store was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Acquire,
    Refresh,
    Renew,
    Release,
    Break,
    Other,
}

impl RequestKind {
    pub(crate) fn of(request: &Request) -> Self {
        match request {
            Request::Acquire(_) => Self::Acquire,
            Request::Refresh { .. } => Self::Refresh,
            Request::Renew { .. } => Self::Renew,
            Request::Release { .. } => Self::Release,
            Request::Break { .. } => Self::Break,
            _ => Self::Other,
        }
    }

    /// It was answered, or failed.
    pub(crate) fn took(self, answered: bool, took_us: u64) {
        macro_rules! of {
            ($request:literal) => {
                match answered {
                    true => key!(STORE_CALL, "request" => $request, "outcome" => "answered"),
                    false => key!(STORE_CALL, "request" => $request, "outcome" => "failed"),
                }
            };
        }
        let key = match self {
            Self::Acquire => of!("acquire"),
            Self::Refresh => of!("refresh"),
            Self::Renew => of!("renew"),
            Self::Release => of!("release"),
            Self::Break => of!("break"),
            Self::Other => of!("other"),
        };
        measure(key, took_us as f64 * MICROS);
    }
}
