//! Every time at which a session has to act, in one table.

use std::collections::BTreeSet;

use super::release::ReleaseId;
use crate::{Name, Owner};

/// A timer of the session, named by what it is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// An acquire runs out of time, or has paused for long enough.
    Acquire(Owner),
    /// A release has paused for long enough.
    Release(ReleaseId),
    /// A held lock has to be renewed, or is lost.
    Hold(Owner),
    /// The places in a lock's queue have to be refreshed.
    Queue(Name),
}

/// When a timer fires, as noted by its owner. Only [`Timers::set`] changes it.
#[derive(Debug, Default)]
pub(super) struct DueTime(Option<u64>);

/// All timers that are set. Invariant: each is here exactly once, at the time that its owner noted.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(u64, Timer)>);

impl Timers {
    /// Sets a timer, or with `None` clears it.
    pub(super) fn set(
        &mut self,
        due: &mut DueTime,
        timer: impl FnOnce() -> Timer,
        at_us: Option<u64>,
    ) {
        if due.0 == at_us {
            return;
        }
        let timer = timer();
        if let Some(before_us) = due.0 {
            self.0.remove(&(before_us, timer.clone()));
        }
        due.0 = at_us;
        if let Some(at_us) = at_us {
            self.0.insert((at_us, timer));
        }
    }

    /// When the first one fires.
    pub(super) fn first_us(&self) -> Option<u64> {
        self.0.first().map(|(at_us, _)| *at_us)
    }

    /// Returns the timers due by a time, in order. They stay set.
    pub(super) fn due(&self, by_us: u64) -> impl Iterator<Item = &(u64, Timer)> {
        self.0.iter().take_while(move |(at_us, _)| *at_us <= by_us)
    }
}
