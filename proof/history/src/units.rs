//! Numbers and times as people read them.

use std::fmt;

/// A number with its digits in groups of three.
pub(crate) struct GroupedNumber(pub(crate) u64);

impl fmt::Display for GroupedNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (index, digit) in digits.char_indices() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                f.write_str(" ")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

/// A length of time in µs, with three digits or so.
pub(crate) struct Span(pub(crate) u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.0;
        let whole = us as f64;
        match us {
            0..1_000 => write!(f, "{us} µs"),
            1_000..10_000 => write!(f, "{:.2} ms", whole / 1e3),
            10_000..1_000_000 => write!(f, "{:.0} ms", whole / 1e3),
            1_000_000..100_000_000 => write!(f, "{:.1} s", whole / 1e6),
            _ => write!(f, "{} min {} s", us / 60_000_000, us / 1_000_000 % 60),
        }
    }
}
