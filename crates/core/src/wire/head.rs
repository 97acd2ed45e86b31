//! The head of a lock that the scripts keep: what every step of theirs writes, in one field of the hash.
//! Numbers are as they are in Lua's memory, since to print and to read one takes a tenth of a step.

use super::{kind, kind_text};
use crate::{Kind, limits};

/// What stands before the first holder in the field `s` of a lock's hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The time of the last step.
    pub seen_ms: u64,
    /// The last token, or 0.
    pub last_token: u64,
    /// When the key goes; 0 if it stays.
    pub expires_ms: u64,
    /// Until when nobody is granted.
    pub quarantine_until_ms: u64,
    /// How many hold it.
    pub holders: u64,
    /// What they weigh.
    pub weight: u64,
    /// No lease ends before.
    pub first_ms: u64,
    /// No lease ends after.
    pub last_ms: u64,
    /// How many wait.
    pub waiting: u64,
    /// How many were cancelled, and are remembered.
    pub buried: u64,
    /// The kind.
    pub kind: Kind,
    /// The server's run at the last step.
    pub run: String,
}

impl Head {
    /// Ten numbers, and the ends of two empty texts.
    pub const BYTES_MIN: usize = 82;

    /// Reads a head, and what follows it. `None` if it is none.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (numbers, rest) = bytes.split_at_checked(80)?;
        let mut numbers = numbers.as_chunks::<8>().0.iter().map(|bytes| whole(*bytes));
        let mut number = || numbers.next()?;
        let mut parts = rest.splitn(3, |byte| *byte == 0);
        let mut text = || std::str::from_utf8(parts.next()?).ok();
        let head = Self {
            seen_ms: number()?,
            last_token: number()?,
            expires_ms: number()?,
            quarantine_until_ms: number()?,
            holders: number()?,
            weight: number()?,
            first_ms: number()?,
            last_ms: number()?,
            waiting: number()?,
            buried: number()?,
            kind: kind(text()?)?,
            run: text()?.to_owned(),
        };
        Some((head, parts.next()?))
    }

    /// As it is stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        let numbers = [
            self.seen_ms,
            self.last_token,
            self.expires_ms,
            self.quarantine_until_ms,
            self.holders,
            self.weight,
            self.first_ms,
            self.last_ms,
            self.waiting,
            self.buried,
        ];
        let mut bytes = numbers.map(|number| (number as f64).to_be_bytes()).concat();
        for text in [&kind_text(self.kind), &self.run] {
            bytes.extend(text.as_bytes());
            bytes.push(0);
        }
        bytes
    }
}

/// A number that Lua counts to without gaps.
fn whole(bytes: [u8; 8]) -> Option<u64> {
    let number = f64::from_be_bytes(bytes);
    let is_whole = number.fract() == 0.0 && (0.0..=limits::TOKEN_MAX as f64).contains(&number);
    is_whole.then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written_and_nothing_else_is() {
        let kind = Kind::Semaphore { permits: 4 };
        let head = Head { seen_ms: 7, last_token: 1 << 52, waiting: 3, kind, ..Head::default() };
        let head = Head { run: "ab12".into(), ..head };
        let stored = [&head.to_bytes()[..], b"00ff\n"].concat();
        assert_eq!(Head::parse(&stored), Some((head.clone(), &b"00ff\n"[..])));
        for end in 0..head.to_bytes().len() {
            assert_eq!(Head::parse(&stored[..end]), None, "cut short at {end}");
        }
        for wrong in [0.5, -1.0, f64::NAN, f64::INFINITY, (1_u64 << 60) as f64] {
            let numbers = [&wrong.to_be_bytes()[..], &stored[8..]].concat();
            assert_eq!(Head::parse(&numbers), None, "{wrong}");
        }
    }
}
