//! `cargo xtask test`: format, lints, every test, docs and every example. Changes nothing in the tree.
//!
//! ```text
//!   libclang ─► format, names ─► build, with lints ─► suites, side by side ─┬─► closing line
//!       │                                        └─► docs, doctests ────────┤
//!       └─► installs the rest meanwhile ────────────────► (suites wait) ────┘
//! ```
//!
//! `--quick` leaves out every test that needs a server, a browser or a package, and installs nothing.
//! `--no-install` says what is missing instead of installing it.

mod build;
mod quick;
mod suite;

use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use crate::install::{self, Dependency};
use crate::{cargo, names};
use suite::SuiteOutcome;

const USAGE: &str = "usage: cargo xtask test [--quick] [--no-install]";

/// How many suites the closing line names.
const SLOWEST: usize = 5;

/// What is asked for on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Options {
    quick: bool,
    no_install: bool,
}

impl Options {
    fn parse(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        for arg in args {
            match arg.as_str() {
                "--quick" => options.quick = true,
                "--no-install" => options.no_install = true,
                _ => return Err(format!("{arg} is no option of this command\n{USAGE}")),
            }
        }
        Ok(options)
    }
}

/// Runs everything, or everything that is quick.
pub(crate) fn run(args: impl Iterator<Item = String>) -> Result<(), String> {
    let started = Instant::now();
    let options = Options::parse(args)?;
    need_tools()?;
    let outcomes = if options.quick { quick()? } else { all(options.no_install)? };
    close(&outcomes, started)
}

fn quick() -> Result<Vec<SuiteOutcome>, String> {
    format()?;
    names()?;
    Ok(suite::run(quick::only(build::suites(&build::QUICK)?)))
}

fn all(no_install: bool) -> Result<Vec<SuiteOutcome>, String> {
    if no_install {
        install::nothing()?;
    }
    // The compiler needs it; the rest is for the tests.
    install::missing(&[Dependency::Libclang])?;
    thread::scope(|scope| {
        let installed = scope.spawn(install::all);
        format()?;
        names()?;
        let suites = build::suites(&[])?;
        installed.join().map_err(|_| "==> the installation ended early")??;
        // One core or more has nothing to do while tests wait for servers.
        let documents = scope.spawn(documents);
        let mut outcomes = suite::run(suites);
        outcomes.extend(documents.join().map_err(|_| "==> docs ended early")?);
        outcomes.extend(examples()?);
        Ok(outcomes)
    })
}

/// The one place where a run ends: what failed, how many tests there were, which suites took longest.
fn close(outcomes: &[SuiteOutcome], started: Instant) -> Result<(), String> {
    for outcome in outcomes.iter().filter(|outcome| !outcome.ok) {
        eprintln!("==> {} failed; alone: {}\n{}", outcome.name, outcome.alone, outcome.failures());
    }
    let passed: usize = outcomes.iter().map(|outcome| outcome.passed).sum();
    let failed: usize = outcomes.iter().map(|outcome| outcome.failed).sum();
    eprintln!("tests: {passed} passed, {failed} failed");
    let mut slowest: Vec<&SuiteOutcome> = outcomes.iter().collect();
    slowest.sort_by_key(|outcome| std::cmp::Reverse(outcome.took));
    let slowest: Vec<String> = slowest[..slowest.len().min(SLOWEST)]
        .iter()
        .map(|outcome| format!("{} {} s", outcome.name, outcome.took.as_secs()))
        .collect();
    let broken: Vec<&str> = outcomes
        .iter()
        .filter(|outcome| !outcome.ok)
        .map(|outcome| outcome.name.as_str())
        .collect();
    let line = format!(
        "{} tests in {} s; slowest suites: {}",
        passed + failed,
        started.elapsed().as_secs(),
        slowest.join(", ")
    );
    match broken.is_empty() {
        true => {
            eprintln!("==> {line}");
            Ok(())
        }
        false => Err(format!("==> FAILED: {}; {line}", broken.join(", "))),
    }
}

/// What is needed beside cargo itself, and how to get it.
const NEEDED: &[(&str, &[&str], &str)] = &[
    ("rustfmt", &["cargo", "fmt", "--version"], "rustup component add rustfmt"),
    ("clippy", &["cargo", "clippy", "--version"], "rustup component add clippy"),
    ("a C compiler", &["cc", "--version"], "apt-get install gcc, or your system's equivalent"),
];

pub(crate) fn need_tools() -> Result<(), String> {
    for (name, command, install) in NEEDED {
        let mut command_line = Command::new(command[0]);
        command_line.args(&command[1..]).stdout(Stdio::null()).stderr(Stdio::null());
        if !command_line.status().is_ok_and(|status| status.success()) {
            return Err(format!("{name} is missing: {install}"));
        }
    }
    Ok(())
}

fn format() -> Result<(), String> {
    eprintln!("==> format");
    must(&mut cargo(&["fmt", "--all", "--check"]), "format (`cargo xtask fix` mends it)")
}

/// Every type name stands for one thing.
fn names() -> Result<(), String> {
    eprintln!("==> names");
    names::check()
}

/// The documentation without warnings, the client with the fewest features, and the examples in the
/// documentation: each is a suite.
fn documents() -> Vec<SuiteOutcome> {
    let mut docs = cargo(&["doc", "--no-deps", "--document-private-items", "--quiet"]);
    docs.args(build::ALL).env("RUSTDOCFLAGS", "-D warnings");
    let features = cargo(&["check", "--package", "taketurns", "--no-default-features", "--quiet"]);
    let mut examples = cargo(&["test", "--doc"]);
    examples.args(build::ALL);
    build::with_lints(&mut examples);
    build::from_nothing(&mut examples);
    let each = [("doc tests", examples), ("fewest features", features), ("docs", docs)];
    each.map(|(name, command)| suite::outcome(name, command)).into()
}

/// Runs a command that has to work.
fn must(command: &mut Command, what: &str) -> Result<(), String> {
    match command.status().is_ok_and(|status| status.success()) {
        true => Ok(()),
        false => Err(format!("==> {what} failed; alone: {command:?}")),
    }
}

/// Every example of the library, run as a reader would.
fn examples() -> Result<Vec<SuiteOutcome>, String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/taketurns/examples");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .map_err(|error| format!("{folder}: {error}"))?
        .filter_map(|entry| entry.ok()?.path().file_stem()?.to_str().map(str::to_owned))
        .collect();
    names.sort();
    let run = |name: &String| {
        suite::outcome(&format!("example {name}"), Command::new(build::example(name)))
    };
    Ok(names.iter().map(run).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_known_or_refused() {
        let parse = |words: &[&str]| Options::parse(words.iter().map(|word| (*word).to_owned()));
        assert_eq!(parse(&[]), Ok(Options::default()));
        assert_eq!(parse(&["--quick"]), Ok(Options { quick: true, no_install: false }));
        assert_eq!(parse(&["--no-install"]), Ok(Options { quick: false, no_install: true }));
        assert!(parse(&["--fast"]).is_err_and(|why| why.contains("--fast is no option")));
    }
}
