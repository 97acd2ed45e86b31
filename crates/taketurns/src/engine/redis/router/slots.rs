//! Slots of a Cluster: which one a key is in, and who has it.

use redis::Value;

use crate::engine::redis::url::Address;

pub(crate) const SLOTS: u16 = 16_384;

/// A master and the slots that it has, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u16,
    pub(crate) last: u16,
    pub(crate) master: Address,
}

/// The slot of a key: that of its tag, if it has one.
pub(crate) fn slot(key: &[u8]) -> u16 {
    crc16(tag(key).unwrap_or(key)) % SLOTS
}

/// What stands between the first `{` of a key and the next `}`, if anything does.
pub(crate) fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|byte| *byte == b'{')?;
    let after = &key[open + 1..];
    let close = after.iter().position(|byte| *byte == b'}')?;
    (close > 0).then(|| &after[..close])
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

/// The smallest number whose text is in that slot.
pub(crate) fn tag_of(wanted: u16) -> String {
    // Digits reach every slot well before this; the tests try all.
    (0..u32::MAX)
        .map(|n| n.to_string())
        .find(|tag| slot(tag.as_bytes()) == wanted)
        .unwrap_or_default()
}

/// Reads the reply of `CLUSTER SLOTS`. `asked` is the host that gave it.
pub(crate) fn parse(reply: &Value, asked: &str) -> Option<Vec<Range>> {
    let Value::Array(rows) = reply else { return None };
    rows.iter().map(|row| range(row, asked)).collect()
}

fn range(row: &Value, asked: &str) -> Option<Range> {
    let Value::Array(row) = row else { return None };
    let [first, last, Value::Array(master), ..] = row.as_slice() else { return None };
    let [host, Value::Int(port), ..] = master.as_slice() else { return None };
    let host = match host {
        Value::Nil => String::new(),
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok()?,
        Value::SimpleString(text) => text.clone(),
        _ => return None,
    };
    let master = Address::of_parts(&host, u16::try_from(*port).ok()?, asked)?;
    let (first, last) = (number(first)?, number(last)?);
    (first <= last && last < SLOTS).then_some(Range { first, last, master })
}

fn number(value: &Value) -> Option<u16> {
    match value {
        Value::Int(number) => u16::try_from(*number).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"somekey"), 11058);
        assert_eq!(slot(b""), 0);
    }

    #[test]
    fn the_first_tag_decides() {
        assert_eq!(slot(b"foo{hash_tag}"), slot(b"hash_tag"));
        assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
        // An empty tag is none.
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot(b"foo{bar"), crc16(b"foo{bar") % SLOTS);
    }

    #[test]
    fn every_slot_has_a_tag() {
        let mut seen = vec![false; usize::from(SLOTS)];
        let found = (0..1_000_000u32).find(|n| {
            seen[usize::from(slot(n.to_string().as_bytes()))] = true;
            n % 1_000 == 0 && seen.iter().all(|seen| *seen)
        });
        assert!(found.is_some());
        assert_eq!(slot(tag_of(5461).as_bytes()), 5461);
        assert_eq!(slot(format!("tt:\x01run{{{}}}", tag_of(0)).as_bytes()), 0);
    }

    #[test]
    fn a_reply_is_read_and_an_unknown_host_is_the_one_that_was_asked() {
        let row = |first, last, host| {
            Value::Array(vec![
                Value::Int(first),
                Value::Int(last),
                Value::Array(vec![host, Value::Int(7000), Value::BulkString(b"id".to_vec())]),
            ])
        };
        let text = |host: &str| Value::BulkString(host.as_bytes().to_vec());
        let reply = Value::Array(vec![
            row(0, 5460, text("10.0.0.1")),
            row(5461, 5461, text("?")),
            row(5462, 16383, Value::Nil),
        ]);
        let ranges = parse(&reply, "asked").unwrap();
        let hosts: Vec<_> = ranges.iter().map(|range| range.master.host.as_str()).collect();
        assert_eq!(hosts, ["10.0.0.1", "asked", "asked"]);
        assert_eq!((ranges[2].first, ranges[2].last, ranges[2].master.port), (5462, 16383, 7000));
        assert_eq!(parse(&Value::Array(vec![row(0, 16384, text("h"))]), "asked"), None);
        assert_eq!(parse(&Value::Okay, "asked"), None);
    }
}
