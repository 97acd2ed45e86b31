//! Metrics, for the application's recorder of the `metrics` crate. Without the feature `metrics`, or without a
//! recorder, nothing is recorded.
//!
//! No other file names a metric. A label's value is one of a few words. Lock names, owners and holders' labels never
//! become one: there may be any number of them, and some are secrets. Every key is a constant, so nothing is allocated
//! for it. `docs/metrics.md` explains all metrics.

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

/// Makes the key of a metric with these labels, as a constant.
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
    /// It would not wait, and others had the lock.
    Busy,
    /// The work of the once was done already.
    DoneBefore,
    /// It timed out.
    Timeout,
    /// The store refused it.
    Refused,
    /// The store did not answer, or can't be used.
    Failed,
    /// The future was dropped.
    Cancelled,
}

impl WaitOutcome {
    pub(crate) fn of_error(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Timeout | ErrorKind::Quarantined => Self::Timeout,
            ErrorKind::KindMismatch
            | ErrorKind::QueueFull
            | ErrorKind::PoolFull
            | ErrorKind::Exhausted
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
            Self::DoneBefore => "done",
            Self::Timeout => "timeout",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Measures an acquire. When it is dropped, the acquire no longer counts as waiting.
pub(crate) struct WaitMeasure {
    kind: Kind,
}

impl WaitMeasure {
    pub(crate) fn begin(kind: Kind) -> Self {
        shift(key!(WAITING), 1.0);
        Self { kind }
    }

    /// Records the outcome and the time it took.
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
                    Kind::Once => key!(ACQUIRE_WAIT, "outcome" => $outcome, "kind" => "once"),
                }
            };
        }
        let key = match how {
            WaitOutcome::Granted => of!("granted"),
            WaitOutcome::Busy => of!("busy"),
            WaitOutcome::DoneBefore => of!("done"),
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
    /// It was turned into a handle.
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

/// Records that a task of this process holds a lock, or has a turn of it.
pub(crate) fn hold_began() {
    shift(key!(HELD), 1.0);
}

/// Records that a lock is no longer held, and how long it was.
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

/// Records that an acquire queued, with this many waiters ahead of it.
pub(crate) fn queued(ahead: u64) {
    measure(key!(QUEUE_DEPTH), ahead.saturating_add(1) as f64);
}

/// The outcome of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenewalOutcome {
    Renewed,
    /// The lock was no longer held.
    Lost,
    /// The store did not answer.
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

/// Records that a connection replaced an earlier one.
#[cfg(any(feature = "redis", feature = "postgres"))]
pub(crate) fn reconnected() {
    count(key!(RECONNECTS));
}

/// Records a wake-up that the engine pushed to this client.
pub(crate) fn woken() {
    count(key!(WAKEUPS));
}

/// Records the delay of a grant to a waiting acquire, from the engine's deadline and the lease that ends there.
pub(crate) fn granted_late(anchor: Anchor, deadline_ms: u64, lease_ms: u64, now_us: u64) {
    let delay_us = delay_us(anchor, deadline_ms.saturating_sub(lease_ms), now_us);
    measure(key!(WAKEUP_DELAY), delay_us as f64 * MICROS);
}

/// Returns an upper bound for how long ago the engine's clock showed `granted_ms`. The engine read the anchor's time no
/// earlier than it was asked, so it did anything at that time no earlier than this.
fn delay_us(anchor: Anchor, granted_ms: u64, now_us: u64) -> u64 {
    let since_us = now_us.saturating_sub(anchor.sent_us);
    let (before_ms, after_ms) =
        (anchor.engine_ms.saturating_sub(granted_ms), granted_ms.saturating_sub(anchor.engine_ms));
    since_us
        .saturating_add(before_ms.saturating_mul(1_000))
        .saturating_sub(after_ms.saturating_mul(1_000))
}

/// The kind of a request to the store.
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

    /// Records how long the request took, and whether it was answered.
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
