//! When a session has to act: every timer in one table, and how long it pauses after a failure.

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
    /// A held lock is due for renewal, or is lost.
    Hold(Owner),
    /// The places in a lock's queue have to be refreshed.
    Queue(Name),
}

/// When a timer fires, as noted by its owner. Only [`Timers::set`] changes it.
#[derive(Debug, Default)]
pub(super) struct DueTime(Option<u64>);

/// All timers that are set. Invariants: each is here exactly once, at the time that its owner noted; and the client
/// looks at them no later than the first one fires, or `is_sooner` says that it has to. [`Timers::set`] upholds both.
#[derive(Debug, Default)]
pub(super) struct Timers {
    by_time: BTreeSet<(u64, Timer)>,
    /// When the client looks at them again if nobody tells it to look sooner; 0 while it looks, and once it is told.
    looks_at_us: u64,
    /// One was set for a time before that.
    is_sooner: bool,
}

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
            self.by_time.remove(&(before_us, timer.clone()));
        }
        due.0 = at_us;
        if let Some(at_us) = at_us {
            self.by_time.insert((at_us, timer));
            if at_us < self.looks_at_us {
                (self.is_sooner, self.looks_at_us) = (true, 0);
            }
        }
    }

    /// The client looks at the timers, until [`Self::end_look`].
    pub(super) fn begin_look(&mut self) {
        self.looks_at_us = 0;
    }

    /// Returns when the first one fires: then the client looks again.
    pub(super) fn end_look(&mut self) -> Option<u64> {
        let first_us = self.by_time.first().map(|(at_us, _)| *at_us);
        self.looks_at_us = first_us.unwrap_or(u64::MAX);
        first_us
    }

    /// Returns whether the client has to look sooner than it was told. True once.
    pub(super) fn take_sooner(&mut self) -> bool {
        std::mem::take(&mut self.is_sooner)
    }

    /// Returns the timers due by a time, in order. They stay set.
    pub(super) fn due(&self, by_us: u64) -> impl Iterator<Item = &(u64, Timer)> {
        self.by_time.iter().take_while(move |(at_us, _)| *at_us <= by_us)
    }
}

/// The first pause after a failure.
const PAUSE_US_FIRST: u64 = 10_000;
/// No pause is longer.
const PAUSE_US_MAX: u64 = 1_000_000;

/// Counts failures in a row. Randomness comes in as an argument.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// One more failure: how long to pause. Between half and the whole of 10 ms, 20 ms, 40 ms … 1 s,
    /// spread by `random`, so that many clients do not come back in step.
    pub fn pause_us(&mut self, random: u64) -> u64 {
        let whole = PAUSE_US_FIRST.saturating_mul(1 << self.failures.min(16)).min(PAUSE_US_MAX);
        self.failures = self.failures.saturating_add(1);
        let half = whole / 2;
        half + random % (half + 1)
    }

    /// It went well: the next failure starts from the beginning.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Random numbers for pauses. They spread clients, and are no secret.
#[derive(Debug)]
pub(super) struct Jitter(pub(super) u64);

impl Jitter {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_for_before_the_next_look_is_noticed_once() {
        let mut timers = Timers::default();
        let mut due: [DueTime; 2] = Default::default();
        let mut set = |timers: &mut Timers, number: usize, at_us: u64| {
            let timer = || Timer::Acquire(Owner::from_bits(number as u128));
            timers.set(&mut due[number], timer, Some(at_us));
        };
        assert_eq!(timers.end_look(), None);
        set(&mut timers, 0, 20);
        assert!(timers.take_sooner(), "nobody would ever look");
        timers.begin_look();
        assert_eq!(timers.end_look(), Some(20));
        set(&mut timers, 1, 30);
        assert!(!timers.take_sooner(), "the first look comes before it");
        set(&mut timers, 1, 10);
        assert!(timers.take_sooner());
        set(&mut timers, 0, 5);
        assert!(!timers.take_sooner(), "the client was told, and looks at all");
        timers.begin_look();
        set(&mut timers, 0, 1);
        assert!(!timers.take_sooner(), "it looks right now");
        assert_eq!(timers.end_look(), Some(1));
    }

    #[test]
    fn pauses_double_up_to_a_second_and_start_over_after_a_success() {
        let mut backoff = Backoff::default();
        let longest: Vec<u64> = (0..9)
            .map(|_| {
                let mut probe = backoff;
                let whole = probe.pause_us(backoff_half(&backoff));
                backoff.pause_us(0);
                whole
            })
            .collect();
        assert_eq!(
            longest,
            [10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 640_000, 1_000_000, 1_000_000]
        );
        backoff.reset();
        assert_eq!(backoff.pause_us(0), 5_000);
        assert_eq!(backoff.pause_us(1), 10_001);
    }

    /// The random number that gives the longest pause.
    fn backoff_half(backoff: &Backoff) -> u64 {
        PAUSE_US_FIRST.saturating_mul(1 << backoff.failures.min(16)).min(PAUSE_US_MAX) / 2
    }

    #[test]
    fn a_thousand_failures_do_not_overflow() {
        let mut backoff = Backoff::default();
        for random in 0..1_000 {
            assert!((5_000..=1_000_000).contains(&backoff.pause_us(random)));
        }
    }
}
