//! What was promised, and which of it is broken.

/// Which promises were broken, as bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BrokenPromises(u8);

impl BrokenPromises {
    /// Two clients held at one instant.
    pub const EXCLUSION: BrokenPromises = BrokenPromises(1);
    /// A token was not larger than that of every hold before it.
    pub const TOKENS: BrokenPromises = BrokenPromises(2);
    /// Somebody held before another that was in line before it began.
    pub const ORDER: BrokenPromises = BrokenPromises(4);
    /// Somebody waits for ever though nothing fails any more.
    pub const PROGRESS: BrokenPromises = BrokenPromises(8);

    /// Either of two.
    pub const fn or(self, other: BrokenPromises) -> BrokenPromises {
        BrokenPromises(self.0 | other.0)
    }

    /// Adds another.
    pub fn add(&mut self, other: BrokenPromises) {
        *self = self.or(other);
    }

    /// Whether `other`, or one of them, was broken.
    pub fn has(self, other: BrokenPromises) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether anything was.
    pub fn any(self) -> bool {
        self.0 != 0
    }

    /// The first of them in a few words.
    pub fn name(self) -> &'static str {
        let names = [
            (BrokenPromises::EXCLUSION, "mutual exclusion"),
            (BrokenPromises::TOKENS, "order of tokens"),
            (BrokenPromises::ORDER, "order of tickets"),
            (BrokenPromises::PROGRESS, "progress"),
        ];
        names.into_iter().find(|(broken, _)| self.has(*broken)).map_or("nothing", |(_, name)| name)
    }
}
