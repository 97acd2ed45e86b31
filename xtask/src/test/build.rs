//! One build for lints and tests: clippy is the compiler of this workspace's crates, so that each is read
//! once, and a warning is an error.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use taketurns_servers::target_dir;

use super::suite::Suite;
use crate::{cargo, not_started};

/// What is built: all packages with all features, but for those that only `cargo xtask proof` runs.
pub(super) const ALL: [&str; 6] = [
    "--workspace",
    "--all-features",
    "--exclude",
    "taketurns-model",
    "--exclude",
    "taketurns-threads",
];

/// What a quick run leaves out: packages that need libclang, and those for other languages.
pub(super) const QUICK: [&str; 10] = [
    "--exclude",
    "taketurns-module",
    "--exclude",
    "taketurns-torture",
    "--exclude",
    "taketurns-bench",
    "--exclude",
    "taketurns-bindings",
    "--exclude",
    "taketurns-python",
];

/// Builds every test, example and program of [`ALL`], less some packages. Returns the tests.
pub(super) fn suites(less: &[&str]) -> Result<Vec<Suite>, String> {
    eprintln!("==> build and lints");
    let mut command = cargo(&["test", "--no-run", "--message-format=json"]);
    command.args(ALL).args(less).stdout(Stdio::piped());
    with_lints(&mut command);
    if less.is_empty() {
        from_nothing(&mut command);
    }
    let mut building = command.spawn().map_err(not_started)?;
    let lines = BufReader::new(building.stdout.take().expect("it is a pipe")).lines();
    let (mut suites, mut warnings) = (Vec::new(), 0);
    for line in lines.map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        warnings += usize::from(show(&message));
        suites.extend(suite(&message));
    }
    let built = building.wait().map_err(not_started)?.success();
    if !built || warnings > 0 {
        return Err(format!("==> build and lints failed: {warnings} errors or warnings"));
    }
    Ok(suites)
}

/// Lets clippy compile this workspace's own crates, as `cargo clippy` does, but whole.
pub(super) fn with_lints(command: &mut Command) {
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
}

/// Leaves out what would make the next build quicker and makes this one slower: a tenth of it. Those who build
/// again and again have `--quick`.
pub(super) fn from_nothing(command: &mut Command) {
    command.env("CARGO_INCREMENTAL", "0");
}

/// Where the build puts an example.
pub(super) fn example(name: &str) -> PathBuf {
    target_dir().join("debug/examples").join(name)
}

/// Prints what the compiler has to say, if that is a warning or an error of this workspace: cargo repeats
/// those of an earlier run, and leaves out those of other crates.
fn show(message: &Value) -> bool {
    let diagnostic = &message["message"];
    let counts = message["reason"] == "compiler-message"
        && matches!(diagnostic["level"].as_str(), Some("warning" | "error"));
    if counts {
        eprint!("{}", diagnostic["rendered"].as_str().unwrap_or_default());
    }
    counts
}

/// The test program that was built, if one was.
fn suite(message: &Value) -> Option<Suite> {
    let program = message["executable"].as_str()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let package = message["package_id"].as_str()?;
    let target = &message["target"];
    let kind = target["kind"][0].as_str()?;
    // An example has no tests.
    let name = match kind {
        "example" => return None,
        "test" => format!("{}/{}", package_name(package, folder), target["name"].as_str()?),
        _ => package_name(package, folder),
    };
    Some(Suite { name, program: program.into(), folder: folder.to_owned(), skip: None })
}

/// `path+file:///…/crates/core#taketurns-core@0.1.0`, or without a name if the folder has it.
fn package_name(id: &str, folder: &Path) -> String {
    let end = id.rsplit_once('#').map_or(id, |(_, end)| end);
    match end.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn artifact(kind: &str, test: bool) -> Value {
        json!({
            "reason": "compiler-artifact",
            "package_id": "path+file:///x/crates/core#taketurns-core@0.1.0",
            "manifest_path": "/x/crates/core/Cargo.toml",
            "target": { "kind": [kind], "name": "all" },
            "profile": { "test": test },
            "executable": "/x/target/debug/deps/all-0123",
        })
    }

    #[test]
    fn a_test_program_is_a_suite_with_a_name_and_a_folder() {
        let found = suite(&artifact("test", true)).expect("a suite");
        assert_eq!(found.name, "taketurns-core/all");
        assert_eq!(found.folder, Path::new("/x/crates/core"));
        assert_eq!(suite(&artifact("lib", true)).expect("a suite").name, "taketurns-core");
        assert!(suite(&artifact("bin", false)).is_none(), "a program is no test");
        assert!(suite(&artifact("example", true)).is_none());
        assert!(suite(&json!({ "reason": "build-finished", "success": true })).is_none());
    }

    #[test]
    fn a_package_is_named_by_its_id_or_its_folder() {
        let folder = Path::new("/x/xtask");
        assert_eq!(package_name("path+file:///x/xtask#0.1.0", folder), "xtask");
    }

    #[test]
    fn warnings_count_and_notes_do_not() {
        let says = |level| json!({ "reason": "compiler-message", "message": { "level": level } });
        assert!(show(&says("warning")) && show(&says("error")));
        assert!(!show(&says("note")) && !show(&artifact("lib", true)));
    }
}
