//! Golden cases: scripts that anyone can read and add to, in `tests/golden/*.txt`.
//!
//! ```text
//!   # A comment says why.
//!   at 0 acquire A                  a command; `at` sets the clock, which stays there
//!       granted token=1 until=30000     what comes of it, indented
//! ```
//!
//! The words of a script are in `golden/script.rs`. After every command the lock is audited as well.
//! `UPDATE_GOLDEN=1 cargo test -p taketurns-core --test all golden` writes what comes of a script into
//! it, to be read and judged before it is committed; without it nothing is ever written.

mod script;

use std::path::PathBuf;
use std::{env, fs};

fn cases() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut cases: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder of golden cases")
        .map(|entry| entry.expect("an entry of the folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    cases.sort();
    cases
}

#[test]
fn every_golden_case_comes_out_as_written() {
    let update = env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1");
    let mut wrong = String::new();
    for path in cases() {
        let expected = fs::read_to_string(&path).expect("a golden case");
        let actual = script::run(&expected)
            .unwrap_or_else(|problem| panic!("{}: {problem}", path.display()));
        if actual == expected {
            continue;
        }
        if update {
            fs::write(&path, actual).expect("to write a golden case");
        } else {
            wrong += &format!("{}:\n{}", path.display(), first_difference(&expected, &actual));
        }
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
fn a_script_that_can_not_be_read_is_an_error_that_names_the_line() {
    let problem = script::run("at 0 acquire A\nat 0 aquire B\n").unwrap_err();
    assert!(problem.starts_with("line 2"), "{problem}");
}

#[test]
fn what_a_script_said_before_does_not_change_what_it_says_now() {
    let said = script::run("acquire A\n    a stale line\n# why\n\nshow\n").unwrap();
    assert_eq!(script::run(&said).unwrap(), said);
    assert!(!said.contains("stale") && said.contains("# why\n\nshow\n"), "{said}");
}
