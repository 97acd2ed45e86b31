//! How often a store is looked at. Looking costs the store time, so that is bounded: however many
//! locks there are, at most a tenth of the time is spent on it.

use std::time::Duration;

/// One part of the time is for looking, the rest is not.
const SHARE: u32 = 10;

/// How long after a look has begun the next one begins: as often as is wanted, but not before ten times
/// the time that it took.
pub(crate) fn pace(every: Duration, took: Duration) -> Duration {
    every.max(took.saturating_mul(SHARE))
}

/// The pace of one who looks for long, and is not thrown out of it by one bad look.
pub(crate) struct Pace {
    every: Duration,
    /// How long the one before took.
    before: Duration,
}

/// A store that does not answer is asked again soon: what it has to bear of that is little.
const AFTER_FAILURE_MAX: Duration = Duration::from_secs(2);

impl Pace {
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, before: Duration::MAX }
    }

    /// How long after a look has begun the next one begins. Of two looks in a row the quicker one counts:
    /// the other waited for something else.
    pub(crate) fn next(&mut self, took: Duration, answered: bool) -> Duration {
        if !answered {
            return self.every.max(took.min(AFTER_FAILURE_MAX));
        }
        let usual = took.min(std::mem::replace(&mut self.before, took));
        pace(self.every, usual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_look_or_one_that_failed_does_not_blind_for_long() {
        let (ms, mut pace) = (Duration::from_millis, Pace::new(Duration::from_millis(500)));
        assert_eq!(pace.next(ms(300), true), ms(3_000), "the first is all there is");
        assert_eq!(pace.next(ms(10), true), ms(500));
        assert_eq!(pace.next(ms(5_000), true), ms(500), "an outlier");
        assert_eq!(pace.next(ms(2_000), true), ms(20_000), "it has become slow");
        assert_eq!(pace.next(ms(10_000), false), ms(2_000));
        assert_eq!(pace.next(ms(1), false), ms(500));
    }

    #[test]
    fn a_look_takes_a_tenth_of_the_time_at_most() {
        let ms = Duration::from_millis;
        assert_eq!(pace(ms(500), ms(3)), ms(500));
        assert_eq!(pace(ms(500), ms(50)), ms(500));
        assert_eq!(pace(ms(500), ms(280)), ms(2_800));
        assert_eq!(pace(ms(500), Duration::MAX), Duration::MAX);
    }
}
