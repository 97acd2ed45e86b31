//! What a server says may be anything: nothing that reads it panics, whatever it is. Genuine words,
//! damaged at random, get further than random bytes do.
//!
//! A failure names its seed; everything comes from that.

use redis::Value;
use taketurns_core::wire::{self, Verb};

use super::marker::Marker;
use super::net::url::Config;
use super::view;

const ROUNDS: u64 = 40_000;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((z ^ (z >> 31)) % below as u64) as usize
    }
}

/// Bytes that mean something to some reader.
const BYTES: &[u8] = b" \n-,0159afGNQFIXsn/!%:@?#[]{}\x00\xc3\xff";
const NUMBERS: [&str; 6] = ["18446744073709551615", "18446744073709551616", "-1", "1e9", "", "00"];

fn damaged(dice: &mut Dice, genuine: &[u8]) -> Vec<u8> {
    let mut bytes = genuine.to_vec();
    for _ in 0..=dice.roll(4) {
        let at = dice.roll(bytes.len() + 1);
        match dice.roll(5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, BYTES[dice.roll(BYTES.len())]),
            2 if at < bytes.len() => bytes[at] = BYTES[dice.roll(BYTES.len())],
            3 => {
                let number = NUMBERS[dice.roll(NUMBERS.len())].bytes();
                bytes.splice(at..at, number);
            }
            _ => bytes.extend_from_within(at..),
        }
        bytes.truncate(4_096);
    }
    bytes
}

fn each(genuine: &[&str], mut read: impl FnMut(&[u8])) {
    for seed in 0..ROUNDS {
        let mut dice = Dice(seed);
        let genuine = genuine[dice.roll(genuine.len())];
        let bytes = damaged(&mut dice, genuine.as_bytes());
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| read(&bytes)));
        assert!(tried.is_ok(), "seed {seed}: {:?}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn no_reply_makes_its_reader_panic() {
    let owner = "0123456789abcdef";
    let told = format!("5 0 F 3 4 - -\n{owner} G 9 8 m\n{owner} G 9/7/5! 8 ");
    let replies = [
        "1700000000000 0 G 1700000000000001 1700000030000 ",
        "1700000000000 0 N 1700000000000009/1700000000000001/1700000000000005! 1700000030000 ",
        "1700000000000 1 Q 4 2 1700000030000 -",
        "1700000000000 0 X quarantined 1700000030000",
        "1 0 X kind s4",
        told.as_str(),
    ];
    each(&replies, |bytes| {
        let known = |id: &str| (id.len() == 16).then_some(taketurns_core::Owner::from_bits(7));
        std::str::from_utf8(bytes).ok().and_then(|text| wire::decode(text, known));
    });
}

#[test]
fn no_wake_up_makes_its_reader_panic() {
    let owner = taketurns_core::Owner::from_bits(7);
    let id = wire::public_id(owner);
    let events = ["G 12 34 b", "G 12/7/5! 34 ", "I 12"];
    let bodies = events.map(|event| format!("{id} 0123456789abcdef {event}"));
    // Sealed when it is damaged: otherwise nothing of it would be read.
    let sealed = |body: &[u8]| {
        let seal = wire::sha1_hex([wire::owner_text(owner).as_bytes(), body].concat());
        [seal.as_bytes(), b" ", body].concat()
    };
    each(&bodies.each_ref().map(String::as_str), |bytes| {
        for message in [bytes, &sealed(bytes)] {
            if let Some(sealed) = wire::Sealed::parse(message) {
                sealed.open(owner);
            }
        }
    });
}

#[test]
fn no_ballot_and_no_write_back_makes_its_reader_panic() {
    let owner = wire::owner_text(taketurns_core::Owner::from_bits(7));
    let words = [&owner, "0000000000000007", "m", "3000", "300", "1700000000000", "who\nwhy"];
    let words = words.map(str::as_bytes);
    each(&["1700000000000001 - -", "5 7 9", "18446744073709551615 4"], |bytes| {
        wire::decode_request(Verb::Acquire, &[&words[..], &[bytes]].concat());
        wire::decode_request(Verb::Renew, &[words[0], words[1], words[3], bytes]);
    });
    let ballot = wire::decode_request(Verb::Acquire, &[&words[..], &[b"5 7 9"]].concat());
    assert!(ballot.is_some(), "undamaged it is read");
}

#[test]
fn no_marker_and_no_url_makes_its_reader_panic() {
    each(&["taketurns2 ab12 1700000000000 0 60000 ab,cd", "taketurns2 ab12 1 2 3 "], |bytes| {
        if let Some(text) = std::str::from_utf8(bytes).ok()
            && let Some(marker) = Marker::parse(text)
        {
            assert_eq!(Marker::parse(&marker.to_string()).as_ref(), Some(&marker));
        }
    });
    let urls = [
        "redis://us%20er:pa%2Fss@[::1]:6379/2?prefix=a:&max_lease=90&failover=strict",
        "redis+sentinel://h1,h2:26380/turns/1?sentinel_user=x&strict=true",
        "rediss+cluster://h1:7000,h2?ca=/x&cert=/y&key=/z",
    ];
    each(&urls, |bytes| {
        let _ = std::str::from_utf8(bytes).map(Config::parse);
    });
}

#[test]
fn no_view_makes_its_reader_panic() {
    let holder = "ab\n0c\n12\nm\n30000\n1700000030000\n1700000000000\n10\n\nwho\nwhy";
    let vote = "ab\n0c\n12\nm\n30000\n1700000030000\n1700000000000\n01 12 9\n\nwho\nwhy";
    let waiter = "ab\n0c\ns1/4\n30000\n1700000000000\nwho\nwhy";
    let texts = [holder, waiter, vote, "5 3000 1 0 ab", "3 1700000000000", "s4", "b-3", "l", "12"];
    let mut dice = Dice(1);
    each(&texts, |bytes| {
        let mut text = || match dice.roll(7) {
            0 => Value::Nil,
            1 => Value::Int(-1),
            2 => Value::BulkString(bytes.to_vec()),
            at => Value::BulkString(texts[at].as_bytes().to_vec()),
        };
        let lists: Vec<Value> = (0..3).map(|_| Value::Array(vec![text(), text()])).collect();
        let [holders, waiters, members] = &lists[..] else { return };
        let now = Value::Int(1_700_000_000_000);
        let (kind, token, era) = (text(), text(), text());
        let waiting = Value::Int(1);
        view::read(&Value::Array(vec![
            now,
            text(),
            kind,
            token,
            era,
            holders.clone(),
            waiting,
            waiters.clone(),
            members.clone(),
        ]));
        view::read(&Value::Array(vec![text(), text()]));
    });
}
