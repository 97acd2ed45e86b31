//! Input for fuzzing a parser: genuine input, damaged at random, which gets further than random bytes do.
//!
//! Everything comes from a seed. Every day there are few rounds, and the same ones. With
//! `TAKETURNS_FUZZ_SECONDS` it goes on for so long, from a seed that is drawn unless `TAKETURNS_SEED`
//! gives it; a failure names the one with which its round is the first.
//!
//! ```
//! taketurns_servers::fuzz::rounds("numbers", 1_000, |dice| {
//!     let bytes = dice.damaged(&[&b"12"[..], b"-7"]);
//!     let Some(number) = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse().ok()) else {
//!         return false;
//!     };
//!     let _: i64 = number;
//!     assert_eq!(number.to_string().parse(), Ok(number));
//!     true
//! });
//! ```

use std::env;
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Bytes that mean something to some reader.
const BYTES: &[u8] = b" \n\r\t-+.,;&=0159afGNQFIXsntT*/!%:@?#[]{}'\"\\\x00\x01\x7f\x80\xc3\xff";

/// Numbers at some edge, as text and as [varints](https://postcard.jamesmunns.com/wire-format).
const NUMBERS: [&[u8]; 12] = [
    b"18446744073709551615",
    b"18446744073709551616",
    b"9007199254740992",
    b"-1",
    b"1e9",
    b"",
    b"00",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x80\x80\x80\x10",
    b"\x7f",
];

/// No word is longer, so that no reader takes long.
const BYTES_MAX: usize = 4_096;

/// Everything that is drawn, from one seed: SplitMix64.
#[derive(Clone, Debug, Default)]
pub struct Dice(u64);

impl Dice {
    /// The same seed draws the same.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    #[inline]
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from the least to the most, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.any() % (most - least + 1)
    }

    /// A number below `end`; 0 if there is none.
    pub fn roll(&mut self, end: u64) -> u64 {
        self.any() % end.max(1)
    }

    /// The same for an index.
    pub fn below(&mut self, end: usize) -> usize {
        self.roll(end as u64) as usize
    }

    /// True `percent` times of a hundred, on average.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// True `of_1000` times of a thousand, on average.
    pub fn chance(&mut self, of_1000: u64) -> bool {
        self.any() % 1_000 < of_1000
    }

    /// What one of these stands for.
    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// A copy of one of these.
    pub fn one_of<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// At most `most` random bytes.
    pub fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.any() as u8).collect()
    }

    /// One of these, damaged in up to four places.
    pub fn damaged(&mut self, genuine: &[impl AsRef<[u8]>]) -> Vec<u8> {
        let mut bytes = genuine[self.below(genuine.len())].as_ref().to_vec();
        for _ in 0..=self.below(4) {
            self.damage(&mut bytes);
        }
        bytes
    }

    /// The same of text.
    pub fn damaged_text(&mut self, genuine: &[impl AsRef<[u8]>]) -> String {
        String::from_utf8_lossy(&self.damaged(genuine)).into_owned()
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        match self.below(7) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, BYTES[self.below(BYTES.len())]),
            2 if at < bytes.len() => bytes[at] = BYTES[self.below(BYTES.len())],
            3 => {
                let number = self.pick(&NUMBERS);
                // In the place of as many bytes, or of one, or between two.
                let end = (at + self.pick(&[&number.len(), &1, &0])).min(bytes.len());
                bytes.splice(at..end, number.iter().copied());
            }
            4 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            5 => {
                let end = at + self.below((bytes.len() - at).min(8) + 1);
                bytes.drain(at..end);
            }
            _ => bytes.extend_from_within(at..),
        }
        bytes.truncate(BYTES_MAX);
    }

    /// Changes one of the values in this one, itself included. Most stay of the same shape, so that more
    /// is read than of bytes that were damaged.
    pub fn change(&mut self, value: &mut Value) {
        let (at, other) = (self.below(count(value)), self.below(count(value)));
        let other = nth(value, &mut { other }).cloned().unwrap_or_default();
        let Some(value) = nth(value, &mut { at }) else { return };
        match value {
            Value::Number(number) => {
                let number = number.as_u64().unwrap_or_default();
                let edges = [0, 1, u64::from(u32::MAX), (1 << 53) - 1, u64::MAX - 1, u64::MAX];
                let near = [number.saturating_add(1), number.saturating_sub(1)];
                let numbers = [&edges[..], &near].concat();
                *value = numbers[self.below(numbers.len())].into();
            }
            Value::Bool(flag) => *flag = !*flag,
            Value::Array(values) if !values.is_empty() => {
                let at = self.below(values.len());
                match self.below(3) {
                    0 => drop(values.remove(at)),
                    1 => values.push(values[at].clone()),
                    _ => values.swap(0, at),
                }
            }
            _ => *value = other,
        }
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().map(count).sum(),
        Value::Object(values) => values.values().map(count).sum(),
        _ => 0,
    }
}

