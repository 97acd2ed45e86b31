//! Golden cases: scripts that anyone can read and add to.
//!
//! ```text
//!   # A comment says why.
//!   at 0 acquire A                  a command; `at` sets the clock, which stays there
//!       granted token=1 until=30000     what comes of it, indented
//!
//!   tests/golden/*.txt           the lock, as the store sees it      golden/script.rs
//!   tests/golden/session/*.txt   the session, as a client sees it    golden/session.rs
//! ```
//!
//! The commands of a script are listed at the top of the file that runs it. After every command the
//! state is audited as well. `UPDATE_GOLDEN=1 cargo test -p taketurns-core --test all golden` writes what
//! comes of a script into it, to be read and judged before it is committed; without it nothing is ever
//! written.

mod script;
mod session;
mod words;

use std::path::PathBuf;
use std::{env, fs};

/// Before what comes of a command.
const EXPECTED: &str = "    ";

/// What comes of one command, line by line.
#[derive(Default)]
struct Outcome(String);

impl Outcome {
    fn say(&mut self, line: impl AsRef<str>) {
        self.0 += EXPECTED;
        self.0 += line.as_ref();
        self.0 += "\n";
    }

    fn take(&mut self) -> String {
        std::mem::take(&mut self.0)
    }
}

/// Runs each command of a script. Returns the script with the new outcomes in place of the old ones.
fn replay(
    script: &str,
    mut run: impl FnMut(&str) -> Result<String, String>,
) -> Result<String, String> {
    let mut text = String::new();
    for (index, line) in script.lines().enumerate() {
        if line.starts_with(EXPECTED) {
            continue;
        }
        text += line;
        text += "\n";
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let outcome = run(line);
        text += &outcome.map_err(|problem| format!("line {}: {problem} in `{line}`", index + 1))?;
    }
    Ok(text)
}

fn cases(folder: &str) -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut cases: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder of golden cases")
        .map(|entry| entry.expect("an entry of the folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    cases.sort();
    cases
}

/// Runs every script of a folder, and fails at each that does not come out as written.
fn check(folder: &str, run: fn(&str) -> Result<String, String>) {
    let update = env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1");
    let mut wrong = String::new();
    for path in cases(folder) {
        let expected = fs::read_to_string(&path).expect("a golden case");
        let difference = match run(&expected) {
            Ok(actual) if actual == expected => continue,
            Ok(actual) if update => {
                fs::write(&path, actual).expect("to write a golden case");
                continue;
            }
            Ok(actual) => first_difference(&expected, &actual),
            Err(problem) => format!("  {problem}\n"),
        };
        wrong += &format!("{}:\n{difference}", path.display());
    }
    assert!(wrong.is_empty(), "these came out otherwise (UPDATE_GOLDEN=1 rewrites them):\n{wrong}");
}

fn first_difference(expected: &str, actual: &str) -> String {
    let (mut expected, mut actual) = (expected.lines(), actual.lines());
    for number in 1.. {
        let (one, other) = (expected.next(), actual.next());
        if one != other {
            let show = |line: Option<&str>| line.unwrap_or("(the end)").to_owned();
            return format!("  line {number}\n  - {}\n  + {}\n", show(one), show(other));
        }
    }
    unreachable!("called only for texts that differ")
}

#[test]
fn every_golden_case_comes_out_as_written() {
    check("tests/golden", script::run);
}

#[test]
fn every_golden_case_of_a_session_comes_out_as_written() {
    check("tests/golden/session", session::run);
}

#[test]
fn a_script_that_can_not_be_read_is_an_error_that_names_the_line() {
    for run in [script::run, session::run] {
        let problem = run("at 0 acquire A\nat 0 aquire B\n").unwrap_err();
        assert!(problem.starts_with("line 2"), "{problem}");
    }
}

#[test]
fn what_a_script_said_before_does_not_change_what_it_says_now() {
    let said = script::run("acquire A\n    a stale line\n# why\n\nshow\n").unwrap();
    assert_eq!(script::run(&said).unwrap(), said);
    assert!(!said.contains("stale") && said.contains("# why\n\nshow\n"), "{said}");
}
