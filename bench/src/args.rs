//! What is asked for on the command line.

use std::path::{Path, PathBuf};

use crate::workloads::{LETTERS, LONG};

const USAGE: &str = "\
usage: cargo xtask bench [--quick] [--json FILE] [--only a,c,…] [--no-peers] [--rounds N] [--docs FOLDER | --no-docs]";

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
    /// Where the page goes, or nowhere. None: with the docs, if the run is a full one.
    docs: Option<Option<PathBuf>>,
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
                "--docs" => options.docs = Some(Some(value()?.into())),
                "--no-docs" => options.docs = Some(None),
                _ => return Err(USAGE.to_owned()),
            }
        }
        let known = options.only.iter().all(|letter| LETTERS.contains(&letter.as_str()));
        let some = options.rounds != Some(0);
        if known && some { Ok(options) } else { Err(USAGE.to_owned()) }
    }

    pub(crate) fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 2 } else { 5 })
    }

    /// The folder for the page, if there is one: a full run writes it into `docs`.
    pub(crate) fn docs(&self, docs: &Path) -> Option<PathBuf> {
        let is_full = !self.quick && self.only.is_empty() && self.peers;
        self.docs.clone().unwrap_or_else(|| is_full.then(|| docs.to_owned()))
    }

    pub(crate) fn wants(&self, letter: &str) -> bool {
        match self.only.as_slice() {
            [] => !(self.quick && LONG.contains(&letter)),
            only => only.iter().any(|only| only == letter),
        }
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
        let docs = |options: &Options| options.docs(Path::new("docs"));
        let full = parsed(&[]).expect("nothing to ask for");
        assert_eq!(docs(&full), Some("docs".into()));
        assert!(full.peers && full.wants("m") && full.wants("o"));
        assert_eq!(full.rounds(), 5);
        let quick = parsed(&["--quick"]).expect("an option");
        assert_eq!((docs(&quick), quick.rounds()), (None, 2));
        assert!(quick.wants("m") && !quick.wants("o"), "what takes long is left out");
        let part = parsed(&["--quick", "--only", "a,o", "--rounds", "3"]).expect("options");
        assert!(part.wants("o") && !part.wants("b"));
        assert_eq!((docs(&part), part.rounds()), (None, 3));
        let elsewhere = parsed(&["--only", "a", "--docs", "page"]).expect("options");
        assert_eq!(docs(&elsewhere), Some("page".into()));
        assert_eq!(docs(&parsed(&["--no-docs"]).expect("an option")), None);
        assert_eq!(docs(&parsed(&["--no-peers"]).expect("an option")), None);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for wrong in
            [&["--json"][..], &["--docs"], &["--only", "a,y"], &["--rounds", "0"], &["--fast"]]
        {
            assert_eq!(parsed(wrong), Err(USAGE.to_owned()), "{wrong:?}");
        }
    }
}
