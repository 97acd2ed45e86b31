//! Random lives of a lock, checked against its promises.
//!
//! ```text
//!   ops ──► world ──── request ───► Lock
//!           clients that die,        │
//!           messages lost, late      ▼
//!           and doubled          replies, wakes ──► checker: G1, G2, G3, and no free lock with
//!                                                   a live waiter; it never looks into the lock
//! ```
//!
//! After the random part the faults end, and everything must drain within the time that G4 promises.
//! `PROPTEST_CASES` sets how many lives are tried; a failing one is shrunk, and its ops are
//! printed with the seed that repeats it.

mod ballots;
mod checker;
mod once;
mod ops;
mod world;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use taketurns_core::Kind;

use ops::Op;
use world::World;

fn live(kind: Kind, ops: &[Op]) {
    let mut world = World::new(kind);
    for op in ops {
        world.act(op);
    }
    world.drain();
}

/// A number from the environment.
fn env(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|number| number.parse().expect("a number"))
}

/// `PROPTEST_CASES` lives, or few enough for every run of the suite. The seed is drawn, and printed
/// with a failure; `PROPTEST_RNG_SEED` repeats it.
fn config() -> ProptestConfig {
    let seed = env("PROPTEST_RNG_SEED").unwrap_or_else(|| RandomState::new().hash_one(()));
    println!("PROPTEST_RNG_SEED={seed}");
    ProptestConfig {
        cases: env("PROPTEST_CASES").unwrap_or(150) as u32,
        rng_seed: RngSeed::Fixed(seed),
        // A seed is enough: no files beside the sources.
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_mutex_keeps_its_promises(ops in ops::ops(Kind::Mutex)) {
        live(Kind::Mutex, &ops);
    }

    #[test]
    fn a_node_of_a_quorum_is_sound_and_says_what_it_does(ops in ballots::ops()) {
        let mut node = ballots::Node::new();
        ops.iter().for_each(|op| node.act(op));
    }

    #[test]
    fn work_is_done_once_and_an_attempt_that_failed_is_counted(ops in once::ops()) {
        let mut world = once::OnceWorld::new();
        ops.iter().for_each(|op| world.act(op));
        world.drain();
    }

    #[test]
    fn a_read_write_lock_keeps_its_promises(ops in ops::ops(Kind::RwLock)) {
        live(Kind::RwLock, &ops);
    }

    #[test]
    fn a_semaphore_keeps_its_promises(ops in ops::ops(Kind::Semaphore { permits: 3 })) {
        live(Kind::Semaphore { permits: 3 }, &ops);
    }

    #[test]
    fn a_pool_keeps_its_promises(ops in ops::ops(Kind::Pool)) {
        live(Kind::Pool, &ops);
    }
}
