//! Random lives of a lock on several nodes: each node a real [`Lock`](taketurns_core::Lock), each
//! owner a real [`Candidate`](taketurns_core::quorum::Candidate), and between them a network that loses,
//! delays, doubles and reorders.
//!
//! ```text
//!   seed ─► plan ─► world ─── request ──► Lock, with a clock of its own
//!                   drivers of             │
//!                   candidates ◄── reply, wake
//!                     │
//!                     └─► checker: one holder (S1), growing tokens (S2), ticket order (S3), no ghosts
//! ```
//!
//! After the random part the faults end. Then everybody who waits must come to hold, and all nodes
//! must end up empty. `QUORUM_SEEDS` sets how many lives are tried and `QUORUM_FROM` the first; a
//! failing one is made simpler, and told in words.
//!
//! `proof/sim` has whole clients on a quorum as well, and is judged by what they saw. This one lives ten
//! lives while that lives one, and sees tickets, ghosts, and locks that are lost though nothing went wrong.

mod calls;
mod checker;
mod driver;
mod nodes;
mod plan;
mod world;

use checker::BrokenPromise;
use plan::Plan;
use world::{Sum, World};

/// Enough for every run of the suite.
const SEEDS: u64 = 3_000;
/// With how many seeds a simpler plan is tried.
const TRIES: u64 = 200;

/// A number from the environment.
fn env(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|number| number.parse().expect("a number"))
}

/// The simplest plan that still goes wrong, as far as a short search finds one.
fn simplest(mut plan: Plan) -> Plan {
    'simpler: loop {
        for simpler in plan.simpler() {
            for seed in plan.seed..plan.seed + TRIES {
                let simpler = Plan { seed, ..simpler.clone() };
                if World::new(simpler.clone(), false).live().is_err() {
                    plan = simpler;
                    continue 'simpler;
                }
            }
        }
        return plan;
    }
}

fn tell(seed: u64, wrong: &str) -> ! {
    let plan = simplest(Plan::of(seed));
    let mut world = World::new(plan.clone(), true);
    let simplest = world.live().expect_err("it went wrong before");
    let story = world.story();
    panic!("QUORUM_FROM={seed} QUORUM_SEEDS=1: {wrong}\n{story}\n{plan:?}\n{simplest}");
}

/// Runs the simulation for each of these seeds, and adds up what happened.
fn live(seeds: impl Iterator<Item = u64>) -> Result<Sum, (u64, BrokenPromise)> {
    let mut sum = Sum::default();
    for seed in seeds {
        sum.add(World::new(Plan::of(seed), false).live().map_err(|wrong| (seed, wrong))?);
    }
    Ok(sum)
}

#[test]
fn whatever_goes_wrong_one_holds_at_a_time_and_everybody_comes_to_hold() {
    let from = env("QUORUM_FROM").unwrap_or(0);
    let seeds = env("QUORUM_SEEDS").unwrap_or(SEEDS);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let shares: Vec<_> = std::thread::scope(|scope| {
        let share = |first| (from..from + seeds).skip(first).step_by(threads);
        let live = |first| scope.spawn(move || live(share(first)));
        let running: Vec<_> = (0..threads).map(live).collect();
        running.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    if let Some((seed, wrong)) = shares.iter().filter_map(|share| share.as_ref().err()).min() {
        tell(*seed, wrong);
    }
    let mut sum = Sum::default();
    shares.into_iter().flatten().for_each(|share| sum.add(share));
    println!("{seeds} lives: {sum:?}");
    assert!(seeds < SEEDS || sum.holds > seeds, "most of them must come to something: {sum:?}");
}

/// A node that has forgotten how large its numbers were granted again what had been given up there, and
/// was asked again at once, as fast as it answered.
#[test]
fn a_node_that_answers_with_what_was_given_up_is_not_asked_at_full_speed() {
    let lived = live(std::iter::once(271_835));
    assert!(lived.is_ok(), "{:?}", lived.err());
}
