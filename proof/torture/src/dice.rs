//! All that is left to chance in a run comes from one seed. What it leads to is still up to the machine:
//! the same seed gives the same plan, and not the same history.

use std::time::Duration;

use taketurns_servers::fuzz;

/// What is drawn for one part of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunDice(fuzz::Dice);

impl RunDice {
    /// Those of one part of a run: each part has its own, so none depends on how quick another is.
    pub(crate) fn new(seed: u64, part: u64) -> Self {
        Self(fuzz::Dice::new(seed ^ part.wrapping_mul(0xd1b5_4a32_d192_ed03)))
    }

    /// From the first to the last, both included.
    pub(crate) fn between(&mut self, first: u64, last: u64) -> u64 {
        self.0.between(first, last)
    }

    /// A random number of milliseconds between the two.
    pub(crate) fn time(&mut self, first_ms: u64, last_ms: u64) -> Duration {
        Duration::from_millis(self.between(first_ms, last_ms))
    }

    /// True once in `times` times, on average.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.between(1, times) == 1
    }

    /// One of them.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.0.below(of.len())]
    }

    /// `count` different numbers below `end`.
    pub(crate) fn some(&mut self, count: u64, end: usize) -> Vec<usize> {
        let mut left: Vec<usize> = (0..end).collect();
        let take = |_| {
            let index = self.between(0, left.len() as u64 - 1);
            left.swap_remove(index as usize)
        };
        (0..count).map(take).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_plan_and_each_part_its_own() {
        let rolls = |seed, part| {
            let mut dice = RunDice::new(seed, part);
            [(); 4].map(|()| dice.between(0, 1_000_000))
        };
        assert_eq!(rolls(7, 1), rolls(7, 1));
        assert_ne!(rolls(7, 1), rolls(7, 2));
        assert_ne!(rolls(7, 1), rolls(8, 1));
    }

    #[test]
    fn both_ends_are_rolled_and_nothing_beyond() {
        let mut dice = RunDice::new(1, 1);
        let mut seen = [false; 3];
        (0..100).for_each(|_| seen[dice.between(5, 7) as usize - 5] = true);
        assert_eq!(seen, [true; 3]);
    }

    #[test]
    fn some_of_several_are_all_different() {
        let mut dice = RunDice::new(1, 1);
        for _ in 0..100 {
            let two = dice.some(2, 3);
            assert!(two[0] != two[1] && two.iter().all(|number| *number < 3), "{two:?}");
        }
    }
}
