//! How long those waited who were granted a lock, as far as looking now and then tells.

use serde::Serialize;

/// Upper bounds in milliseconds. Less than the first can't be told apart by looking.
pub(crate) const BOUNDS_MS: [u64; 8] =
    [1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 1_800_000];

/// A histogram of waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct WaitHistogram {
    /// How many were at most as long as the bound of that place, and longer than the one before; the
    /// last is for all that were longer.
    pub(crate) counts: [u64; BOUNDS_MS.len() + 1],
    /// The sum of all.
    pub(crate) sum_ms: u64,
}

impl WaitHistogram {
    pub(super) fn add(&mut self, waited_ms: u64) {
        self.counts[BOUNDS_MS.partition_point(|bound_ms| *bound_ms < waited_ms)] += 1;
        self.sum_ms += waited_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_counts_under_the_first_bound_that_it_does_not_pass() {
        let mut waits = WaitHistogram::default();
        for waited_ms in [0, 1_000, 1_001, 60_000, 1_800_000, 1_800_001] {
            waits.add(waited_ms);
        }
        assert_eq!(waits.counts, [2, 1, 0, 0, 0, 1, 0, 1, 1]);
        assert_eq!(waits.sum_ms, 3_662_002);
    }
}
