//! The crates that ship, and a quick check that each of them can be packaged: it has the fields and files that
//! crates.io shows, and its sources include no file that the package lacks.
//!
//! `cargo xtask dist` builds from the packages, which takes minutes. This check is for every day.

/// In the order in which they are published: a crate comes after its dependencies.
pub(super) const CRATES: [&str; 5] =
    ["taketurns-core", "taketurns", "taketurns-conformance", "taketurns-cli", "taketurns-module"];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Component, Path, PathBuf};

    use serde_json::Value;

    use super::*;
    use crate::cargo;

    fn stdout(args: &[&str]) -> String {
        let output = cargo(args).output().expect("cargo");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// What cargo knows of the packages of this workspace.
    fn packages() -> Vec<Value> {
        let metadata = stdout(&["metadata", "--no-deps", "--offline", "--format-version", "1"]);
        let metadata: Value = serde_json::from_str(&metadata).expect("JSON");
        metadata["packages"].as_array().expect("packages").clone()
    }

    fn shipped() -> Vec<(&'static str, Value)> {
        let packages = packages();
        let named = |name| packages.iter().find(|package| package["name"] == name).cloned();
        CRATES.map(|name| (name, named(name).expect(name))).into()
    }

    fn files_of(name: &str) -> BTreeSet<PathBuf> {
        let list = stdout(&["package", "--offline", "--allow-dirty", "--list", "--package", name]);
        list.lines().map(PathBuf::from).collect()
    }

    #[test]
    fn what_does_not_ship_can_not_be_published() {
        for package in packages() {
            let name = package["name"].as_str().expect("a name");
            let is_closed = package["publish"].as_array().is_some_and(Vec::is_empty);
            assert_eq!(is_closed, !CRATES.contains(&name), "{name}: publish");
        }
    }

    #[test]
    fn every_crate_that_ships_says_what_it_is() {
        for (name, package) in shipped() {
            let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
            let description = text("description");
            assert!(description.contains("distributed lock"), "{name}: {description:?}");
            assert_eq!(text("license"), "MIT OR Apache-2.0", "{name}");
            assert_eq!(text("readme"), "README.md", "{name}");
            assert!(!text("rust_version").is_empty(), "{name}");
            let keywords = package["keywords"].as_array().expect("keywords");
            assert!((1..=5).contains(&keywords.len()), "{name}: {keywords:?}");
            for keyword in keywords.iter().filter_map(Value::as_str) {
                assert!(keyword.len() <= 20 && !keyword.contains(' '), "{name}: {keyword:?}");
            }
            let categories = package["categories"].as_array().expect("categories");
            assert!((1..=5).contains(&categories.len()), "{name}: {categories:?}");
        }
    }

    /// The version of a workspace dependency is written by hand, beside that of the workspace.
    #[test]
    fn every_crate_depends_on_the_version_that_ships_with_it() {
        for (name, package) in shipped() {
            let version = package["version"].as_str().expect("a version");
            for dependency in package["dependencies"].as_array().expect("dependencies") {
                let its_name = dependency["name"].as_str().expect("a name");
                if dependency["path"].is_null() {
                    continue;
                }
                if dependency["kind"] == "dev" && dependency["req"] == "*" {
                    continue; // It is left out of the package.
                }
                assert_eq!(dependency["req"], format!("^{version}"), "{name} needs {its_name}");
                let place = |name: &str| CRATES.iter().position(|one| *one == name);
                assert!(place(its_name) < place(name), "{name} comes before {its_name}");
            }
        }
    }

    #[test]
    fn every_package_has_its_readme_and_licences_and_what_its_sources_include() {
        for (name, package) in shipped() {
            let files = files_of(name);
            for needed in ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "Cargo.lock"] {
                assert!(files.contains(Path::new(needed)), "{name} lacks {needed}");
            }
            let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
            let folder = manifest.parent().expect("a folder");
            let sources = files.iter().filter(|file| file.extension().is_some_and(|e| e == "rs"));
            for source in sources.filter(|source| !is_test(source)) {
                let text = std::fs::read_to_string(folder.join(source)).expect("a source");
                for included in included(&text) {
                    let path = plain(&source.parent().expect("a folder").join(included));
                    assert!(files.contains(&path), "{name}: {source:?} includes {included:?}");
                }
            }
        }
    }

    /// Tests and fuzzers (`#[cfg(test)]`) need crates that are not published, so they do not run from a package.
    fn is_test(source: &Path) -> bool {
        source.components().any(|part| {
            let tests = ["tests", "tests.rs", "fuzz", "fuzz.rs"];
            tests.iter().any(|test| part == Component::Normal(test.as_ref()))
        })
    }

    /// The files that a source names: arguments of `include_str!` and the like, and whatever begins with `../`.
    fn included(source: &str) -> Vec<&str> {
        let tests = source.find("#[cfg(test)]\nmod tests {").unwrap_or(source.len());
        let tests = source.find("#[cfg(doctest)]").unwrap_or(tests).min(tests);
        let lines = source[..tests].lines().filter(|line| !line.trim_start().starts_with("//"));
        let mut found = Vec::new();
        for line in lines {
            for (before, literal) in literals(line) {
                let includes = ["include_str!(", "include_bytes!(", "include!("];
                if includes.iter().any(|name| before.ends_with(name)) || literal.starts_with("../")
                {
                    found.push(literal);
                }
            }
        }
        found
    }

    /// What stands between quotes on a line, each with what comes before it.
    fn literals(line: &str) -> Vec<(&str, &str)> {
        let quotes: Vec<usize> = line.match_indices('"').map(|(at, _)| at).collect();
        quotes.chunks_exact(2).map(|pair| (&line[..pair[0]], &line[pair[0] + 1..pair[1]])).collect()
    }

    /// The path without `..`.
    fn plain(path: &Path) -> PathBuf {
        let mut plain = PathBuf::new();
        for part in path.components() {
            match part {
                Component::ParentDir if plain.pop() => {}
                part => plain.push(part),
            }
        }
        plain
    }

    #[test]
    fn a_source_that_includes_a_file_is_seen_and_its_tests_are_not() {
        let source = "const A: &str = include_str!(\"a.lua\");\npages! { b: \"../docs/b.md\" }\n\
                      let c = \"c.md\";\n#[cfg(test)]\nmod tests { include_str!(\"d.md\") }\n";
        assert_eq!(included(source), ["a.lua", "../docs/b.md"]);
        assert_eq!(plain(Path::new("src/../docs/b.md")), Path::new("docs/b.md"));
        assert_eq!(plain(Path::new("src/../../b.md")), Path::new("../b.md"));
    }
}
