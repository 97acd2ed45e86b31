//! How often a store is looked at. Looking costs the store time, so that is bounded: however many
//! locks there are, a tenth of the time is spent on it, and not more.

use std::time::Duration;

/// One part of the time is for looking, the rest is not.
const SHARE: u32 = 10;

/// The pace of one who looks again and again.
#[derive(Debug)]
pub(crate) struct Pace {
    every: Duration,
    /// How long the look before took.
    before: Option<Duration>,
    interval: Duration,
}

impl Pace {
    /// As often as is wanted, if looks are quick.
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, before: None, interval: every }
    }

    /// From the beginning of a look to that of the next, as it is at present.
    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// For how long to rest after a look. Of two in a row the quicker one counts: one that is much slower
    /// waited for something else, and is no reason to be blind for ten times as long. One that failed has
    /// cost the store little.
    pub(crate) fn rest(&mut self, took: Duration, went_well: bool) -> Duration {
        if !went_well {
            return self.every;
        }
        let usual = took.min(self.before.replace(took).unwrap_or(took));
        self.interval = self.every.max(usual.saturating_mul(SHARE));
        self.interval.checked_sub(took).unwrap_or(self.every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn looks_take_a_tenth_of_the_time_at_most() {
        let mut pace = Pace::new(ms(500));
        assert_eq!((pace.rest(ms(3), true), pace.interval()), (ms(497), ms(500)));
        let mut pace = Pace::new(ms(500));
        assert_eq!((pace.rest(ms(280), true), pace.interval()), (ms(2_520), ms(2_800)));
        assert_eq!((pace.rest(ms(300), true), pace.interval()), (ms(2_500), ms(2_800)));
        assert_eq!((pace.rest(ms(300), true), pace.interval()), (ms(2_700), ms(3_000)));
        assert_eq!(pace.rest(Duration::MAX, true), ms(500), "an outlier");
        assert_eq!(pace.rest(Duration::MAX, true), Duration::ZERO, "for ever is for ever");
    }

    #[test]
    fn one_slow_look_or_one_that_failed_does_not_blind_for_long() {
        let mut pace = Pace::new(ms(500));
        pace.rest(ms(10), true);
        assert_eq!((pace.rest(ms(5_000), true), pace.interval()), (ms(500), ms(500)));
        assert_eq!((pace.rest(ms(9_000), false), pace.interval()), (ms(500), ms(500)));
        assert_eq!(pace.rest(ms(4_000), true), ms(36_000), "it has become slow");
    }
}
