//! Errors of commands, as their senders see them.

use std::borrow::Cow;
use std::fmt;

use taketurns_core::{Kind, Refusal, limits};

use crate::record::AdmitRefusal;

/// An error reply: a code in capitals, then what happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem(Cow<'static, str>);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Problem {
    pub(crate) const fn new(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    pub(crate) fn say(text: String) -> Self {
        Self(Cow::Owned(text))
    }

    pub(crate) const SYNTAX: Self = Self::new("ERR syntax error: see FENCELOCK.HELP");
    pub(crate) const WRONG_TYPE: Self =
        Self::new("WRONGTYPE the key holds something else than a lock of this module");
    pub(crate) const NOT_HELD: Self = Self::new("NOTHELD nobody holds this lock");
    pub(crate) const REVOKED: Self =
        Self::new("REVOKED somebody broke the lock: it can't be renewed");
    pub(crate) const GONE: Self = Self::new(
        "TRYAGAIN the lock was deleted, replaced or moved while you waited: ask for it again",
    );
    pub(crate) const OUT_OF_MEMORY: Self =
        Self::new("OOM command not allowed when used memory > 'maxmemory'.");
    pub(crate) const READ_ONLY: Self =
        Self::new("READONLY You can't write against a read only replica.");
    pub(crate) const UNVERIFIED: Self = Self::new("TTVERIFY bind to this run of the server first");
    pub(crate) const MARKER_CHANGED: Self = Self::new("TTVERIFY the marker is not what it was");
    pub(crate) const NO_BREAK: Self =
        Self::new("NOPERM breaking a lock needs the right to DEL its key");
    pub(crate) const NO_BIND: Self =
        Self::new("NOPERM binding needs the rights to read the marker and to publish wake-ups");
    pub(crate) const INTERNAL: Self =
        Self::new("NOPERM this command is for the server's own log and its replicas");
    pub(crate) const BOUND_IN_SCRIPT: Self =
        Self::new("ERR BOUND needs a connection of its own: a script has none");
    pub(crate) const BAD_MEMBER: Self =
        Self::new("ERR a member's name is 1 to 512 bytes of text without control characters");
    pub(crate) const BAD_LABEL: Self =
        Self::new("ERR a label is at most 256 bytes of text without control characters");
    pub(crate) const BAD_ONCE: Self = Self::new(
        "ERR ONCE takes seconds from 1 to 2678400, PERIOD fewer than those, ATTEMPTS at least 1, PAUSE at most 86400; \
         and not ATLEAST",
    );
    pub(crate) const BAD_RESULT: Self =
        Self::new("ERR a result is at most 256 bytes of text without control characters");
    pub(crate) const BAD_SECRET: Self =
        Self::new("ERR the secret is the first of the two integers that ACQUIRE answered");
    pub(crate) const BAD_TOKEN: Self =
        Self::new("ERR the token is an integer, the second that ACQUIRE answered");

    pub(crate) fn lease(max_ms: u64) -> Self {
        let (min, max) = (limits::LEASE_MS_MIN, max_ms / 1_000);
        Self::say(format!("ERR a lease is a whole number from {min} ms to {max} seconds"))
    }

    pub(crate) fn wait() -> Self {
        let max = limits::LEASE_MS_MAX / 1_000;
        Self::say(format!("ERR WAIT takes seconds from 0, for as long as possible, to {max}"))
    }

    /// Converts a refusal of the lock at that time.
    pub(crate) fn refused(refusal: Refusal, now_ms: u64, max_lease_ms: u64) -> Self {
        match refusal {
            Refusal::KindMismatch(kind) => {
                let hint = match kind {
                    Kind::Mutex => "leave out SHARED, EXCLUSIVE, PERMITS, ANY and MEMBER",
                    Kind::RwLock => "say SHARED or EXCLUSIVE",
                    Kind::Semaphore { .. } => "say PERMITS with the same number",
                    Kind::Pool => "say ANY or MEMBER",
                    Kind::Once => "use FENCELOCK.ONCE, or forget its work with FENCELOCK.UNDO",
                };
                Self::say(format!("KIND the lock is in use as a {kind}: {hint}"))
            }
            Refusal::QueueFull => Self::say(format!("QUEUEFULL {refusal}")),
            Refusal::PoolFull => Self::say(format!("POOLFULL {refusal}")),
            Refusal::InvalidLease => Self::lease(max_lease_ms),
            Refusal::InvalidPermits | Refusal::InvalidTerms => Self::say(format!("ERR {refusal}")),
            Refusal::Exhausted { .. } => Self::say(format!("EXHAUSTED {refusal}")),
            Refusal::Quarantined { until_ms } => {
                let left_s = until_ms.saturating_sub(now_ms).div_ceil(1_000);
                Self::say(format!(
                    "QUARANTINED the server was restarted or failed over, and may have forgotten \
                     who holds the lock: nothing is granted for another {left_s} s"
                ))
            }
            Refusal::TooLate | Refusal::Cancelled => Self::say(format!("ERR {refusal}")),
        }
    }

    pub(crate) fn stale(token: u64, stale: AdmitRefusal) -> Self {
        Self::say(match stale {
            AdmitRefusal::Older { newest } => format!("STALE token {token} is older than {newest}"),
            AdmitRefusal::Forgotten => format!(
                "STALE token {token} is too old: nothing is remembered of a time so long ago"
            ),
            AdmitRefusal::NeverGiven => format!("STALE token {token} was never given out"),
        })
    }
}
