//! `cargo xtask fuzz`: runs all fuzzers for longer than `cargo xtask test` does.
//!
//! ```text
//!   parsers     each alone, for an equal share of half the time; a line for each says how many rounds
//!   the module  on Redis and then on Valkey, for the other half: there is more to try
//! ```

use std::process::{Command, Stdio};

use taketurns_servers::Flavor;

use crate::install::{self, Dependency};
use crate::{cargo, not_started, succeeds};

const USAGE: &str = "usage: cargo xtask fuzz [--minutes N] [--seed S]";
const MINUTES: u64 = 10;

/// Tests that are fuzzers: cargo's arguments, and what their names have in them.
struct Group {
    args: &'static [&'static str],
    filter: &'static str,
}

const fn group(args: &'static [&'static str], filter: &'static str) -> Group {
    Group { args, filter }
}

const PARSERS: [Group; 5] = [
    group(&["--package", "taketurns-core", "--test", "all"], "fuzz::"),
    group(&["--package", "taketurns", "--lib"], "fuzz"),
    group(&["--package", "taketurns", "--test", "all"], "fuzz::"),
    group(&["--package", "taketurns-cli", "--bin", "taketurns"], "fuzz"),
    group(&["--package", "taketurns-module", "--lib"], "fuzz"),
];

const SERVERS: [Group; 1] =
    [group(&["--package", "taketurns-module", "--test", "all"], "fuzz::no_command")];

/// What is asked for on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Options {
    minutes: u64,
    seed: Option<u64>,
}

/// Runs them, and shows how it goes. What one finds does not keep the others from looking.
pub(crate) fn run(args: impl Iterator<Item = String>) -> Result<(), String> {
    let options = Options::parse(args)?;
    let [redis, valkey] = Flavor::ALL.map(Dependency::Server);
    install::missing(&[redis, valkey, Dependency::Libclang])?;
    let mut found = Vec::new();
    for groups in [&PARSERS[..], &SERVERS] {
        let tests = groups.iter().map(Group::count).collect::<Result<Vec<_>, _>>()?;
        let seconds = options.seconds_each(tests.iter().sum());
        for (group, count) in groups.iter().zip(tests) {
            let name = group.args.join(" ");
            eprintln!("==> {name}: {count} fuzzers, {seconds} s each");
            let mut test = group.command(&["--nocapture", "--test-threads=1"]);
            test.env("TAKETURNS_FUZZ_SECONDS", seconds.to_string());
            if let Some(seed) = options.seed {
                test.env("TAKETURNS_SEED", seed.to_string());
            }
            if !succeeds(&mut test)? {
                found.push(name);
            }
        }
    }
    if found.is_empty() {
        Ok(())
    } else {
        Err(format!("==> something was found: see above, at {}", found.join(" and ")))
    }
}

impl Group {
    fn command(&self, options: &[&str]) -> Command {
        let mut command = cargo(&["test", "--quiet"]);
        command.args(self.args).arg("--").arg(self.filter).args(options);
        command
    }

    /// Builds it, and says how many fuzzers there are.
    fn count(&self) -> Result<u64, String> {
        let listed = self.command(&["--list"]).stderr(Stdio::inherit()).output();
        let listed = listed.map_err(not_started)?;
        let count = counted(&String::from_utf8_lossy(&listed.stdout));
        if listed.status.success() && count > 0 {
            Ok(count)
        } else {
            Err(format!("==> cargo test {}: there are no fuzzers", self.args.join(" ")))
        }
    }
}

/// How many tests a list of them names.
fn counted(list: &str) -> u64 {
    list.lines().filter(|line| line.ends_with(": test")).count() as u64
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { minutes: MINUTES, seed: None };
        while let Some(arg) = args.next() {
            let number = args.next().and_then(|number| number.parse().ok()).ok_or(USAGE)?;
            match arg.as_str() {
                "--minutes" => options.minutes = number,
                "--seed" => options.seed = Some(number),
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(options)
    }

    /// Returns the time of each fuzzer when several share half of the time.
    fn seconds_each(self, fuzzers: u64) -> u64 {
        (self.minutes.saturating_mul(60) / 2 / fuzzers.max(1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_and_seed_are_asked_for_in_any_order() {
        let parsed = |args: &[&str]| Options::parse(args.iter().map(|&arg| arg.to_owned()));
        let options = |minutes, seed| Ok(Options { minutes, seed });
        assert_eq!(parsed(&[]), options(10, None));
        assert_eq!(parsed(&["--minutes", "3"]), options(3, None));
        assert_eq!(parsed(&["--seed", "7", "--minutes", "3"]), options(3, Some(7)));
        for wrong in [&["--minutes"][..], &["--seed", "x"], &["--hours", "1"], &["7"]] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn fuzzers_share_half_of_the_time_and_each_has_some() {
        let each = |minutes, fuzzers| Options { minutes, seed: None }.seconds_each(fuzzers);
        assert_eq!((each(3, 2), each(10, 30), each(1, 100)), (45, 10, 1));
        assert_eq!(each(u64::MAX, 1), u64::MAX / 2);
    }

    #[test]
    fn the_fuzzers_are_the_tests_of_a_list() {
        let list = "life::a: test\nb: test\nc: benchmark\n\n2 tests, 1 benchmarks\n";
        assert_eq!(counted(list), 2);
    }
}
