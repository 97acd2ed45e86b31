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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_takes_a_tenth_of_the_time_at_most() {
        let ms = Duration::from_millis;
        assert_eq!(pace(ms(500), ms(3)), ms(500));
        assert_eq!(pace(ms(500), ms(50)), ms(500));
        assert_eq!(pace(ms(500), ms(280)), ms(2_800));
        assert_eq!(pace(ms(500), Duration::MAX), Duration::MAX);
    }
}
