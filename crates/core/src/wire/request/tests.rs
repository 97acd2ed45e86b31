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
