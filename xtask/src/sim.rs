//! The simulation: `cargo xtask sim` lives many lives, and with `--planted` sees whether it notices
//! what was broken on purpose.

use crate::{cargo, planted, succeeds};

const USAGE: &str = "\
usage: cargo xtask sim [--seeds N] [--from S]
       cargo xtask sim --planted [--only NAME] [--seeds N] [--from S]";
const SEEDS: u64 = 10_000;
/// Most planted bugs are found in the first thousand lives, some show once in 30 000.
const SEEDS_PLANTED: u64 = 100_000;

/// What is asked for on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Options {
    seeds: Option<u64>,
    from: u64,
    planted: bool,
    only: Option<String>,
}

/// Runs it, and shows how it goes.
pub(crate) fn run(args: impl Iterator<Item = String>) -> Result<(), String> {
    let Options { seeds, from, planted, only } = Options::parse(args)?;
    if planted {
        return planted::run(seeds.unwrap_or(SEEDS_PLANTED), from, only.as_deref());
    }
    let mut sim =
        cargo(&["run", "--quiet", "--profile", "sim", "--package", "taketurns-sim", "--"]);
    sim.args(["--seeds", &seeds.unwrap_or(SEEDS).to_string(), "--from", &from.to_string()]);
    match succeeds(&mut sim)? {
        true => Ok(()),
        false => Err("==> something was found: see above".to_owned()),
    }
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(USAGE);
            let number = |value: String| value.parse().map_err(|_| USAGE);
            match arg.as_str() {
                "--seeds" => options.seeds = Some(number(value()?)?),
                "--from" => options.from = number(value()?)?,
                "--planted" => options.planted = true,
                "--only" => options.only = Some(value()?),
                _ => return Err(USAGE.to_owned()),
            }
        }
        match options.only.is_some() && !options.planted {
            true => Err(USAGE.to_owned()),
            false => Ok(options),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_and_what_is_planted_are_asked_for_in_any_order() {
        let parsed = |args: &[&str]| Options::parse(args.iter().map(|&arg| arg.to_owned()));
        assert_eq!(parsed(&[]), Ok(Options::default()));
        let some = Options { seeds: Some(7), from: 3, ..Options::default() };
        assert_eq!(parsed(&["--from", "3", "--seeds", "7"]), Ok(some.clone()));
        let planted = Options { planted: true, only: Some("lifo".to_owned()), ..some };
        let args = ["--only", "lifo", "--seeds", "7", "--planted", "--from", "3"];
        assert_eq!(parsed(&args), Ok(planted));
        for wrong in [&["--seeds"][..], &["--from", "x"], &["--only", "lifo"], &["7"]] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
