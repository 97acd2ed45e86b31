//! Runs the tests of the Python package with pytest, on the extension that the workspace's build made. Each file of
//! tests is a process of its own, with servers of its own.
//!
//! `cargo test -p taketurns-python` needs the environment that `cargo xtask test` installs. To run one test alone:
//! `cargo test -p taketurns-python -- aio --nocapture`, with pytest's options in `PYTEST_ADDOPTS`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use taketurns_servers::{packages, target_dir};

const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");

/// Makes a test of each file of tests.
macro_rules! files {
    ($($file:ident),* $(,)?) => {
        $(
            #[test]
            fn $file() {
                pytest(stringify!($file));
            }
        )*

        const FILES: &[&str] = &[$(stringify!($file)),*];
    };
}

files!(
    test_aio,
    test_cancellations,
    test_examples,
    test_observing,
    test_once,
    test_processes,
    test_sync
);

#[test]
fn every_file_of_tests_is_run() {
    let files = std::fs::read_dir(Path::new(PACKAGE).join("tests")).expect("a folder");
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    let found: BTreeSet<String> = names
        .filter_map(|name| name.strip_suffix(".py").map(str::to_owned))
        .filter(|name| name.starts_with("test_"))
        .collect();
    assert_eq!(found, FILES.iter().map(|name| (*name).to_owned()).collect());
}

fn pytest(file: &str) {
    let mut pytest = packages::python().unwrap_or_else(|error| panic!("{error}"));
    pytest.args(["-m", "pytest", "--no-header"]).arg(format!("tests/{file}.py"));
    pytest.current_dir(PACKAGE).env("TAKETURNS_PLACE", place());
    pytest.env("TAKETURNS_MYPY_CACHE", target_dir().join("mypy"));
    let output = pytest.output().unwrap_or_else(|error| panic!("{pytest:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// The program that starts servers, which was built with the tests of `bindings/conformance`.
fn place() -> PathBuf {
    let profile = std::env::current_exe().expect("a test").ancestors().nth(2).map(Path::to_owned);
    profile.expect("a folder").join("taketurns-place")
}

/// An error of the client that has no class would be a nameless one in Python.
#[test]
fn every_kind_of_error_has_a_class() {
    let client = include_str!("../../../crates/taketurns/src/error.rs");
    let errors = include_str!("../python/taketurns/_errors.py");
    let kinds =
        client.split("pub enum ErrorKind {\n").nth(1).and_then(|rest| rest.split('}').next());
    let kinds: Vec<&str> =
        kinds.expect("an enum").lines().map(|line| line.trim().trim_end_matches(',')).collect();
    assert!(kinds.contains(&"Timeout"), "{kinds:?}");
    // What can't be is an `InvalidArgument`, whatever it is.
    for kind in kinds.into_iter().filter(|kind| !kind.is_empty() && !kind.starts_with("Invalid")) {
        assert!(errors.contains(&format!("    \"{kind}\": ")), "{kind} is missing");
    }
}
