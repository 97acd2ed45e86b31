//! A client process: a few tasks that take turns until they are told to finish, or until they are
//! killed.
//!
//! It is told by the end of its standard input. What it does it notes in a file of its own, and nothing
//! that goes wrong with the store ends it.

mod acquire_plan;
mod places;
mod resources;
mod turn;

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use taketurns::{Connect, Locks};
use taketurns_history::EventKind;
use tokio::sync::watch;

use crate::dice::RunDice;
use crate::notes::HistoryWriter;
use crate::plan::{self, Orders, TASKS, WAITER_LEASE};
use crate::pulse::{BEAT, Pulse};
use resources::ResourceClient;
use turn::TortureTask;

/// Operations of one client are counted from its number times this.
const OPS: u64 = 1_000_000;

/// Runs the process to its end.
pub(crate) fn run(orders: &Orders) -> Result<(), String> {
    // Stopped or not, it ends with its parent. Which may be gone already.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| error.to_string())?;
    if getppid().map(Pid::as_raw_pid) != Some(orders.parent) {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(take_turns(orders))
}

async fn take_turns(orders: &Orders) -> Result<(), String> {
    let (finish, finishing) = watch::channel(false);
    std::thread::spawn(move || {
        // Whatever it is that ends it.
        let _ = std::io::stdin().read(&mut [0]);
        let _ = finish.send(true);
    });
    let said = |error: std::io::Error| error.to_string();
    let notes = Arc::new(HistoryWriter::open(&orders.notes).map_err(said)?);
    places::note_all(orders.number, notes.clone())?;
    let Some(locks) = connect(orders, &finishing).await else { return Ok(()) };
    tokio::spawn(feel_pulse(orders.number, notes.clone()));
    let ops = Arc::new(AtomicU64::new(u64::from(orders.number) * OPS));
    let mut tasks = Vec::new();
    for task in 0..TASKS {
        let taker = TortureTask {
            client: orders.number,
            locks: locks.clone(),
            kinds: plan::locks(orders.only_mutexes),
            // A quorum, which has only mutexes, does not.
            may_keep: !orders.only_mutexes,
            notes: notes.clone(),
            ops: ops.clone(),
            resources: ResourceClient::open(&orders.resources).await.map_err(said)?,
            dice: RunDice::new(orders.seed, u64::from(orders.number) * TASKS + task),
        };
        tasks.push(tokio::spawn(taker.run(finishing.clone())));
    }
    for task in tasks {
        task.await.map_err(|error| error.to_string())?;
    }
    locks.close().await;
    Ok(())
}

/// A client that does not run counts as stopped, by a signal or because the machine has no time for it.
async fn feel_pulse(client: u32, notes: Arc<HistoryWriter>) {
    let mut pulse = Pulse::new();
    loop {
        tokio::time::sleep(BEAT).await;
        if let Some((from_us, until_us)) = pulse.beat() {
            notes.note_at(from_us, EventKind::Paused { client });
            notes.note_at(until_us, EventKind::Resumed { client });
        }
    }
}

/// Tries until it works or is not needed any more: the store may be out when this process begins.
async fn connect(orders: &Orders, finishing: &watch::Receiver<bool>) -> Option<Locks> {
    while !*finishing.borrow() {
        let connect = Connect::new(&orders.url).waiter_lease(WAITER_LEASE);
        match connect.who(format!("client {}", orders.number)).open().await {
            Ok(locks) => return Some(locks),
            Err(error) => {
                // To its log, for a person who looks for the cause.
                eprintln!("{error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    None
}
