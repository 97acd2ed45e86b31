//! Chance, all of it from one seed.

use taketurns_servers::fuzz;

/// Draws numbers. The same seed draws the same ones.
#[derive(Clone, Debug)]
pub(crate) struct SimDice(fuzz::Dice);

impl SimDice {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Self(fuzz::Dice::new(seed));
        dice.draw();
        dice
    }

    /// Dice of its own for a part, so that what one part draws does not change another.
    pub(crate) fn apart(&mut self) -> Self {
        Self::new(self.draw())
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0.any()
    }

    /// Both ends included.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        self.0.between(least, most)
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.0.below(len)
    }

    /// True `of_1000` times out of a thousand, on average.
    pub(crate) fn chance(&mut self, of_1000: u64) -> bool {
        self.0.chance(of_1000)
    }

    /// Something up to that, but half of the time nothing.
    pub(crate) fn maybe(&mut self, most: u64) -> u64 {
        if self.chance(500) { 0 } else { self.between(1, most.max(1)) }
    }

    /// So much less or more than nothing.
    pub(crate) fn off_by(&mut self, most: u64) -> i64 {
        self.between(0, 2 * most) as i64 - most as i64
    }
}
