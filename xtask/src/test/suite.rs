//! Runs test programs side by side, and reads what they say.
//!
//! Most tests wait most of the time, for servers and for leases, so more of them run than there are cores.

use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use taketurns_servers::NO_SERVERS;

/// A test program.
#[derive(Clone, Debug)]
pub(super) struct Suite {
    /// The package, and for an integration test its name.
    pub(super) name: String,
    pub(super) program: PathBuf,
    /// Where cargo would run it.
    pub(super) folder: PathBuf,
    /// In a quick run, which has no servers: tests with one of these words in their name are left out.
    pub(super) skip: Option<&'static [&'static str]>,
}

/// How a suite ended.
#[derive(Clone, Debug)]
pub(super) struct SuiteOutcome {
    pub(super) name: String,
    /// How to run it alone.
    pub(super) alone: String,
    pub(super) ok: bool,
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) took: Duration,
    said: String,
}

/// The suites that take longest begin first; the others fill the gaps.
const LONGEST: [&str; 8] = [
    LARGEST,
    "taketurns-module/all",
    "taketurns-cli/all",
    "taketurns-torture/short",
    "taketurns",
    "taketurns/leaks",
    "taketurns-python/package",
    "taketurns-servers/all",
];

/// Has as many tests as all others together, so twice as many of them run at a time.
const LARGEST: &str = "taketurns/all";

/// Between two lines that say how far the tests are.
const REPORT_EVERY: Duration = Duration::from_secs(30);

/// How many tests of a suite run at a time, as libtest reads it.
const THREADS: &str = "RUST_TEST_THREADS";

/// Runs all, and says of each how it went.
pub(super) fn run(mut suites: Vec<Suite>) -> Vec<SuiteOutcome> {
    let rank = |suite: &Suite| LONGEST.iter().position(|name| *name == suite.name);
    // The longest first, and at the end of the queue.
    suites.sort_by_key(|suite| std::cmp::Reverse(rank(suite).unwrap_or(LONGEST.len())));
    eprintln!("==> {} test suites", suites.len());
    let (queue, outcomes) = (Mutex::new(suites), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        let (runs, running) = mpsc::channel::<()>();
        scope.spawn(move || report(&running));
        for _ in 0..cores() {
            let (queue, outcomes, runs) = (&queue, &outcomes, runs.clone());
            scope.spawn(move || {
                let _runs = runs;
                loop {
                    let next = queue.lock().expect("nobody panics with it").pop();
                    let Some(suite) = next else { return };
                    let outcome = suite.run();
                    outcomes.lock().expect("nobody panics with it").push(outcome);
                }
            });
        }
        drop(runs);
    });
    outcomes.into_inner().expect("nobody panicked with it")
}

impl Suite {
    fn run(&self) -> SuiteOutcome {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        if std::env::var_os(THREADS).is_none() {
            let threads = 2 * cores() * if self.name == LARGEST { 2 } else { 1 };
            command.env(THREADS, threads.to_string());
        }
        if let Some(skip) = self.skip {
            command.env(NO_SERVERS, "1").args(skip.iter().flat_map(|name| ["--skip", name]));
        }
        outcome(&self.name, command)
    }
}

/// Those that this process may use.
fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Runs a command, and counts the tests that it says have passed or failed.
pub(super) fn outcome(name: &str, command: Command) -> SuiteOutcome {
    let (started, alone) = (Instant::now(), format!("{command:?}"));
    let (ok, said) = listen(command).unwrap_or_else(|error| (false, error.to_string()));
    let (passed, failed) = counts(&said);
    let took = started.elapsed();
    let word = if ok { "ok" } else { "FAILED" };
    let tests = match (passed, failed) {
        // Documentation and examples have none.
        (0, 0) => String::new(),
        _ => format!("{passed} passed, {failed} failed, "),
    };
    eprintln!("{word:>6} {name}: {tests}{} s", took.as_secs());
    SuiteOutcome { name: name.to_owned(), alone, ok, passed, failed, took, said }
}

/// How many tests have ended so far.
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// Did it succeed, and all that it printed.
fn listen(mut command: Command) -> io::Result<(bool, String)> {
    let (reader, writer) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // With its own ends of the pipe.
    drop(command);
    let (mut reader, mut line, mut said) = (BufReader::new(reader), Vec::new(), String::new());
    while reader.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        if text.starts_with("test ") && text.contains(" ... ") {
            ENDED.fetch_add(1, Ordering::Relaxed);
        }
        said += &text;
        line.clear();
    }
    Ok((child.wait()?.success(), said))
}

/// Says now and then how far the tests are, until nobody holds the other end of the channel.
fn report(running: &Receiver<()>) {
    let started = Instant::now();
    while running.recv_timeout(REPORT_EVERY) == Err(RecvTimeoutError::Timeout) {
        let ended = ENDED.load(Ordering::Relaxed);
        eprintln!("       {ended} tests so far, {} s", started.elapsed().as_secs());
    }
}

impl SuiteOutcome {
    /// What it said of the tests that failed, or all if it did not get that far.
    pub(super) fn failures(&self) -> &str {
        self.said.find("\nfailures:\n").map_or(&self.said, |at| &self.said[at..])
    }
}

/// How many tests passed and failed, by the lines that sum up.
fn counts(said: &str) -> (usize, usize) {
    let sums = said.lines().filter_map(|line| line.strip_prefix("test result: "));
    sums.fold((0, 0), |(passed, failed), line| {
        (passed + number_before(line, " passed"), failed + number_before(line, " failed"))
    })
}

fn number_before(line: &str, word: &str) -> usize {
    let number = line.split(word).next().and_then(|start| start.split_whitespace().last());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_by_what_libtest_sums_up() {
        let said = "test a ... ok\n\ntest result: ok. 12 passed; 0 failed; 0 ignored; 0 measured\n\
                    test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured\n";
        assert_eq!(counts(said), (15, 2));
        assert_eq!(counts("it can't be started"), (0, 0));
    }

    fn sh(script: &str) -> SuiteOutcome {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        outcome("a", command)
    }

    #[test]
    fn what_failed_is_shown_and_what_passed_is_not() {
        let failed = sh("echo 'test b ... ok'; echo; echo failures:; echo why; exit 101");
        assert!(!failed.ok);
        assert_eq!(failed.failures(), "\nfailures:\nwhy\n");
        let died = sh("echo 'test b ...'; kill -9 $$");
        assert!(!died.ok);
        assert_eq!(died.failures(), "test b ...\n");
        assert!(sh("true").ok);
    }
}
