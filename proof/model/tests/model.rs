//! The protocol keeps its promises, and none of its broken variants does. A little of it, for every day: all is
//! looked at by `cargo xtask proof`, and more by this crate's program.

use taketurns_model::{check::check, configs, random::search, variants::Variant, words::sentence};

#[test]
fn every_state_of_the_smallest_configuration_is_safe_and_makes_progress() {
    let config = &configs::small()[0];
    let outcome = check(config);
    if let Some((broken, history)) = outcome.found {
        let words: Vec<String> = history.iter().map(sentence).collect();
        panic!("{} breaks {}:\n  {}", config.name, broken.name(), words.join("\n  "));
    }
    assert!(outcome.complete, "{} was not looked at to its end", config.name);
}

#[test]
fn random_runs_are_safe_and_make_progress() {
    if let Some(failure) = search(0..50_000, Variant::Sound) {
        panic!("{failure}");
    }
}

#[test]
fn every_broken_variant_breaks_what_it_should_in_random_runs() {
    for variant in Variant::BROKEN {
        let failure =
            search(0..500_000, variant).unwrap_or_else(|| panic!("{variant:?} was not found"));
        assert!(
            variant.breaks().has(failure.broken),
            "{variant:?} breaks something else:\n{failure}"
        );
    }
}

#[test]
fn exhaustive_checks_find_what_is_broken_too() {
    for config in Variant::BROKEN.into_iter().filter_map(configs::finds) {
        let Some((broken, _)) = check(&config).found else {
            panic!("{:?} was not found", config.variant)
        };
        assert!(
            config.variant.breaks().has(broken),
            "{:?} breaks {}",
            config.variant,
            broken.name()
        );
    }
}
