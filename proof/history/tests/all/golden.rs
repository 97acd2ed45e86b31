//! Golden histories: small ones that anyone can read and add to, in `tests/golden`.
//!
//! `NAME.jsonl` is a history, whose first line says what is the matter with it; a part of it from
//! another process is in `NAME.2.jsonl`. What must be found in it is in `NAME.expected`; if there is no
//! such file, nothing must be. The first word of the name is what it is about.
//!
//! `UPDATE_GOLDEN=1 cargo test -p taketurns-history --test all golden` writes what is found, to be read and
//! judged before it is committed; without it nothing is ever written.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::{env, fs};

use taketurns_history::{Guarantee, check, read_all};

/// The names of all cases.
fn cases() -> Vec<String> {
    let names = fs::read_dir(folder()).expect("the folder of golden histories").map(|entry| {
        let name = entry.expect("an entry of the folder").file_name();
        name.into_string().expect("a name in UTF-8")
    });
    let mut cases: Vec<String> = names
        .filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned))
        .filter(|name| !name.contains('.'))
        .collect();
    cases.sort();
    cases
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn path(case: &str, end: &str) -> PathBuf {
    folder().join(format!("{case}.{end}"))
}

fn expected(case: &str) -> String {
    fs::read_to_string(path(case, "expected")).unwrap_or_default()
}

#[test]
fn in_every_golden_history_is_found_what_is_expected() {
    let update = env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1");
    let mut wrong = String::new();
    for case in cases() {
        let parts = ["jsonl", "2.jsonl"].map(|end| path(&case, end));
        let parts: Vec<PathBuf> = parts.into_iter().filter(|path| path.exists()).collect();
        let events = read_all(&parts).unwrap_or_else(|error| panic!("{error}"));
        let found: String = check(&events).iter().map(|what| format!("{what}\n")).collect();
        let expected = expected(&case);
        if found == expected {
            continue;
        }
        if !update {
            wrong += &format!("{case}\n  expected:\n{expected}  found:\n{found}");
        } else if found.is_empty() {
            fs::remove_file(path(&case, "expected")).expect("to remove what was expected");
        } else {
            fs::write(path(&case, "expected"), found).expect("to write what was found");
        }
    }
    assert!(wrong.is_empty(), "found otherwise (UPDATE_GOLDEN=1 rewrites them):\n{wrong}");
}

#[test]
fn every_guarantee_has_a_history_that_breaks_it_and_a_near_miss() {
    let (mut broken, mut kept) = (BTreeSet::new(), BTreeSet::new());
    for case in cases() {
        let about = case.split('-').next().unwrap_or_default().to_owned();
        if expected(&case).to_lowercase().starts_with(&about) {
            broken.insert(about);
        } else {
            kept.insert(about);
        }
    }
    for guarantee in Guarantee::ALL {
        let about = format!("{guarantee:?}").to_lowercase();
        assert!(broken.contains(&about), "no history breaks {about}");
        assert!(kept.contains(&about), "no history nearly breaks {about}");
    }
}
