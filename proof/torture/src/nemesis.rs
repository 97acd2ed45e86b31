//! Decides which fault comes when, on two tracks at once: one fault of the store at a time, and clients that
//! are stopped and killed meanwhile. What the faults are is in [`faults`](crate::faults) and
//! [`stages`](crate::stages).
//!
//! ```text
//!   store    fault ── fault ─── fault ────── quiet ────── fault ── …  ─┐
//!   clients  ─ stop ── kill ─ stop all ─ kill ── stop ── kill ── …    ─┴─ all is mended: calm
//! ```
//!
//! In the quiet stretches an observer sees who waits before whom, and nothing but the clients' own
//! fate can have changed that.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use taketurns_history::EventKind;
use taketurns_servers::turns::now_us;

use crate::dice::RunDice;
use crate::faults::{StepResult, StoreFault};
use crate::fleet::Fleet;
use crate::notes::HistoryWriter;
use crate::plan::CLIENTS;

/// Since when nothing is wrong with the store.
#[derive(Debug)]
pub(crate) struct QuietPeriod(AtomicU64);

/// After a fault, those who were held up connect again, and ask for the places that they lost.
const SETTLE: Duration = Duration::from_millis(1_500);

impl QuietPeriod {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(now_us()))
    }

    /// Has everybody had the time to get over the last fault?
    pub(crate) fn is_settled(&self) -> bool {
        now_us().saturating_sub(SETTLE.as_micros() as u64) >= self.0.load(Ordering::SeqCst)
    }

    fn ends(&self) {
        self.0.store(u64::MAX, Ordering::SeqCst);
    }

    fn begins(&self) {
        self.0.store(now_us(), Ordering::SeqCst);
    }
}

/// One fault of the store after the other, until then.
pub(crate) fn inject_store_faults(
    faults: &[StoreFault<'_>],
    until: Instant,
    seed: u64,
    notes: &HistoryWriter,
    quiet: &QuietPeriod,
) -> StepResult {
    let mut dice = RunDice::new(seed, u64::MAX);
    // Each once, in some order, before any comes again.
    let mut deck: Vec<usize> = Vec::new();
    let wait = |time: Duration| sleep(time.min(until.saturating_duration_since(Instant::now())));
    while Instant::now() < until {
        for _ in 0..dice.between(3, 6) {
            wait(dice.time(200, 1_200));
            if Instant::now() >= until {
                break;
            }
            if deck.is_empty() {
                deck = dice.some(faults.len() as u64, faults.len());
            }
            let Some(fault) = deck.pop().map(|index| &faults[index]) else { return Ok(()) };
            let injection = fault.inject(&mut dice);
            let (kind, on) = (fault.kind.to_owned(), injection.on);
            quiet.ends();
            let (begun, excuses) = ((kind.clone(), on.clone()), fault.excuses.clone());
            notes.note(EventKind::Fault { kind: begun.0, on: begun.1, excuses });
            (injection.begin)().map_err(|error| format!("{kind} on {on}: {error}"))?;
            // Also if the time is over: what has begun is to last.
            sleep(injection.lasts);
            (injection.end)().map_err(|error| format!("{kind} on {on}, to mend it: {error}"))?;
            notes.note(EventKind::Mended { kind, on });
            quiet.begins();
        }
        wait(dice.time(3_000, 5_000));
    }
    Ok(())
}

/// Stops and kills clients, until then or until it is over.
pub(crate) fn stop_and_kill_clients(
    fleet: &mut Fleet<'_>,
    until: Instant,
    seed: u64,
    over: &AtomicBool,
) -> StepResult {
    let mut dice = RunDice::new(seed, u64::MAX - 1);
    while Instant::now() < until && !over.load(Ordering::SeqCst) {
        sleep(dice.time(200, 1_500));
        fleet.look()?;
        match dice.between(1, 10) {
            // Shorter than any lease, and longer.
            1..=3 => fleet.pause(&dice.some(1, CLIENTS), dice.time(50, 900))?,
            4..=6 => fleet.pause(&dice.some(2, CLIENTS), dice.time(1_000, 4_000))?,
            7 if dice.once_in(3) => {
                fleet.pause(&dice.some(CLIENTS as u64, CLIENTS), dice.time(200, 4_000))?;
            }
            8 => {
                for slot in dice.some(3, CLIENTS) {
                    fleet.kill(slot)?;
                }
            }
            _ => fleet.kill(dice.some(1, CLIENTS)[0])?,
        }
    }
    Ok(())
}
