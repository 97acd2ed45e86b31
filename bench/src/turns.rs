//! A log of turns, and what it says of a lock: how often it changed hands, how long it lay idle in
//! between, who waited how long, and who was overtaken.
//!
//! All contestants write the same log, so one judge is enough:
//!
//! ```text
//!   turn CLIENT ASKED_US GOT_US RELEASED_US      CLOCK_MONOTONIC; released: when release was called
//! ```

use std::fmt;

pub(crate) use taketurns_servers::turns::now_us;

use crate::stats::{median, percentile};

/// One turn of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoggedTurn {
    pub(crate) client: u32,
    pub(crate) asked_us: u64,
    pub(crate) got_us: u64,
    pub(crate) released_us: u64,
}

/// What a log says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TurnStatistics {
    /// Turns that did not follow a turn of the same client, per second.
    pub(crate) hand_overs_per_s: f64,
    /// From a release to the next grant to another client; the median, in µs.
    pub(crate) gap_us: f64,
    /// The same, which one of a hundred exceeds.
    pub(crate) gap_p99_us: f64,
    pub(crate) wait_p50_us: f64,
    pub(crate) wait_p99_us: f64,
    pub(crate) wait_max_us: f64,
    /// The longest wait in units of the fair share, which is a turn of each client.
    pub(crate) wait_max_shares: f64,
    /// Turns before which somebody waited who had asked earlier, per 1 000 turns.
    pub(crate) overtakes: f64,
}

impl LoggedTurn {
    /// Reads a line of the log.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let fields = || {
            let mut words = line.strip_prefix("turn ")?.split(' ');
            let mut number = || words.next()?.parse::<u64>().ok();
            let [client, asked_us, got_us, released_us] =
                [number()?, number()?, number()?, number()?];
            let client = u32::try_from(client).ok()?;
            words.next().is_none().then_some(Self { client, asked_us, got_us, released_us })
        };
        fields().ok_or_else(|| format!("not a turn: {line}"))
    }
}

impl fmt::Display for LoggedTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, asked_us, got_us, released_us } = self;
        write!(f, "turn {client} {asked_us} {got_us} {released_us}")
    }
}

/// Judges a log of a number of clients, in any order. An error if the log is too short to say anything, or if two
/// clients held the lock at once: then it was no lock.
pub(crate) fn judge(log: &[LoggedTurn], clients: u32) -> Result<TurnStatistics, String> {
    let mut turns = log.to_vec();
    turns.sort_by_key(|turn| turn.got_us);
    let (Some(first), Some(last)) = (turns.first(), turns.last()) else {
        return Err("there were no turns".to_owned());
    };
    let span_us = (last.got_us - first.got_us) as f64;
    if turns.len() < 2 || span_us <= 0.0 {
        return Err(format!("{} turns say nothing", turns.len()));
    }
    let mut gaps_us = Vec::new();
    for pair in turns.windows(2).filter(|pair| pair[0].client != pair[1].client) {
        // Both are read around a call, so that a gap of nothing may look like one of less.
        if pair[1].got_us + SLACK_US < pair[0].released_us {
            return Err(format!("two held it at once: {} and {}", pair[0], pair[1]));
        }
        gaps_us.push(pair[1].got_us.saturating_sub(pair[0].released_us) as f64);
    }
    let waits_us: Vec<f64> = turns.iter().map(|turn| turn.waited_us()).collect();
    let wait_max_us = waits_us.iter().copied().fold(0.0, f64::max);
    let share_us = span_us / (turns.len() - 1) as f64 * f64::from(clients);
    Ok(TurnStatistics {
        hand_overs_per_s: gaps_us.len() as f64 / span_us * 1e6,
        gap_us: median(&gaps_us).unwrap_or(0.0),
        gap_p99_us: percentile(&gaps_us, 0.99).unwrap_or(0.0),
        wait_p50_us: percentile(&waits_us, 0.5).unwrap_or(0.0),
        wait_p99_us: percentile(&waits_us, 0.99).unwrap_or(0.0),
        wait_max_us,
        wait_max_shares: wait_max_us / share_us,
        overtakes: overtaking(&turns) as f64 / turns.len() as f64 * 1000.0,
    })
}

