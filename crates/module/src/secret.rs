//! Secrets, from the operating system.

use std::cell::RefCell;

use taketurns_core::Owner;

/// The largest secret: an integer that JavaScript and Lua clients represent exactly.
pub(crate) const MAX: u64 = (1 << 53) - 1;

/// Random words drawn in advance, because one system call per secret would cost more than the lock.
struct RandomPool {
    words: [[u8; 8]; 128],
    left: usize,
}

thread_local! {
    static POOL: RefCell<RandomPool> = const { RefCell::new(RandomPool { words: [[0; 8]; 128], left: 0 }) };
}

/// Returns 64 random bits.
pub(crate) fn bits() -> u64 {
    POOL.with_borrow_mut(|pool| {
        if pool.left == 0 {
            // A lock with predictable secrets would be unsafe, so there is no fallback.
            getrandom::fill(pool.words.as_flattened_mut())
                .expect("the operating system gives random bits");
            pool.left = pool.words.len();
        }
        pool.left -= 1;
        u64::from_ne_bytes(std::mem::take(&mut pool.words[pool.left]))
    })
}

/// Returns a fresh secret, uniform in 1 to [`MAX`].
pub(crate) fn fresh() -> u64 {
    loop {
        let secret = bits() & MAX;
        if secret != 0 {
            return secret;
        }
    }
}

/// Converts a secret to its owner.
pub(crate) fn owner(secret: u64) -> Owner {
    Owner::from_bits(secret.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_use_all_their_bits_and_come_once() {
        let drawn: Vec<u64> = (0..10_000).map(|_| fresh()).collect();
        let distinct: std::collections::HashSet<_> = drawn.iter().collect();
        assert_eq!(distinct.len(), drawn.len());
        assert!(drawn.iter().all(|secret| (1..=MAX).contains(secret)));
        assert_eq!(drawn.iter().fold(0, |all, secret| all | secret), MAX);
        let high = drawn.iter().filter(|secret| **secret > MAX / 2).count();
        assert!((4_500..5_500).contains(&high), "{high} of 10000 in the upper half");
    }
}
