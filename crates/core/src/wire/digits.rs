//! Numbers as digits. Nearly all words are numbers: left to `parse` and `format!`, they would cost more
//! than the step that they ask for.

/// Reads decimal digits alone: no sign, no space.
pub fn number(word: &[u8]) -> Option<u64> {
    /// A number of so many digits fits whatever they are.
    const SURE: usize = 19;
    let (sure, rest) = word.split_at(word.len().min(SURE));
    let (mut number, mut is_number) = (0_u64, !word.is_empty());
    for byte in sure {
        let digit = byte.wrapping_sub(b'0');
        is_number &= digit <= 9;
        // What is no number may be too large for one.
        number = number.wrapping_mul(10).wrapping_add(digit.into());
    }
    let digit = |number: u64, byte: &u8| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        number.checked_mul(10)?.checked_add(digit.into())
    };
    rest.iter().try_fold(number, digit).filter(|_| is_number)
}

/// Reads up to sixteen hexadecimal digits.
pub(super) fn hex(word: &[u8]) -> Option<u64> {
    let (mut number, mut is_number) = (0, (1..=16).contains(&word.len()));
    for byte in word {
        let digit = VALUES[usize::from(*byte)];
        is_number &= digit < 16;
        number = number << 4 | u64::from(digit & 15);
    }
    is_number.then_some(number)
}

/// What each byte is worth as a hexadecimal digit; more than any if it is none.
const VALUES: [u8; 256] = {
    let mut values = [u8::MAX; 256];
    let mut digit = 0;
    while digit < 16 {
        values[DIGITS[digit] as usize] = digit as u8;
        values[DIGITS[digit].to_ascii_uppercase() as usize] = digit as u8;
        digit += 1;
    }
    values
};

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Writes decimal digits, two at a time.
pub fn push_number(text: &mut Vec<u8>, mut number: u64) {
    let (mut digits, mut at) = ([0; 20], 20);
    while number >= 100 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    let [ten, one] = PAIRS[number as usize];
    at -= 1;
    digits[at] = one;
    if number >= 10 {
        at -= 1;
        digits[at] = ten;
    }
    text.extend_from_slice(&digits[at..]);
}

const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [DIGITS[number / 10], DIGITS[number % 10]];
        number += 1;
    }
    pairs
};

/// Writes two hexadecimal digits for each byte.
pub(super) fn push_hex(text: &mut Vec<u8>, bytes: &[u8]) {
    let digits = |byte: &u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    text.extend(bytes.iter().flat_map(digits));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_digits_alone_and_no_larger_than_it_can_be() {
        for (word, is) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("00000000018446744073709551615", Some(u64::MAX)),
            ("9999999999999999999", Some(9_999_999_999_999_999_999)),
            ("18446744073709551616", None),
            ("99999999999999999999", None),
            ("184467440737095516150", None),
            ("", None),
            ("+1", None),
            ("-1", None),
            (" 1", None),
            ("1 ", None),
            ("1234567890123456789x", None),
            ("//////////////////9", None),
            ("1\u{661}", None),
        ] {
            assert_eq!(number(word.as_bytes()), is, "{word:?}");
        }
    }

    #[test]
    fn hexadecimal_digits_are_read_in_either_case() {
        assert_eq!(hex(b"0123456789abcdef"), Some(0x0123_4567_89ab_cdef));
        assert_eq!(hex(b"FEDCBA9876543210"), Some(0xfedc_ba98_7654_3210));
        assert_eq!(hex(b"f"), Some(15));
        for word in ["", "00000000000000000", "g", "+1", " 1", "0x1"] {
            assert_eq!(hex(word.as_bytes()), None, "{word:?}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for shift in 0..64 {
            for n in [u64::MAX >> shift, 1 << shift, 0x0123_4567_89ab_cdef >> shift] {
                let (mut decimal, mut hexadecimal) = (Vec::new(), Vec::new());
                push_number(&mut decimal, n);
                push_hex(&mut hexadecimal, &n.to_be_bytes());
                assert_eq!(decimal, n.to_string().into_bytes());
                assert_eq!(hexadecimal, format!("{n:016x}").into_bytes());
                assert_eq!((number(&decimal), hex(&hexadecimal)), (Some(n), Some(n)));
            }
        }
        for n in 0..1_000 {
            let mut decimal = Vec::new();
            push_number(&mut decimal, n);
            assert_eq!(decimal, n.to_string().into_bytes());
        }
    }
}
