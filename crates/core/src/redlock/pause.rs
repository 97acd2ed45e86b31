//! The pause between two rounds: random, so that contenders do not collide again.

/// The longest first pause.
const FIRST_US: u64 = 150_000;
/// No pause is longer.
const MAX_US: u64 = 250_000;

/// Returns the pause after this many failed rounds in a row: 50 to 150 ms after the first, up to
/// 250 ms later on, spread by `random`.
pub fn pause_us(failures: u32, random: u64) -> u64 {
    let doublings = failures.saturating_sub(1).min(8);
    let longest_us = (FIRST_US << doublings).min(MAX_US);
    let shortest_us = longest_us / 3;
    shortest_us + random % (longest_us - shortest_us + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_spread_and_grow_up_to_a_quarter_of_a_second() {
        assert_eq!(pause_us(1, 0), 50_000);
        assert_eq!(pause_us(1, 100_000), 150_000);
        assert_eq!(pause_us(1, 100_001), 50_000);
        for failures in 2..100 {
            let longest = (0..=MAX_US).map(|random| pause_us(failures, random)).max();
            assert_eq!(longest, Some(MAX_US));
            assert_eq!(pause_us(failures, 0), MAX_US / 3);
        }
        assert!(pause_us(u32::MAX, u64::MAX) <= MAX_US);
    }
}
