//! What is asked for on the command line.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::stages::TortureEngine;

const USAGE: &str = "\
usage: cargo xtask torture [--engine ENGINE] [--minutes N | --seconds N] [--seed S] [--out FOLDER]
       ENGINE is file, redis, valkey, sentinel, cluster, module, quorum, postgres, postgres-pair or all";

/// On what, for how long, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) engines: Vec<TortureEngine>,
    /// On each engine.
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    pub(crate) out: PathBuf,
}

impl Options {
    /// All engines for a minute each, unless told otherwise.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut options = Self {
            engines: TortureEngine::ALL.to_vec(),
            time: Duration::from_secs(60),
            seed: u64::from(clock.subsec_nanos()),
            out: taketurns_servers::target_dir().join("torture"),
        };
        while let Some(arg) = args.next() {
            let value = args.next().ok_or(USAGE)?;
            let number = || value.parse::<u64>().map_err(|_| USAGE.to_owned());
            match arg.as_str() {
                "--engine" if value == "all" => options.engines = TortureEngine::ALL.to_vec(),
                "--engine" => {
                    let named =
                        TortureEngine::ALL.into_iter().find(|engine| engine.name() == value);
                    options.engines = vec![named.ok_or(USAGE)?];
                }
                "--minutes" => options.time = Duration::from_secs(number()?.saturating_mul(60)),
                "--seconds" => options.time = Duration::from_secs(number()?),
                "--seed" => options.seed = number()?,
                "--out" => options.out = value.into(),
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Options, String> {
        Options::parse(args.iter().map(|&arg| arg.to_owned()))
    }

    #[test]
    fn engine_time_seed_and_folder_are_asked_for_in_any_order() {
        let options = parsed(&["--seed", "7", "--out", "/o", "--engine", "file", "--minutes", "2"]);
        let (engines, time) = (vec![TortureEngine::File], Duration::from_secs(120));
        assert_eq!(options, Ok(Options { engines, time, seed: 7, out: "/o".into() }));
        let options = parsed(&["--seconds", "5"]).expect("all engines");
        assert_eq!((options.time.as_secs(), options.engines.len()), (5, TortureEngine::ALL.len()));
        assert_eq!(parsed(&["--engine", "all"]).map(|all| all.engines.len()), Ok(9));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for wrong in [&["--seed"][..], &["--engine", "paper"], &["--minutes", "x"], &["--to", "1"]]
        {
            assert_eq!(parsed(wrong), Err(USAGE.to_owned()), "{wrong:?}");
        }
    }
}