/// How much two clocks of one machine may differ between processors.
const SLACK_US: u64 = 5;

impl LoggedTurn {
    fn waited_us(&self) -> f64 {
        self.got_us.saturating_sub(self.asked_us) as f64
    }
}

/// How many turns were taken while somebody waited who had asked before. The turns are in the order
/// of their grants, so those are the turns after which an earlier asker comes. Two who asked within
/// the time that a request takes are in no order that the store could know of.
fn overtaking(turns: &[LoggedTurn]) -> usize {
    let mut earliest_later_us = u64::MAX;
    let mut overtaking = 0;
    for turn in turns.iter().rev() {
        if earliest_later_us.saturating_add(ORDER_US) < turn.asked_us {
            overtaking += 1;
        }
        earliest_later_us = earliest_later_us.min(turn.asked_us);
    }
    overtaking
}

/// Who asks so much later came later, on any connection.
const ORDER_US: u64 = 1_000;

/// Holds for as long as it says. A runtime's timer counts in milliseconds, and rounds up.
pub(crate) async fn hold(time: std::time::Duration) {
    let _ = tokio::task::spawn_blocking(move || std::thread::sleep(time)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn turn(client: u32, asked_us: u64, got_us: u64, released_us: u64) -> LoggedTurn {
        LoggedTurn { client, asked_us, got_us, released_us }
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let one = turn(3, 10, 20, 30);
        assert_eq!(LoggedTurn::parse(&one.to_string()), Ok(one));
        for wrong in ["", "turn 1 2 3", "turn 1 2 3 x", "turn 1 2 3 4 5", "1 2 3 4"] {
            assert!(LoggedTurn::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn two_in_turn_have_gaps_waits_and_nobody_overtaken() {
        // Each holds for 900 µs, and the next has it 100 µs later.
        let log: Vec<LoggedTurn> = (0..=1_000_u64)
            .map(|n| {
                turn((n % 2) as u32, (n * 1_000).saturating_sub(950), n * 1_000, n * 1_000 + 900)
            })
            .rev()
            .collect();
        let judged = judge(&log, 2).expect("a log");
        assert_eq!(judged.hand_overs_per_s, 1_000.0);
        assert_eq!((judged.gap_us, judged.wait_p50_us, judged.wait_max_us), (100.0, 950.0, 950.0));
        assert_eq!((judged.wait_max_shares, judged.overtakes), (0.475, 0.0));
    }

    #[test]
    fn a_turn_after_ones_own_is_no_hand_over() {
        let log = [turn(0, 0, 0, 10), turn(0, 20, 20, 30), turn(0, 40, 40, 50), turn(1, 0, 60, 70)];
        let judged = judge(&log, 2).expect("a log");
        assert_eq!(judged.hand_overs_per_s, 1e6 / 60.0);
        assert_eq!((judged.gap_us, judged.wait_max_us), (10.0, 60.0), "of the one hand-over");
        assert_eq!(judged.wait_max_shares, 60.0 / 40.0);
    }

    #[test]
    fn who_asked_much_earlier_and_comes_later_was_overtaken() {
        let early = turn(1, 0, 90_000, 91_000);
        let log = [turn(0, 5_000, 10_000, 11_000), turn(2, 6_000, 20_000, 21_000), early];
        assert_eq!(judge(&log, 3).expect("a log").overtakes, 2.0 / 3.0 * 1000.0);
        let close = [turn(0, 900, 10_000, 11_000), turn(2, 950, 20_000, 21_000), early];
        assert_eq!(judge(&close, 3).expect("a log").overtakes, 0.0, "nobody could tell");
    }

    #[test]
    fn two_at_once_are_not_judged_and_neither_is_nothing() {
        let both = judge(&[turn(0, 0, 10, 50), turn(1, 0, 30, 60)], 2);
        assert!(both.is_err_and(|why| why.contains("at once")));
        assert!(judge(&[], 2).is_err());
        assert!(judge(&[turn(0, 0, 0, 1)], 2).is_err());
    }
}
