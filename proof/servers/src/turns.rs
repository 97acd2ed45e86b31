//! Turns that holders of locks noted, in whatever language and process, and whether they can be.
//!
//! All times are of the machine's monotonic clock, which all its processes share. A holder notes the
//! beginning after its acquire returned, and the end before it sends the release, so what it notes is
//! less than what it had.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;

/// One turn, as its holder saw it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TurnRecord {
    /// The holder.
    pub who: String,
    /// What it held.
    pub lock: String,
    /// Which member of it, if it is a pool.
    pub member: Option<String>,
    /// When it held it for certain: [`now_us`].
    pub from_us: u64,
    /// Until when.
    pub until_us: u64,
    /// So long after its acquire was sent that it can't say whether it still held the lock.
    #[serde(default)]
    pub unsure: bool,
}

impl TurnRecord {
    /// One that begins and ends now.
    pub fn begin(who: impl Into<String>, lock: impl Into<String>, member: Option<String>) -> Self {
        let now = now_us();
        let (who, lock) = (who.into(), lock.into());
        Self { who, lock, member, from_us: now, until_us: now, unsure: false }
    }
}

/// The machine's monotonic clock, in microseconds.
pub fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // It counts from a start of the machine, so nothing is negative.
    let [seconds, nanos] = [now.tv_sec, now.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    seconds * 1_000_000 + nanos / 1_000
}

/// Where the clients of one process note their turns.
#[derive(Debug, Default)]
pub struct TurnLog(Mutex<Vec<TurnRecord>>);

impl TurnLog {
    /// Notes one that is over.
    pub fn add(&self, turn: TurnRecord) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(turn);
    }

    /// All that were noted.
    pub fn all(&self) -> Vec<TurnRecord> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Two turns of one lock, or of one member of it, that were both sure and at one time.
pub fn overlap(turns: &[TurnRecord]) -> Option<(&TurnRecord, &TurnRecord)> {
    let mut turns: Vec<&TurnRecord> = turns.iter().filter(|turn| !turn.unsure).collect();
    turns.sort_by_key(|turn| turn.from_us);
    let mut latest: BTreeMap<(&str, Option<&str>), &TurnRecord> = BTreeMap::new();
    for turn in turns {
        // As long as none was found, the one that began last is also the one that ends last.
        let before = latest.insert((&turn.lock, turn.member.as_deref()), turn);
        if let Some(before) = before.filter(|before| turn.from_us < before.until_us) {
            return Some((before, turn));
        }
    }
    None
}

/// No two holders had one lock at one time, as far as they were sure.
///
/// # Panics
///
/// If two had.
#[track_caller]
pub fn check(turns: &[TurnRecord]) {
    if let Some((one, other)) = overlap(turns) {
        let both_us = one.until_us.min(other.until_us) - other.from_us;
        panic!("two held one lock for {both_us} µs:\n{one:?}\n{other:?}");
    }
}

/// Who of all these had the fewest turns that it was sure of, and how many.
///
/// # Panics
///
/// If there is nobody to ask about.
#[track_caller]
pub fn least_turns(
    turns: &[TurnRecord],
    everyone: impl IntoIterator<Item = impl Into<String>>,
) -> (String, usize) {
    let count = |who: &String| turns.iter().filter(|turn| !turn.unsure && turn.who == *who).count();
    let counts = everyone.into_iter().map(Into::into).map(|who| (count(&who), who));
    let (least, who) = counts.min().expect("somebody takes turns");
    (who, least)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(who: &str, member: Option<&str>, from_us: u64, until_us: u64) -> TurnRecord {
        let member = member.map(str::to_owned);
        TurnRecord { from_us, until_us, ..TurnRecord::begin(who, "orders", member) }
    }

    #[test]
    fn turns_one_after_the_other_are_fine() {
        let turns = [turn("b", None, 20, 30), turn("a", None, 10, 20), turn("a", None, 30, 30)];
        assert_eq!(overlap(&turns), None);
        check(&turns);
    }

    #[test]
    fn two_at_one_time_are_found_in_whatever_order_they_come() {
        let [a, b] = [turn("a", None, 10, 21), turn("b", None, 20, 30)];
        for turns in [[a.clone(), b.clone()], [b.clone(), a.clone()]] {
            assert_eq!(overlap(&turns), Some((&a, &b)));
        }
    }

    #[test]
    fn one_that_is_long_is_compared_with_all_that_come_in_it() {
        let long = turn("a", None, 10, 100);
        for [from, until] in [[10, 10], [11, 12], [99, 200]] {
            let turns =
                [long.clone(), turn("b", Some("other"), 50, 60), turn("b", None, from, until)];
            assert!(overlap(&turns).is_some(), "{from} to {until}");
        }
        let inner = [long.clone(), turn("b", None, 100, 110), turn("c", None, 105, 106)];
        assert_eq!(overlap(&inner), Some((&inner[1], &inner[2])));
    }

    #[test]
    fn locks_and_members_are_apart() {
        let mut turns = vec![turn("a", Some("1"), 10, 30), turn("b", Some("2"), 10, 30)];
        turns.push(TurnRecord { lock: "bills".to_owned(), ..turn("c", Some("1"), 10, 30) });
        check(&turns);
        turns.push(turn("d", Some("2"), 29, 40));
        assert!(overlap(&turns).is_some());
    }

    #[test]
    fn who_is_not_sure_is_not_blamed_and_does_not_count() {
        let unsure = TurnRecord { unsure: true, ..turn("a", None, 10, 30) };
        let turns = [unsure, turn("b", None, 10, 30), turn("b", None, 30, 31)];
        check(&turns);
        assert_eq!(least_turns(&turns, ["b"]), ("b".to_owned(), 2));
        assert_eq!(least_turns(&turns, ["b", "a"]), ("a".to_owned(), 0));
        assert_eq!(least_turns(&turns, ["b", "never"]), ("never".to_owned(), 0));
    }

    #[test]
    #[should_panic(expected = "two held one lock for 10 µs")]
    fn the_check_says_for_how_long() {
        check(&[turn("a", None, 10, 30), turn("b", None, 20, 40)]);
    }

    #[test]
    fn the_clock_is_the_one_that_other_programs_read() {
        let noted = TurnLog::default();
        let script = "import time; print(time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000)";
        let mut turn = TurnRecord::begin("a", "orders", None);
        let said = std::process::Command::new("python3").args(["-c", script]).output();
        let said = String::from_utf8(said.expect("Python").stdout).expect("a number");
        turn.until_us = now_us();
        noted.add(turn.clone());
        let theirs: u64 = said.trim().parse().expect("a number");
        assert!(turn.from_us <= theirs && theirs <= turn.until_us, "{theirs} in {turn:?}");
        assert_eq!(noted.all(), [turn]);
    }
}
