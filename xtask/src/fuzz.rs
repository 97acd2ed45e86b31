//! The module's fuzzer for longer than `cargo xtask test` runs it: first on Redis, then on Valkey.

use taketurns_servers::Flavor;

use crate::cargo;
use crate::install::{self, Need};

const USAGE: &str = "usage: cargo xtask fuzz [--minutes N] [--seed S]";
const MINUTES: u64 = 10;

/// What is asked for on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Options {
    minutes: u64,
    seed: Option<u64>,
}

/// Runs it, and shows how it goes.
pub(crate) fn run(args: impl Iterator<Item = String>) -> Result<(), String> {
    let options = Options::parse(args)?;
    let [redis, valkey] = Flavor::ALL.map(Need::Server);
    install::missing(&[redis, valkey, Need::Libclang])?;
    let mut test = cargo(&["test", "--package", "taketurns-module", "--test", "fuzz"]);
    test.args(["--", "--nocapture", "--test-threads=1"]);
    test.env("TAKETURNS_FUZZ_SECONDS", options.seconds_each().to_string());
    if let Some(seed) = options.seed {
        test.env("TAKETURNS_SEED", seed.to_string());
    }
    let status = test.status().map_err(|error| format!("cargo can't be started: {error}"))?;
    if status.success() { Ok(()) } else { Err("==> something was found: see above".to_owned()) }
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

    /// Half of the time for each of the two servers.
    fn seconds_each(self) -> u64 {
        self.minutes.saturating_mul(60) / 2
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
        assert_eq!(parsed(&["--minutes", "3"]).map(Options::seconds_each), Ok(90));
        for wrong in [&["--minutes"][..], &["--seed", "x"], &["--hours", "1"], &["7"]] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
