//! Finds type names that stand for several things, so that a reader who meets one knows which it is.
//!
//! ```text
//!   every .rs file that is no test ─► the types that it defines ─► names with more than one place
//! ```
//!
//! `cargo xtask names` prints them, and `cargo xtask test` fails if there is one. Reads sources line by line as
//! rustfmt writes them: an item begins its line, and a block ends with a brace at the indent of its first line.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const USAGE: &str = "usage: cargo xtask names";

/// The root of this repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Where its sources are.
const SOURCES: [&str; 4] = ["bench", "crates", "proof", "xtask"];

/// Programs that measure other libraries: each is alone in its process.
const PEERS: &str = "bench/peers";

/// Folders of tests and examples: each file there is read on its own.
const APART: [&str; 3] = ["tests", "examples", "target"];

/// Names that say nothing but what part a type has within its module. They may be used again, as long as no other
/// crate sees them.
const GENERIC: [&str; 7] = ["State", "Args", "Options", "Entry", "Inner", "Shared", "Row"];

/// Prints the names that stand for several types, and fails if there are any.
pub(crate) fn run(mut args: impl Iterator<Item = String>) -> Result<(), String> {
    match args.next() {
        Some(_) => Err(USAGE.to_owned()),
        None => check(),
    }
}

/// Fails with a line for each name that stands for several types.
pub(crate) fn check() -> Result<(), String> {
    let ambiguous = ambiguous(&definitions(Path::new(ROOT))?);
    match ambiguous.len() {
        0 => Ok(()),
        count => {
            Err(format!("{}\n==> {count} names stand for several types", ambiguous.join("\n")))
        }
    }
}

/// A type as a source file defines it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Definition {
    name: String,
    /// From the root.
    file: PathBuf,
    line: usize,
    /// May be seen outside its crate.
    public: bool,
}

/// What one source file says of types.
#[derive(Debug, Default, PartialEq, Eq)]
struct SourceFile {
    /// Name, line, and whether it is public.
    types: Vec<(String, usize, bool)>,
    /// Modules in files of their own that are only built for tests.
    test_modules: Vec<String>,
}

/// A line for each name that is defined in several files. Definitions in one file are alternatives for different
/// systems or features.
fn ambiguous(definitions: &[Definition]) -> Vec<String> {
    let mut by_name: BTreeMap<&str, Vec<&Definition>> = BTreeMap::new();
    for definition in definitions {
        by_name.entry(&definition.name).or_default().push(definition);
    }
    let line = |(name, places): (&str, Vec<&Definition>)| {
        let files: BTreeSet<&Path> = places.iter().map(|place| place.file.as_path()).collect();
        let generic = GENERIC.contains(&name);
        if files.len() < 2 || generic && places.iter().all(|place| !place.public) {
            return None;
        }
        let what_to_do = match generic {
            true => "only private types may share it: make each `pub(crate)` at most, or rename it",
            false => "rename all but one to a noun that no other type has",
        };
        let place = |place: &&Definition| format!("{}:{}", place.file.display(), place.line);
        let places: Vec<String> = places.iter().map(place).collect();
        Some(format!("{name} is defined at {}; {what_to_do}", places.join(", ")))
    };
    by_name.into_iter().filter_map(line).collect()
}

/// All types of the workspace's code outside tests.
fn definitions(root: &Path) -> Result<Vec<Definition>, String> {
    let mut files = Vec::new();
    for folder in SOURCES {
        list(root, Path::new(folder), &mut files).map_err(|error| format!("{folder}: {error}"))?;
    }
    let read = |file: PathBuf| {
        let text = fs::read_to_string(root.join(&file));
        let text = text.map_err(|error| format!("{}: {error}", file.display()))?;
        Ok((file, SourceFile::parse(&text)))
    };
    let sources = files.into_iter().map(read).collect::<Result<Vec<_>, String>>()?;
    let tests: Vec<PathBuf> = sources
        .iter()
        .flat_map(|(file, source)| source.test_modules.iter().map(|name| children(file).join(name)))
        .collect();
    let is_test = |file: &Path| {
        tests.iter().any(|test| file.starts_with(test) || file == test.with_extension("rs"))
    };
    let mut definitions = Vec::new();
    for (file, source) in sources.into_iter().filter(|(file, _)| !is_test(file)) {
        let definition =
            |(name, line, public)| Definition { name, file: file.clone(), line, public };
        definitions.extend(source.types.into_iter().map(definition));
    }
    Ok(definitions)
}

