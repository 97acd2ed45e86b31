//! Puts the programs of the peers and their libraries into `peers` in the target directory, each language in
//! a folder of its own. All versions are pinned by files in `bench/peers`; when one of those changes, its
//! folder is made anew.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use taketurns_servers::{into_place, packages};

/// The first words of a command line, or in one line why there is none.
type Program = Result<Vec<String>, String>;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");

/// The program in Rust.
pub(super) struct RustPeers {
    /// For etcd, whose client takes more to build.
    pub(super) etcd: Program,
    /// For all others.
    pub(super) others: Program,
}

pub(super) fn rust(folder: &Path) -> RustPeers {
    let folder = folder.join("rust");
    let program = vec![folder.join("release/rust-peers").display().to_string()];
    eprintln!("==> building the peers in Rust");
    match build(&folder, &["--features", "etcd"]) {
        Ok(()) => RustPeers { etcd: Ok(program.clone()), others: Ok(program) },
        Err(why) => RustPeers { etcd: Err(why), others: build(&folder, &[]).map(|()| program) },
    }
}

fn build(target: &Path, features: &[&str]) -> Result<(), String> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--release", "--locked", "--quiet"]).args(features);
    command.arg("--manifest-path").arg(source("rust/Cargo.toml"));
    command.arg("--target-dir").arg(target);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cargo can't be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("it can't be built: {}", reason(&said)))
}

/// The line that says most: where a build script panicked, what it was about comes last.
fn reason(said: &str) -> &str {
    let find = |word: &str| said.lines().map(str::trim).find(|line| line.contains(word));
    find("Custom {").or_else(|| find("error")).unwrap_or("cargo does not say why")
}

pub(super) fn python(folder: &Path) -> Program {
    let folder = folder.join("python");
    install(&folder, "python", &["requirements.txt"], |folder| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]);
        // All there is is in the list. One is published as source alone.
        pip.args(["--no-deps", "--only-binary", ":all:", "--no-binary", "redlock-py"]);
        pip.arg("--requirement").arg(source("python/requirements.txt"));
        pip.arg("--target").arg(folder).env("PIP_ROOT_USER_ACTION", "ignore");
        pip
    })?;
    let program = copy("python/peers.py", &folder)?;
    Ok(vec!["python3".to_owned(), program])
}

/// Adds our own package to a program in Python, as it was built with this benchmark.
pub(super) fn with_our_package(python: Vec<String>) -> Program {
    let path = packages::python_path().map_err(|error| error.to_string())?;
    let environment = ["env".to_owned(), format!("PYTHONPATH={}", path.display())];
    Ok(environment.into_iter().chain(python).collect())
}

pub(super) fn node(folder: &Path) -> Program {
    let folder = folder.join("node");
    install(&folder, "node", &["package.json", "package-lock.json"], |folder| {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--loglevel=error", "--ignore-scripts", "--no-audit", "--no-fund"]);
        npm.arg("--prefix").arg(folder).stdout(Stdio::null());
        npm
    })?;
    let program = copy("node/peers.mjs", &folder)?;
    Ok(vec!["node".to_owned(), program])
}

/// Puts our own package beside the other libraries of Node, as it was built with this benchmark.
pub(super) fn beside_our_package(node: Vec<String>, folder: &Path) -> Program {
    let place = folder.join("node/node_modules/taketurns");
    packages::node::install(&place).map(|()| node).map_err(|error| error.to_string())
}

/// Makes the folder of a language, unless it is there and was made of the same files.
fn install(
    folder: &Path,
    language: &str,
    files: &[&str],
    fill: impl Fn(&Path) -> Command,
) -> Result<(), String> {
    let files: Vec<String> = files.iter().map(|file| format!("{language}/{file}")).collect();
    if files.iter().all(|file| is_copied(file, folder)) {
        return Ok(());
    }
    eprintln!("==> installing the peers in {language}");
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    into_place(folder, |half| {
        // If one is missing, who needs it says so.
        files.iter().for_each(|file| drop(copy(file, half)));
        fill(half)
    })
}

fn source(file: &str) -> PathBuf {
    Path::new(SOURCES).join(file)
}

fn copied(file: &str, folder: &Path) -> PathBuf {
    folder.join(Path::new(file).file_name().unwrap_or_default())
}

/// Programs lie beside their libraries, where both languages look for them first.
fn copy(file: &str, folder: &Path) -> Result<String, String> {
    let to = copied(file, folder);
    fs::copy(source(file), &to).map_err(|error| format!("{}: {error}", to.display()))?;
    Ok(to.display().to_string())
}

fn is_copied(file: &str, folder: &Path) -> bool {
    let there = fs::read(copied(file, folder));
    there.is_ok_and(|there| fs::read(source(file)).is_ok_and(|wanted| wanted == there))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_folder_is_made_once_and_again_when_its_versions_change() {
        let target = tempfile::tempdir().expect("a folder");
        let folder = target.path().join("node");
        let lock = folder.join("package-lock.json");
        let make = |script| install(&folder, "node", &["package-lock.json"], |_| sh(script));
        make("exit 3").expect_err("it failed");
        assert!(!folder.exists());
        make("true").expect("a folder");
        make("exit 3").expect("it is there");
        fs::write(&lock, "older").expect("written");
        make("exit 3").expect_err("it is made anew");
        make("true").expect("a folder");
        assert_eq!(fs::read(&lock).ok(), fs::read(source("node/package-lock.json")).ok());
    }

    #[test]
    fn of_a_failed_build_the_line_is_told_that_says_most() {
        let protoc = "error: failed to run custom build command for `etcd-client`\n\nCaused by:\n  \
            thread 'main' panicked at build.rs:30:10:\n  \
            no files: Custom { kind: NotFound, error: \"Could not find `protoc`\" }\n";
        assert!(reason(protoc).contains("Could not find `protoc`"));
        assert_eq!(reason("warning: old\n  error: no such crate\n"), "error: no such crate");
    }
}
