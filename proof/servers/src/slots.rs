//! Which of the 16384 slots of a cluster a key is in.

/// How many slots there are.
pub(crate) const SLOTS: u16 = 16_384;

/// The slot of a key: that of what is between its first `{` and the next `}`, if there is
/// something, else that of all of it.
///
/// ```
/// use taketurns_servers::slot_of;
///
/// assert_eq!(slot_of("foo"), 12182);
/// assert_eq!(slot_of("{foo}.a"), slot_of("{foo}.b"));
/// ```
pub fn slot_of(key: impl AsRef<[u8]>) -> u16 {
    crc16(tag(key.as_ref())) % SLOTS
}

fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let rest = &key[open + 1..];
    match rest.iter().position(|&byte| byte == b'}') {
        Some(close) if close > 0 => &rest[..close],
        _ => key,
    }
}

/// CRC-16/XMODEM, bit by bit: it is short, and tests hash few keys.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_cluster_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
    }

    #[test]
    fn an_empty_or_open_tag_is_no_tag() {
        assert_eq!(tag(b"{}x"), b"{}x");
        assert_eq!(tag(b"{x"), b"{x");
        assert_eq!(tag(b"a{b}{c}"), b"b");
        assert_eq!(tag(b"a}{b}"), b"b");
    }
}
