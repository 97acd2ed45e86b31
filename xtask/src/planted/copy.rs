//! A copy of the tree with all bugs in it, in the target directory. Only what differs is written, so
//! that cargo builds no more than it has to.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::edit::{Edit, plant};

/// What the build needs.
const NEEDED: [&str; 7] =
    ["Cargo.toml", "Cargo.lock", "bench", "bindings", "crates", "proof", "xtask"];

/// Where the switch goes, and the module that is declared there.
const CORE: &str = "crates/core/src/lib.rs";
const SWITCH: (&str, &str) = ("crates/core/src/planted.rs", include_str!("switch.rs"));
const DECLARED: &str = "\npub mod planted;\n";

/// Cargo tells packages apart by name, version and place in their workspace. Were the version the same,
/// it would take what was built of the copy for what is built of the tree.
const WORKSPACE: &str = "Cargo.toml";
const VERSION: &str = "[workspace.package]\nversion = \"";
const MARK: &str = "+planted";

/// Brings the copy up to date.
pub(super) fn copy(root: &Path, edits: &[Edit], into: &Path) -> Result<(), String> {
    let mut files = Vec::new();
    for needed in NEEDED {
        list(root, Path::new(needed), &mut files).map_err(|error| format!("{needed}: {error}"))?;
    }
    for file in &files {
        let bytes = fs::read(root.join(file)).map_err(|error| at(file, &error))?;
        write(&into.join(file), &with_bugs(file, bytes, edits)?)?;
    }
    write(&into.join(SWITCH.0), SWITCH.1.as_bytes())
}

fn with_bugs(file: &Path, bytes: Vec<u8>, edits: &[Edit]) -> Result<Vec<u8>, String> {
    let ours: Vec<&Edit> = edits.iter().filter(|edit| Path::new(&edit.file) == file).collect();
    let [is_core, is_workspace] = [CORE, WORKSPACE].map(|named| file == Path::new(named));
    if ours.is_empty() && !is_core && !is_workspace {
        return Ok(bytes);
    }
    let source =
        String::from_utf8(bytes).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut planted = plant(&ours, &source)?;
    if is_core {
        planted.push_str(DECLARED);
    }
    if is_workspace {
        let version = planted.find(VERSION).map(|at| at + VERSION.len());
        let end = version.and_then(|at| Some(at + planted[at..].find('"')?));
        planted.insert_str(end.ok_or("Cargo.toml names no version")?, MARK);
    }
    Ok(planted.into_bytes())
}

/// All files below a path, seen from the root.
fn list(root: &Path, path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !root.join(path).is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(root.join(path))? {
        list(root, &path.join(entry?.file_name()), files)?;
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|error| at(folder, &error))?;
    fs::write(path, bytes).map_err(|error| at(path, &error))
}

pub(super) fn at(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_has_the_bugs_and_the_switch_and_is_otherwise_the_tree() {
        let [tree, copied] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let workspace = format!("{VERSION}0.1.0\"\nedition = \"2024\"\n");
        write(&tree.path().join(WORKSPACE), workspace.as_bytes()).expect("written");
        for needed in ["Cargo.lock", CORE, "crates/core/src/a.rs", "proof/b.rs"] {
            write(&tree.path().join(needed), b"fn one() -> u8 { 1 }").expect("written");
        }
        for needed in ["bench/c.rs", "bindings/e.rs", "xtask/d.rs"] {
            write(&tree.path().join(needed), b"").expect("written");
        }
        let text = "It is two.\ncrates/core/src/a.rs\n--- is\n1\n--- instead\n2\n";
        let edits = [Edit::parse("two", text).expect("an edit")];
        copy(tree.path(), &edits, copied.path()).expect("a copy");
        let copied = |file: &str| fs::read_to_string(copied.path().join(file)).expect(file);
        assert_eq!(copied("proof/b.rs"), "fn one() -> u8 { 1 }");
        assert_eq!(copied(WORKSPACE), workspace.replace("0.1.0", "0.1.0+planted"));
        assert!(copied("crates/core/src/a.rs").contains("crate::planted::on(\"two\")"));
        assert!(copied(CORE).ends_with(DECLARED));
        assert!(copied(SWITCH.0).contains("pub fn on"));
    }
}
