//! Is a store fit to hold locks? [`examine`] looks at it and says, check by check, what it found and what
//! to do about it.
//!
//! ```text
//!   examine(url) ─► the engine of the URL gathers facts ─► and judges them ─► Report
//!                   (each node by itself, all at once)      (pure)
//! ```
//!
//! It goes on where connecting would stop, since somebody who asks wants to hear all that is wrong and
//! not just what came first. Nothing is written to the store, and nothing that is found has a secret in
//! it. `docs/doctor.md` has a table of all checks.

mod subject;

use std::fmt;

use crate::driver::ClientDriver;
use crate::{Error, engine};

pub(crate) use subject::Subject;

/// Looks at a store by its URL, as in [`connect()`](crate::connect()).
///
/// A node that does not answer in time, or refuses to, is a failed check and no error.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let report = taketurns::doctor::examine("memory:").await?;
/// for check in &report.checks {
///     println!("{} {} {}: {}", check.level, check.node, check.name, check.found);
/// }
/// assert!(report.reached && report.worst() < taketurns::doctor::Level::Fail);
/// # Ok(()) }) }
/// ```
///
/// # Errors
/// [`Error::InvalidUrl`] if there is no such store, [`Error::Unreachable`] if no thread can be started.
pub async fn examine(url: &str) -> Result<Report, Error> {
    let driver = ClientDriver::start()?;
    let url = url.to_owned();
    let examined = driver.runtime().spawn(async move { engine::examine(&url).await });
    examined.await.ok_or(Error::Closed)?
}

/// The names of all checks that there are, whatever the store is: each of [`Report::checks`] has one of them.
pub fn names() -> impl Iterator<Item = &'static str> {
    Subject::ALL.iter().map(|subject| subject.name())
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Which store, without secrets.
    pub store: String,
    /// Did any part of it answer?
    pub reached: bool,
    /// What was looked at, node by node; what is about the whole store comes last.
    pub checks: Vec<Check>,
}

impl Report {
    /// Puts together what belongs to the same node, in the order in which nodes come first.
    pub(crate) fn new(store: String, reached: bool, mut checks: Vec<Check>) -> Self {
        let mut nodes: Vec<String> = Vec::new();
        for check in &checks {
            if !nodes.contains(&check.node) {
                nodes.push(check.node.clone());
            }
        }
        checks.sort_by_key(|check| match check.node.as_str() {
            ALL => usize::MAX,
            node => nodes.iter().position(|other| other == node).unwrap_or(usize::MAX),
        });
        Self { store, reached, checks }
    }

    /// The worst of all levels; [`Level::Ok`] if nothing was looked at.
    pub fn worst(&self) -> Level {
        self.checks.iter().map(|check| check.level).max().unwrap_or(Level::Ok)
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// Where: the address of a server, the path of a file, or `all` for what is about the whole store.
    pub node: String,
    /// What was looked at, in one word: see `docs/doctor.md`.
    pub name: &'static str,
    /// How it is.
    pub level: Level,
    /// What was found.
    pub found: String,
    /// What to do, if there is anything.
    pub advice: Option<String>,
}

/// How a check ended, the worse the larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Level {
    /// As it should be.
    Ok,
    /// It works, but less well than one may think.
    Warn,
    /// Locks can't be had there, or not be relied on.
    Fail,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        })
    }
}

/// For what is about the whole store.
pub(crate) const ALL: &str = "all";

/// Any number of things, with commas.
#[cfg(feature = "redis")]
pub(crate) fn list<T: fmt::Display>(things: impl IntoIterator<Item = T>) -> String {
    let things: Vec<String> = things.into_iter().map(|thing| thing.to_string()).collect();
    things.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_check_counts() {
        let report = |checks| Report::new(String::new(), true, checks);
        let [ok, warn, fail] = [
            Subject::Clock.ok("a", ""),
            Subject::Clock.warn("a", "", ""),
            Subject::Clock.fail("a", "", ""),
        ];
        assert_eq!(report(vec![]).worst(), Level::Ok);
        assert_eq!(report(vec![warn.clone(), ok.clone()]).worst(), Level::Warn);
        assert_eq!(report(vec![ok, fail, warn]).worst(), Level::Fail);
    }

    #[test]
    fn what_is_of_one_node_stands_together_and_what_is_of_all_comes_last() {
        let of = |node: &str| Subject::Clock.ok(node, "");
        let checks = ["a", ALL, "b", "a", "c", "b"].map(of).to_vec();
        let report = Report::new(String::new(), true, checks);
        let nodes: Vec<&str> = report.checks.iter().map(|check| check.node.as_str()).collect();
        assert_eq!(nodes, ["a", "a", "b", "b", "c", ALL]);
    }

    /// The first column of each row: `` | `name` | … ``.
    fn documented() -> Vec<&'static str> {
        let page = include_str!("../../../../docs/doctor.md");
        let name = |line: &'static str| line.strip_prefix("| `")?.split('`').next();
        page.lines().filter_map(name).collect()
    }

    #[test]
    fn the_page_has_every_check_once_and_no_other() {
        let mut documented = documented();
        let mut known: Vec<&str> = names().collect();
        documented.sort_unstable();
        known.sort_unstable();
        assert_eq!(documented, known);
    }
}
