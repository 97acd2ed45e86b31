//! The wait for a store whose servers are loading their data: when to retry, and when to give up.
//!
//! Pure: time and randomness are passed in. [`crate::Connect`] does the I/O.

use std::time::Duration;

use taketurns_core::session::Backoff;

/// The state of a wait for a store that is loading.
pub(crate) struct LoadingWait {
    /// On the local clock; `None` if there is no limit.
    until_us: Option<u64>,
    backoff: Backoff,
}

impl LoadingWait {
    /// Starts a wait. Without a limit it lasts until the store stops reporting that it is loading.
    pub(crate) fn new(within: Option<Duration>, now_us: u64) -> Self {
        let within_us = |within: Duration| u64::try_from(within.as_micros()).unwrap_or(u64::MAX);
        let until_us = within.map(|within| now_us.saturating_add(within_us(within)));
        Self { until_us, backoff: Backoff::default() }
    }

    /// Returns how long to pause before the next attempt, or `None` to give up. Pauses grow up to a second. The last
    /// one ends at the time limit, so that one more attempt is made then.
    pub(crate) fn pause(&mut self, now_us: u64, random: u64) -> Option<Duration> {
        let left_us = self.until_us.map_or(u64::MAX, |until_us| until_us.saturating_sub(now_us));
        if left_us == 0 {
            return None;
        }
        Some(Duration::from_micros(self.backoff.pause_us(random).min(left_us)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the time of each attempt on a store that never stops loading, in µs.
    fn attempts(within: Option<Duration>, start_us: u64, max: usize) -> Vec<u64> {
        let mut wait = LoadingWait::new(within, start_us);
        let mut now_us = start_us;
        let mut attempts = vec![now_us - start_us];
        while attempts.len() < max {
            let Some(pause) = wait.pause(now_us, u64::MAX) else { break };
            assert!(!pause.is_zero(), "it never spins");
            now_us += u64::try_from(pause.as_micros()).unwrap();
            attempts.push(now_us - start_us);
        }
        attempts
    }

    #[test]
    fn without_time_there_is_one_attempt() {
        assert_eq!(attempts(Some(Duration::ZERO), 7, 99), [0]);
    }

    #[test]
    fn the_last_attempt_is_made_when_the_time_is_over() {
        let within = Duration::from_millis(3_210);
        let attempts = attempts(Some(within), 1_000, 99);
        assert_eq!(attempts.last(), Some(&3_210_000));
        assert!(attempts.len() < 20, "{attempts:?}");
    }

    #[test]
    fn without_a_limit_it_asks_about_once_a_second_for_ever() {
        let attempts = attempts(None, 0, 10_000);
        assert_eq!(attempts.len(), 10_000);
        let pauses = attempts.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(pauses.skip(10).all(|pause_us| (500_000..=1_000_000).contains(&pause_us)));
    }

    #[test]
    fn time_that_an_attempt_itself_took_counts() {
        let mut wait = LoadingWait::new(Some(Duration::from_secs(5)), 0);
        assert!(wait.pause(4_999_999, 0).is_some_and(|pause| pause == Duration::from_micros(1)));
        assert_eq!(wait.pause(5_000_000, 0), None);
        assert_eq!(wait.pause(9_000_000, 0), None);
    }

    #[test]
    fn the_longest_limit_does_not_overflow() {
        let mut wait = LoadingWait::new(Some(Duration::MAX), u64::MAX - 5);
        assert_eq!(wait.pause(u64::MAX - 5, 0), Some(Duration::from_micros(5)));
    }
}
