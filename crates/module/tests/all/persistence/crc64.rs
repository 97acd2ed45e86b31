//! The checksum at the end of a DUMP and of a saved file.

/// CRC-64/REDIS, bit by bit: its inputs are short.
pub(crate) fn crc64(bytes: &[u8]) -> u64 {
    const REFLECTED: u64 = 0x95ac_9329_ac4b_c9b5;
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u64::from(byte), |crc, _| {
            if crc & 1 == 0 { crc >> 1 } else { (crc >> 1) ^ REFLECTED }
        })
    })
}

/// Makes the last eight bytes the checksum of all others.
pub(crate) fn seal(bytes: &mut [u8]) {
    let (body, end) = bytes.split_at_mut(bytes.len() - 8);
    end.copy_from_slice(&crc64(body).to_le_bytes());
}

#[test]
fn the_check_value_of_the_servers_own_checksum() {
    assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
}