/// All sources below a path, seen from the root, in order.
fn list(root: &Path, path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut names = fs::read_dir(root.join(path))?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort();
    for there in names {
        let name = there.file_name().unwrap_or_default();
        let path = path.join(name);
        if there.is_dir() {
            if path != Path::new(PEERS) && !APART.iter().any(|apart| name == *apart) {
                list(root, &path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests.rs"
        {
            files.push(path);
        }
    }
    Ok(())
}

/// The folder with the modules of a source file.
fn children(file: &Path) -> PathBuf {
    let is_root = ["mod.rs", "lib.rs", "main.rs"].iter().any(|name| file.ends_with(name));
    if is_root { file.with_file_name("") } else { file.with_extension("") }
}

impl SourceFile {
    fn parse(text: &str) -> Self {
        let (mut found, mut for_tests) = (Self::default(), false);
        let mut lines = text.lines().zip(1..);
        while let Some((line, number)) = lines.next() {
            let item = line.trim_start();
            if item.is_empty() || item.starts_with("//") || item.starts_with("#[") {
                for_tests |=
                    ["#[cfg(test)]", "#[cfg(all(test,"].iter().any(|cfg| item.starts_with(cfg));
                continue;
            }
            if !for_tests {
                found.types.extend(defined(line).map(|(name, public)| (name, number, public)));
            } else if let Some(module) = item.strip_suffix(';').and_then(|item| after(item, "mod"))
            {
                found.test_modules.push(module.to_owned());
            } else if item.ends_with('{') {
                let end = format!("{}}}", &line[..line.len() - item.len()]);
                lines.find(|(line, _)| *line == end);
            }
            for_tests = false;
        }
        found
    }
}

/// The name of the type that a line defines, and whether it is public.
fn defined(line: &str) -> Option<(String, bool)> {
    let item = line.trim_start();
    let (item, public) = match item.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => (rest.split_once(") ")?.1, false),
        Some(rest) => (rest.strip_prefix(' ')?, true),
        None => (item, false),
    };
    let item = item.strip_prefix("unsafe ").unwrap_or(item);
    // An indented `type` belongs to a trait or an `impl`.
    let is_top = !line.starts_with(char::is_whitespace);
    let keywords: &[&str] = &["struct", "enum", "trait", "union", "type"];
    let rest = keywords[..if is_top { 5 } else { 4 }].iter().find_map(|word| after(item, word))?;
    let end = rest.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(rest.len());
    let is_type = rest.starts_with(char::is_uppercase);
    is_type.then(|| (rest[..end].to_owned(), public))
}

/// What follows a keyword.
fn after<'a>(item: &'a str, keyword: &str) -> Option<&'a str> {
    item.split_once(' ').filter(|(word, _)| *word == keyword).map(|(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        SourceFile::parse(text).types.into_iter().map(|(name, ..)| name).collect()
    }

    #[test]
    fn every_way_to_define_a_type_is_read() {
        let text = "pub struct One;\npub(in crate::a) enum Two {\n}\ntrait Three: Send {}\n\
                    pub unsafe trait Four {}\nunion Five {\n}\npub(crate) type Six<'a> = &'a str;\n\
                    fn local() {\n    struct Seven(u8);\n}\n";
        assert_eq!(names(text), ["One", "Two", "Three", "Four", "Five", "Six", "Seven"]);
        let public: Vec<bool> =
            SourceFile::parse(text).types.into_iter().map(|(.., public)| public).collect();
        assert_eq!(public, [true, false, false, true, false, false, false]);
        assert_eq!(SourceFile::parse("\n\nstruct One;").types[0].1, 3, "the line");
    }

    #[test]
    fn what_defines_no_type_is_passed_over() {
        let text = "/// struct One;\n// enum Two\nimpl Future for A {\n    type Output = ();\n}\n\
                    let structure = type_of(A);\nuse a::{struct_b};\nstruct $name;\nimpl Trait for B {}\n";
        assert_eq!(names(text), [""; 0]);
    }

    #[test]
    fn what_is_only_built_for_tests_does_not_count() {
        let text = "struct One;\n#[cfg(test)]\nmod random;\n#[cfg(test)]\nstruct Two;\n\
                    #[cfg(all(test, unix))]\n#[allow(unused)]\nmod tests {\n    struct Three {\n    }\n}\n\
                    #[cfg(unix)]\nmod unix {\n    struct Four;\n}\n";
        assert_eq!(names(text), ["One", "Four"]);
        assert_eq!(SourceFile::parse(text).test_modules, ["random"]);
    }

    fn definition(name: &str, file: &str, public: bool) -> Definition {
        Definition { name: name.to_owned(), file: file.into(), line: 7, public }
    }

    #[test]
    fn a_name_in_two_files_is_told_with_its_places_and_what_to_do() {
        let lines = ambiguous(&[
            definition("Turn", "a.rs", false),
            definition("Lock", "a.rs", true),
            definition("Turn", "b.rs", true),
        ]);
        let line = "Turn is defined at a.rs:7, b.rs:7; rename all but one to a noun that no other type has";
        assert_eq!(lines, [line]);
        let twice = [definition("Clock", "a.rs", true), definition("Clock", "a.rs", true)];
        assert_eq!(ambiguous(&twice), [""; 0], "one for Linux and one for the rest");
    }

    #[test]
    fn generic_names_may_be_shared_while_they_are_private() {
        let private = definition("State", "a.rs", false);
        assert_eq!(ambiguous(&[private.clone(), definition("State", "b.rs", false)]), [""; 0]);
        let lines = ambiguous(&[private, definition("State", "b.rs", true)]);
        assert!(
            lines[0].starts_with("State is defined at a.rs:7, b.rs:7; only private"),
            "{lines:?}"
        );
    }

    #[test]
    fn tests_examples_and_peers_are_left_out() {
        let root = tempfile::tempdir().expect("a folder");
        let files = [
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod random;\nstruct Kept;"),
            ("crates/a/src/random.rs", "struct Random;"),
            ("crates/a/src/random/more.rs", "struct More;"),
            ("crates/a/src/deep.rs", "struct Deep;\n#[cfg(test)]\nmod random;"),
            ("crates/a/src/deep/random.rs", "struct Random;"),
            ("crates/a/src/deep/tests.rs", "struct Tested;"),
            ("crates/a/tests/all.rs", "struct All;"),
            ("crates/a/examples/one.rs", "struct Example;"),
            ("bench/peers/rust/src/main.rs", "struct Peer;"),
            ("proof/b.rs", "struct Proof;"),
            ("xtask/c.rs", ""),
        ];
        for (file, text) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        let found = definitions(root.path()).expect("sources");
        let names: Vec<&str> = found.iter().map(|definition| definition.name.as_str()).collect();
        assert_eq!(names, ["Deep", "Kept", "Proof"]);
    }

    #[test]
    fn the_types_of_this_workspace_are_found() {
        let found = definitions(Path::new(ROOT)).expect("sources");
        assert!(found.len() > 400, "{}", found.len());
        assert!(found.iter().any(|definition| definition.name == "SourceFile"));
    }
}
