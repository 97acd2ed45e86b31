//! A few lives for every day; `cargo xtask proof` has more. `SIM_SEEDS=100000 SIM_FROM=7` for others, or
//! quicker: `cargo xtask sim --seeds 100000`.

use taketurns_sim::{history, run};

fn number(variable: &str, default: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(default, |given| given.parse().expect("a number"))
}

#[test]
fn no_life_breaks_a_promise() {
    let (from, seeds) = (number("SIM_FROM", 0), number("SIM_SEEDS", 500));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    match run(from..from + seeds, threads, |_| ()) {
        Ok(sum) => {
            assert_eq!(sum.seeds, seeds);
            // What never went wrong was not tried.
            assert!(seeds < 500 || sum.faults.len() == 11, "{:?}", sum.faults);
            assert!(seeds < 500 || sum.keepers.len() == 4, "{:?}", sum.keepers);
        }
        Err(failure) => panic!("seed {}: {}\n{}", failure.seed, failure.what, failure.story()),
    }
}

#[test]
fn a_seed_lives_the_same_life_again() {
    for seed in 0..40 {
        let (once, again) = (history(seed), history(seed));
        for (one, other) in once.iter().zip(&again) {
            assert_eq!(one, other, "seed {seed}");
        }
        assert_eq!(once.len(), again.len(), "seed {seed}");
    }
}
