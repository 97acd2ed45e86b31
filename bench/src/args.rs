//! What is asked for on the command line.

use std::path::PathBuf;

use crate::workloads::LETTERS;

const USAGE: &str = "\
usage: cargo xtask bench [--quick] [--json FILE] [--only a,c,…] [--no-peers] [--rounds N] [--docs | --no-docs]";

/// How much, and where to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Ends within 3 minutes.
    pub(crate) quick: bool,
    pub(crate) json: Option<PathBuf>,
    /// Letters of workloads. None: all.
    pub(crate) only: Vec<String>,
    pub(crate) peers: bool,
    rounds: Option<usize>,
    docs: Option<bool>,
}

impl Options {
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { peers: true, ..Self::default() };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(USAGE);
            match arg.as_str() {
                "--quick" => options.quick = true,
                "--json" => options.json = Some(value()?.into()),
                "--only" => options.only = value()?.split(',').map(str::to_owned).collect(),
                "--no-peers" => options.peers = false,
                "--rounds" => options.rounds = Some(value()?.parse().map_err(|_| USAGE)?),
                "--docs" => options.docs = Some(true),
                "--no-docs" => options.docs = Some(false),
                _ => return Err(USAGE.to_owned()),
            }
        }
        let known = options.only.iter().all(|letter| LETTERS.contains(&letter.as_str()));
        let some = options.rounds != Some(0);
        if known && some { Ok(options) } else { Err(USAGE.to_owned()) }
    }

    pub(crate) fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 3 } else { 7 })
    }

    /// The page is of a full run, unless told otherwise.
    pub(crate) fn docs(&self) -> bool {
        self.docs.unwrap_or(!self.quick && self.only.is_empty() && self.peers)
    }

    pub(crate) fn wants(&self, letter: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == letter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Options, String> {
        Options::parse(args.iter().map(|&arg| arg.to_owned()))
    }

    #[test]
    fn a_full_run_writes_the_page_and_a_part_does_not() {
        let full = parsed(&[]).expect("nothing to ask for");
        assert!(full.docs() && full.peers && full.wants("m"));
        assert_eq!(full.rounds(), 7);
        let quick = parsed(&["--quick"]).expect("an option");
        assert_eq!((quick.docs(), quick.rounds()), (false, 3));
        let part = parsed(&["--only", "a,c", "--rounds", "2"]).expect("options");
        assert!(part.wants("c") && !part.wants("b") && !part.docs());
        assert_eq!(part.rounds(), 2);
        assert!(parsed(&["--only", "a", "--docs"]).expect("options").docs());
        assert!(!parsed(&["--no-docs"]).expect("an option").docs());
        assert!(!parsed(&["--no-peers"]).expect("an option").docs());
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for wrong in [&["--json"][..], &["--only", "a,y"], &["--rounds", "0"], &["--fast"]] {
            assert_eq!(parsed(wrong), Err(USAGE.to_owned()), "{wrong:?}");
        }
    }
}
