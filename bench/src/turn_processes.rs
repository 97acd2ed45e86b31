//! The two processes of the workload "hand-over": tasks that take turns on one lock, and the floor, which hears a
//! message and passes it on. Both hold for the same time, by the same timer, and keep the same log.
//!
//! ```text
//!   in:  N      N more tasks wait              out:  ready
//!        begin  CPU time counts from here            begun
//!        say    (floor) as if it had heard
//!        end of input                                turn … for each turn, cpu µs
//! ```

use std::io::{BufRead as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::cpu::own_cpu_us;
use crate::floor::Hop;
use crate::setup::{BenchError, open, said};
use crate::turns::{LoggedTurn, now_us};

/// How long each holds, and pauses after it. A timer counts in milliseconds and rounds up, so a holder holds
/// until the last one waits again.
const HOLD: Duration = Duration::from_millis(3);
const PAUSE: Duration = Duration::from_millis(1);

/// What the tasks of a process share.
#[derive(Default)]
struct CrowdLog {
    turns: Mutex<Vec<LoggedTurn>>,
    has_ended: AtomicBool,
}

/// Tasks of one client that take turns on a lock.
pub(crate) fn turns(client: &str, url: &str, lock: &str) -> Result<(), BenchError> {
    let client = client.parse().map_err(said)?;
    let runtime = Runtime::new().map_err(said)?;
    let locks = runtime.block_on(open(url))?;
    let log = Arc::new(CrowdLog::default());
    let one = || {
        let (mutex, log) = (locks.mutex(lock), log.clone());
        async move {
            while !log.has_ended.load(Ordering::Relaxed) {
                let asked_us = now_us();
                let Ok(guard) = mutex.acquire().await else { return };
                let got_us = now_us();
                tokio::time::sleep(HOLD).await;
                let released_us = now_us();
                // A turn that could not be ended well is not a turn.
                if guard.release().await.is_err() {
                    return;
                }
                log.add(LoggedTurn { client, asked_us, got_us, released_us });
                tokio::time::sleep(PAUSE).await;
            }
        }
    };
    let more = |line: &str| {
        let count = line.parse::<u32>().map_err(said)?;
        (0..count).for_each(|_| drop(runtime.spawn(one())));
        Ok(())
    };
    follow(&log, more)?;
    runtime.shutdown_background();
    Ok(())
}

/// Hears, holds, and passes on.
pub(crate) fn hop(client: &str, url: &str, from: &str, to: &str) -> Result<(), BenchError> {
    let client = client.parse().map_err(said)?;
    let runtime = Runtime::new().map_err(said)?;
    let mut hop = runtime.block_on(Hop::open(url, from, to))?;
    let log = Arc::new(CrowdLog::default());
    let (say, mut said_first): (_, UnboundedReceiver<()>) = unbounded_channel();
    runtime.spawn({
        let log = log.clone();
        async move {
            loop {
                let asked_us = now_us();
                tokio::select! {
                    heard = hop.hear() => if heard.is_err() { return },
                    Some(()) = said_first.recv() => {}
                }
                let got_us = now_us();
                tokio::time::sleep(HOLD).await;
                let released_us = now_us();
                if hop.say().await.is_err() {
                    return;
                }
                log.add(LoggedTurn { client, asked_us, got_us, released_us });
            }
        }
    });
    follow(&log, |_| say.send(()).map_err(said))?;
    runtime.shutdown_background();
    Ok(())
}

/// Does what it is told until there is no more, and prints the log.
fn follow(
    log: &CrowdLog,
    mut tell: impl FnMut(&str) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let mut out = std::io::stdout();
    let mut spent_us = 0.0;
    writeln!(out, "ready").map_err(said)?;
    for line in std::io::stdin().lock().lines() {
        match line.map_err(said)?.as_str() {
            "begin" => {
                spent_us = own_cpu_us();
                writeln!(out, "begun").map_err(said)?;
            }
            other => tell(other)?,
        }
    }
    let spent_us = own_cpu_us() - spent_us;
    log.has_ended.store(true, Ordering::Relaxed);
    let turns = log.turns.lock().unwrap_or_else(PoisonError::into_inner);
    let lines: String = turns.iter().map(|turn| format!("{turn}\n")).collect();
    writeln!(out, "{lines}cpu {spent_us}").map_err(said)
}

impl CrowdLog {
    fn add(&self, turn: LoggedTurn) {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).push(turn);
    }
}
