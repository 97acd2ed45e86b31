//! Turns of our own clients, noted as foreign clients note theirs.

use std::time::Duration;

use taketurns::{Error, Guard};
use taketurns_servers::turns::{TurnLog, TurnRecord, now_us};

/// One turn: sees all along that the lock is held, and gives it back, if it still is.
pub(crate) async fn turn(
    guard: Guard,
    who: &str,
    hold: Duration,
    noted: &TurnLog,
) -> Result<(), Error> {
    let member = guard.member().map(ToString::to_string);
    let mut turn = TurnRecord::begin(who, guard.name().to_string(), member);
    let end_us = turn.from_us + u64::try_from(hold.as_micros()).unwrap_or(u64::MAX);
    // The time is taken first: it was held then.
    let mut now = turn.from_us;
    while guard.is_held() {
        turn.until_us = now;
        if now >= end_us {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        now = now_us();
    }
    noted.add(turn);
    guard.release().await
}
