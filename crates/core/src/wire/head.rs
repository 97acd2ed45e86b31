//! The head of a lock that the scripts keep: what every step of theirs writes, in one field of the hash. It is text
//! of fixed widths, so that a script finds each number without reading the others, and compares numbers as text.

use super::{kind, kind_text};
use crate::Kind;

/// What stands before the first holder in the field [`Head::FIELD`] of a lock's hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The time of the last step that looked at the time.
    pub seen_ms: u64,
    /// The last token, or 0.
    pub last_token: u64,
    /// When the key goes; 0 if it stays.
    pub expires_ms: u64,
    /// Until when nobody is granted.
    pub quarantine_until_ms: u64,
    /// How many were cancelled, and are remembered.
    pub buried: u64,
    /// Until when the first of them is remembered.
    pub buried_until_ms: u64,
    /// No lease ends before.
    pub first_ms: u64,
    /// No lease ends after.
    pub last_ms: u64,
    /// No client that waits has a longer waiter lease.
    pub patience_ms: u64,
    /// What the holders weigh.
    pub weight: u64,
    /// How many hold it.
    pub holders: u64,
    /// How many wait.
    pub waiting: u64,
    /// The kind.
    pub kind: Kind,
    /// The server's run at the last step that looked at the time.
    pub run: String,
}

/// How many digits a time has: milliseconds until the year 5138.
pub(super) const TIME_DIGITS: usize = 14;
/// How many digits a token has, and a time in microseconds.
pub(super) const TOKEN_DIGITS: usize = 17;
/// How many digits a lease has.
pub(super) const LEASE_DIGITS: usize = 8;

impl Head {
    /// The field of the hash.
    pub const FIELD: &str = "H";

    /// The widths of the numbers, in their order.
    const WIDTHS: [usize; 12] = [
        TOKEN_DIGITS,
        TOKEN_DIGITS,
        TIME_DIGITS,
        TIME_DIGITS,
        5,
        TIME_DIGITS,
        TIME_DIGITS,
        TIME_DIGITS,
        LEASE_DIGITS,
        7,
        4,
        6,
    ];

    /// Reads a head, and what follows it. `None` if it is none.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let mut rest = bytes;
        let mut take = |width: usize| {
            let (word, after) = rest.split_at_checked(width)?;
            rest = after;
            super::number(word)
        };
        let mut numbers = [0; Self::WIDTHS.len()];
        for (number, width) in numbers.iter_mut().zip(Self::WIDTHS) {
            *number = take(width)?;
        }
        let [seen_us, last_token, expires_ms, quarantine_until_ms, buried, buried_until_ms, ..] =
            numbers;
        let [.., first_ms, last_ms, patience_ms, weight, holders, waiting] = numbers;
        let (kind, rest) = rest.split_at_checked(8)?;
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let head = Self {
            seen_ms: seen_us / 1_000,
            last_token,
            expires_ms,
            quarantine_until_ms,
            buried,
            buried_until_ms,
            first_ms,
            last_ms,
            patience_ms,
            weight,
            holders,
            waiting,
            kind: parse_kind(std::str::from_utf8(kind).ok()?)?,
            run: std::str::from_utf8(&rest[..end]).ok()?.to_owned(),
        };
        Some((head, &rest[end + 1..]))
    }

    /// As it is stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        let numbers = [
            self.seen_ms * 1_000,
            self.last_token,
            self.expires_ms,
            self.quarantine_until_ms,
            self.buried,
            self.buried_until_ms,
            self.first_ms,
            self.last_ms,
            self.patience_ms,
            self.weight,
            self.holders,
            self.waiting,
        ];
        let mut text = String::new();
        for (number, width) in numbers.into_iter().zip(Self::WIDTHS) {
            text.push_str(&format!("{number:0width$}"));
        }
        text.push_str(&padded_kind(self.kind));
        text.push_str(&self.run);
        text.push('\n');
        text.into_bytes()
    }
}

/// A letter, and the permits of a semaphore in seven digits.
fn padded_kind(kind: Kind) -> String {
    let text = kind_text(kind);
    let (letter, permits) = text.split_at(1);
    format!("{letter}{permits:0>7}")
}

fn parse_kind(text: &str) -> Option<Kind> {
    match text.split_at_checked(1)? {
        ("s", permits) => kind(&format!("s{}", super::number(permits.as_bytes())?)),
        (letter, "0000000") => kind(letter),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written_and_nothing_else_is() {
        for kind in [Kind::Mutex, Kind::RwLock, Kind::Pool, Kind::Semaphore { permits: 1_000_000 }]
        {
            let head = Head { seen_ms: 7, last_token: 1 << 52, waiting: 3, ..Head::default() };
            let head = Head { kind, run: "ab12".into(), buried: 10_000, ..head };
            let stored = [&head.to_bytes()[..], b"00ff\n"].concat();
            assert_eq!(Head::parse(&stored), Some((head.clone(), &b"00ff\n"[..])));
            for end in 0..head.to_bytes().len() {
                assert_eq!(Head::parse(&stored[..end]), None, "cut short at {end}");
            }
            for at in 0..Head::WIDTHS.iter().sum() {
                let wrong = [&stored[..at], b"-", &stored[at + 1..]].concat();
                assert_eq!(Head::parse(&wrong), None, "no digit at {at}");
            }
        }
    }
}
