//! Chance, all of it from one seed.

/// Draws numbers. The same seed draws the same ones.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Self(seed);
        dice.draw();
        dice
    }

    /// Dice of its own for a part, so that what one part draws does not change another.
    pub(crate) fn apart(&mut self) -> Self {
        Self::new(self.draw())
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Both ends included.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.draw() % (most - least + 1)
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        (self.draw() % len as u64) as usize
    }

    /// True so many times out of a thousand.
    pub(crate) fn chance(&mut self, of_1000: u64) -> bool {
        self.draw() % 1_000 < of_1000
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
