//! How long to pause after a failure: doubling, capped, jittered.

/// The first pause.
const FIRST_US: u64 = 10_000;
/// No pause is longer.
const MAX_US: u64 = 1_000_000;

/// Counts failures in a row. Randomness comes in as an argument.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// One more failure: how long to pause. Between half and the whole of 10 ms, 20 ms, 40 ms … 1 s,
    /// spread by `random`, so that many clients do not come back in step.
    pub fn pause_us(&mut self, random: u64) -> u64 {
        let whole = FIRST_US.saturating_mul(1 << self.failures.min(16)).min(MAX_US);
        self.failures = self.failures.saturating_add(1);
        let half = whole / 2;
        half + random % (half + 1)
    }

    /// It went well: the next failure starts from the beginning.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        FIRST_US.saturating_mul(1 << backoff.failures.min(16)).min(MAX_US) / 2
    }

    #[test]
    fn a_thousand_failures_do_not_overflow() {
        let mut backoff = Backoff::default();
        for random in 0..1_000 {
            assert!((5_000..=1_000_000).contains(&backoff.pause_us(random)));
        }
    }
}
