//! The tests of the package for Node, which are in `test` and run in Node's own test runner: on a file, on a Redis server,
//! on PostgreSQL and on a quorum of three. Each file of tests is one test here, with servers of its own.

use std::process::Command;

use taketurns_servers::others::Postgres;
use taketurns_servers::{Flavor, Server, packages};

/// Runs one file of tests, and shows what it said if that failed.
fn passes(file: &str) {
    let servers: Vec<Server> =
        (0..4).map(|_| Server::start(Flavor::Redis).expect("a server")).collect();
    let postgres = Postgres::builder().quick().start().expect("a server");
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let [redis, nodes @ ..] = urls.as_slice() else { unreachable!("there are four") };
    let mut node: Command = packages::node::node().unwrap_or_else(|error| panic!("{error}"));
    node.args(["--test", "--test-reporter=spec", &format!("test/{file}.test.mjs")]);
    node.env("TAKETURNS_REDIS", redis).env("TAKETURNS_POSTGRES", postgres.url());
    node.env("TAKETURNS_QUORUM", format!("quorum:{}", nodes.join(",")));
    let output = node.output().expect("node starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    println!("{said}");
    assert!(!said.contains("\nℹ tests 0\n"), "{said}");
}

macro_rules! files {
    ($($file:ident),* $(,)?) => {
        $(
            #[test]
            fn $file() {
                passes(stringify!($file));
            }
        )*

        /// No file of tests is left out.
        #[test]
        fn every_file_is_run() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/test");
            let names = std::fs::read_dir(folder).expect("a folder").filter_map(|entry| {
                let name = entry.ok()?.file_name().into_string().ok()?;
                Some(name.strip_suffix(".test.mjs")?.to_owned())
            });
            let names: std::collections::BTreeSet<String> = names.collect();
            assert_eq!(names, [$(stringify!($file)),*].map(str::to_owned).into());
        }
    };
}

files!(cancellations, input, kinds, once, process, readme, signals, types, workers);

/// An error of the client that has no class would be a nameless one in JavaScript.
#[test]
fn every_kind_of_error_has_a_class() {
    let client = include_str!("../../../crates/taketurns/src/error.rs");
    let kinds =
        client.split("pub enum ErrorKind {\n").nth(1).and_then(|rest| rest.split('}').next());
    let kinds: Vec<&str> =
        kinds.expect("an enum").lines().map(|line| line.trim().trim_end_matches(',')).collect();
    assert!(kinds.contains(&"Timeout"), "{kinds:?}");
    for kind in kinds.into_iter().filter(|kind| !kind.is_empty()) {
        for (text, form) in [
            (include_str!("../lib/errors.js"), format!("  \"{kind}\",\n")),
            (include_str!("../lib/index.mjs"), format!("  {kind}Error,\n")),
            (include_str!("../lib/index.d.ts"), format!("  | \"{kind}\"")),
            (include_str!("../lib/index.d.ts"), format!("export class {kind}Error extends ")),
        ] {
            assert!(text.contains(&form), "{kind}: {form} is missing");
        }
    }
}
