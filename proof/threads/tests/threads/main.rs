//! The client's threads, in many orders of their steps: the user's threads against each other and against the
//! tasks of the driver. A step is whatever locks, sends, receives, waits or lets others wait.
//!
//! Shuttle runs all of them on one thread, decides before each step who goes next, and prints what it
//! decided if a test fails, for `shuttle::replay`. Half of the orders take any thread at any step; the
//! other half keep to one for as long as it goes, and change in a few places (PCT). Time stands still, so a lock that is
//! never released is never free again. A waiter for it makes a deadlock, which shuttle finds.
//!
//! Not seen here: what std's atomics do to each other's order in memory, for all of the client's are flags
//! and counters that stand alone; and what tokio's own parts do inside, which it tests itself with loom. What
//! happens at awaits over time, with faults, is the simulation's.
//!
//! Every day there are few orders of each test, and more with `cargo xtask proof`; `THREADS_SCHEDULES=100000 cargo test
//! --release -p taketurns-threads` tries as many as you like.

extern crate taketurns_threads as taketurns;

mod acquire;
mod engine;
#[path = "../../../../crates/conformance/src/hooks.rs"]
pub mod hooks;
mod loss;
mod strict;
mod sync;
mod tally;
mod turns;

use hooks::HookedStore;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};
use strict::Strict;
use taketurns::engine::{Clock, MemoryStore};
use taketurns::{Connect, Locks};
use tokio::runtime::Handle;

/// How many orders of each test.
fn schedules() -> usize {
    let given = std::env::var("THREADS_SCHEDULES").ok();
    given.map_or(200, |text| text.parse().expect("THREADS_SCHEDULES is a number"))
}

/// Changes from one thread to another that an order of the second half has beyond those it must.
const CHANGES: usize = 3;

fn in_many_orders(test: fn()) {
    fn run(scheduler: impl Scheduler + 'static, test: fn()) {
        let mut config = Config::new();
        config.stack_size = 1 << 20;
        // A run with more steps goes round in circles.
        config.max_steps = MaxSteps::FailAfter(1_000_000);
        Runner::new(scheduler, config).run(test);
    }
    let half = schedules() / 2;
    run(RandomScheduler::new(half), test);
    run(PctScheduler::new(CHANGES, half), test);
}

/// Runs a test of a store that its clients share.
fn with_store(test: impl Future<Output = ()>) {
    shuttle::future::block_on(test);
    strict::all_are_gone();
}

fn store() -> MemoryStore {
    MemoryStore::new(Clock::System)
}

/// A client that ends as it should, or the test fails.
async fn connect(store: &MemoryStore) -> Locks {
    let connect = Connect::engine(HookedStore(Strict::new(store)));
    connect.open_on(Handle::current()).await.expect("a store in memory")
}

/// Nobody holds it and nobody waits for it.
async fn is_left_alone(locks: &Locks, lock: &str) {
    let view = locks.inspect(lock).await.expect("an answer").unwrap_or_default();
    assert!(view.holders.is_empty() && view.waiting == 0, "this is left: {view:?}");
}
