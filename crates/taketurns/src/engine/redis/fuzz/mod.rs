//! What a server says may be anything: nothing that reads it panics, and what is read makes sense. The
//! wire format is fuzzed in core, URLs in `url/tests`.

mod foreign;
mod servers;

use redis::Value;
use taketurns_servers::fuzz::{self, Dice};

use super::handshake::marker::{Marker, MarkerContext, judge};
use super::url::Failover;
use super::view;

pub(super) fn text(text: impl AsRef<[u8]>) -> Value {
    Value::BulkString(text.as_ref().to_vec())
}

/// Returns a damaged copy of a reply.
pub(super) fn shaken(dice: &mut Dice, genuine: &Value) -> Value {
    if dice.percent(3) {
        let edges = [-1, 0, 16_384, 65_536, i64::MIN, i64::MAX];
        let other = [Value::Nil, Value::Okay, Value::Int(edges[dice.below(edges.len())])];
        return other[dice.below(other.len())].clone();
    }
    match genuine {
        Value::BulkString(bytes) if dice.percent(15) => text(dice.damaged(&[bytes])),
        Value::Array(values) => {
            let mut values: Vec<_> = values.iter().map(|value| shaken(dice, value)).collect();
            let at = dice.below(values.len() + 1);
            match dice.below(40) {
                0 => values.truncate(at),
                1 => values.extend_from_within(at..),
                _ => {}
            }
            Value::Array(values)
        }
        same => same.clone(),
    }
}

#[test]
fn a_marker_that_is_read_is_written_as_it_was_and_judged_without_harm() {
    let genuine = ["taketurns4 ab12 1700000000000 0 60000 ab,cd", "taketurns4 ab12 1 2 3 "];
    fuzz::rounds("markers", 20_000, |dice| {
        let damaged = dice.damaged_text(&genuine);
        let Some(marker) = Marker::parse(&damaged) else { return false };
        assert_eq!(Marker::parse(&marker.to_string()).as_ref(), Some(&marker), "{damaged:?}");
        let look = MarkerContext {
            run: dice.pick(&["ab12", "cd"]),
            now_ms: *dice.pick(&[&0, &1_700_000_000_000, &u64::MAX]),
            uptime_ms: dice.any(),
            lag_ms: *dice.pick(&[&0, &u64::MAX]),
            max_lease_ms: 60_000,
            failover: Failover::Strict,
            remembered: None,
        };
        let (judged, _) = judge(Some(&marker), look);
        assert_eq!(judged.run, look.run);
        assert!(judged.max_lease_ms >= marker.max_lease_ms);
        true
    });
}

#[test]
fn a_view_is_read_or_not_and_what_is_read_can_be_shown() {
    let asker = format!("01700000000000000{:08}{:032x}{:016x}", 30_000, 10, 12);
    let since = format!("{:017}01700000030000{asker}", 12);
    let holder = format!("10{since}m\nwho\nwhy");
    let vote = format!("01{since}m\nwho\nwhy\n\n12 9");
    let waiter = format!("{asker}s1/4\nwho\nwhy");
    let client = "1700000009000 3000 1 3 ab";
    let of = |texts: &[&str]| Value::Array(texts.iter().map(text).collect());
    let genuine = Value::Array(vec![
        Value::Int(1_700_000_000_000),
        text("1700000000005"),
        text("s4"),
        text("12"),
        text("3 1700000000000"),
        of(&[&holder, client, &vote, client]),
        Value::Int(2),
        of(&[&waiter, client, &waiter, client]),
        of(&["b-3", "l", "b-4", "f1"]),
        text("E 12 1700000000000 1700086400000 2\nwho\nwhy\n3 tables"),
    ]);
    let Some(Some(seen)) = view::read(&genuine) else { panic!("a view") };
    let json = serde_json::json!({ "now_ms": 1, "view": seen }).to_string();
    let short = Value::Array(vec![Value::Int(5), Value::Int(9)]);
    fuzz::rounds("views", 10_000, |dice| {
        let damaged = match dice.below(3) {
            0 => shaken(dice, &genuine),
            1 => text(dice.damaged(&[&json])),
            _ => shaken(dice, &short),
        };
        let Some(Some(view)) = view::read(&damaged) else { return false };
        let shown = serde_json::to_string(&view).expect("plain data");
        assert!(!shown.contains(char::is_control), "{shown:?}");
        assert_eq!(serde_json::from_str::<taketurns_core::View>(&shown).ok(), Some(view));
        true
    });
}