/// One of the values in this one, by its number. What is left of the number is 0 once it is found.
fn nth<'a>(value: &'a mut Value, at: &mut usize) -> Option<&'a mut Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(values) => values.iter_mut().find_map(|value| nth(value, at)),
        Value::Object(values) => values.values_mut().find_map(|value| nth(value, at)),
        _ => None,
    }
}

/// A number that the environment gives.
pub fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.parse().ok()
}

/// The seed that the environment gives, or one that is drawn.
pub fn seed() -> u64 {
    number("TAKETURNS_SEED").unwrap_or_else(|| RandomState::new().hash_one(()))
}

/// For how long the environment says that it goes on.
pub fn seconds() -> Option<Duration> {
    number("TAKETURNS_FUZZ_SECONDS").map(Duration::from_secs)
}

/// Plays rounds, each with a seed of its own: `few` of them, or as many as there is time for. A round
/// says whether what it made up was taken for genuine.
///
/// # Panics
/// If a round does: the message says how to repeat it. Also if nothing was taken, or everything: a
/// test of nothing would pass too.
pub fn rounds(what: &str, few: u64, mut round: impl FnMut(&mut Dice) -> bool) {
    let started = Instant::now();
    let (first, limit) = match seconds() {
        None => (number("TAKETURNS_SEED").unwrap_or(0), None),
        limit => (seed(), limit),
    };
    let (mut played, mut taken) = (0, 0);
    while limit.map_or(played < few, |limit| started.elapsed() < limit) {
        let seed = first.wrapping_add(played);
        let tried = catch_unwind(AssertUnwindSafe(|| round(&mut Dice::new(seed))));
        let Ok(is_taken) = tried else { panic!("{what}: to repeat it: TAKETURNS_SEED={seed}") };
        played += 1;
        taken += u64::from(is_taken);
    }
    println!("{what}: {played} rounds from TAKETURNS_SEED={first}, {taken} taken");
    // Of fewer than that none may be.
    if played >= few {
        assert!(0 < taken && taken < played, "{what}: {taken} of {played} were taken");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_and_hardly_ever_what_is_genuine() {
        let draw = |seed| Dice::new(seed).damaged(&["a genuine word", "another"]);
        assert_eq!(draw(7), draw(7));
        let drawn: std::collections::BTreeSet<_> = (0..1_000).map(draw).collect();
        assert!(drawn.len() > 800, "{}", drawn.len());
        assert!(drawn.iter().all(|bytes| bytes.len() <= BYTES_MAX));
    }

    #[test]
    fn a_change_changes_one_value() {
        let genuine = serde_json::json!({ "a": [1, true, { "b": 7 }], "c": null });
        assert_eq!(count(&genuine), 7);
        let changed = |seed| {
            let mut value = genuine.clone();
            Dice::new(seed).change(&mut value);
            value
        };
        assert_eq!(changed(3), changed(3));
        let other = (0..200).map(changed).filter(|value| *value != genuine).count();
        assert!(other > 100, "{other}");
    }

    #[test]
    fn a_round_that_fails_says_how_it_is_repeated() {
        let said = catch_unwind(|| rounds("it", 10, |_| panic!("found"))).expect_err("it panics");
        let said = said.downcast_ref::<String>().expect("a message");
        assert!(said.contains("it: to repeat it: TAKETURNS_SEED="), "{said}");
    }

    #[test]
    fn a_test_of_nothing_fails() {
        for always in [true, false] {
            assert!(catch_unwind(|| rounds("it", 10, |_| always)).is_err());
        }
    }
}
