//! The package for Node: a project that has it installed, with the tests and examples of the package as its own files.
//!
//! ```text
//!   target/debug/deps/libtaketurns_node.so ─┐
//!   bindings/node/{package.json, lib} ──────┴─► target/debug/node/node_modules/taketurns
//!   bindings/node/{test, examples} ───────────► target/debug/node
//!   target/clients/node-package ──────────────► target/debug/node/node_modules/{typescript, @types}   links
//! ```

use std::env::consts::ARCH;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::SetupError;
use crate::built::{built_library, profile_folder};
use crate::clients::NODE_PACKAGE;

/// The sources of the package.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bindings/node");

/// Node in a project that has the package, about to be given its arguments. It may also `require` the package from
/// elsewhere.
///
/// # Errors
///
/// As [`project`].
pub fn node() -> Result<Command, SetupError> {
    let project = project()?;
    let mut command = Command::new("node");
    command.env("NODE_PATH", project.join("node_modules")).current_dir(project);
    Ok(command)
}

/// The folder of a project that has the package. Several processes may make it at once.
///
/// # Errors
///
/// [`SetupError::NoEnvironment`] if the environment was not installed, [`SetupError::NoPackage`] if the addon was not
/// built.
pub fn project() -> Result<PathBuf, SetupError> {
    let environment = NODE_PACKAGE.find()?.join("node_modules");
    let project = profile_folder().join("node");
    install(&project.join("node_modules/taketurns"))?;
    for name in ["typescript", "@types", "undici-types"] {
        let (from, to) = (environment.join(name), project.join("node_modules").join(name));
        place(&to, |new| symlink(&from, new))?;
    }
    for name in ["test", "examples"] {
        copy_folder(&Path::new(SOURCES).join(name), &project.join(name))?;
    }
    Ok(project)
}

/// Puts the package into a folder, as npm would: with the addon that was built in the profile of the running program.
///
/// # Errors
///
/// [`SetupError::NoPackage`] if that was not built.
pub fn install(folder: &Path) -> Result<(), SetupError> {
    let missing = |library| SetupError::NoPackage("taketurns-node", library);
    let addon = built_library("taketurns_node").map_err(missing)?;
    let native = folder.join("native");
    fs::create_dir_all(&native)?;
    let place_of_addon = native.join(addon_name());
    let is_same = |there: fs::Metadata, built: fs::Metadata| {
        (there.dev(), there.ino()) == (built.dev(), built.ino())
    };
    let there = fs::metadata(&place_of_addon).ok();
    if !there.is_some_and(|there| fs::metadata(&addon).is_ok_and(|built| is_same(there, built))) {
        // No symbolic link: Node would follow it, and knows an addon by the end of its name.
        place(&place_of_addon, |new| fs::hard_link(&addon, new).or_else(|_| copy(&addon, new)))?;
    }
    for name in ["package.json", "README.md"] {
        copy_file(&Path::new(SOURCES).join(name), &folder.join(name))?;
    }
    copy_folder(&Path::new(SOURCES).join("lib"), &folder.join("lib"))?;
    Ok(())
}

/// The name by which the package looks for its addon on this platform: see `lib/native.js`.
pub fn addon_name() -> String {
    let arch = match ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let libc = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
    format!("linux-{arch}-{libc}.node")
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy_file(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    if fs::read(to).is_ok_and(|there| fs::read(from).is_ok_and(|wanted| wanted == there)) {
        return Ok(());
    }
    place(to, |new| copy(from, new))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to).map(drop)
}

/// Makes a file or a link that is complete when it gets its name: another process may be using the one of before.
fn place(at: &Path, make: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    // Tests of one process make it at once as well.
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let new = PathBuf::from(format!("{}.new-{}-{number}", at.display(), process::id()));
    let _ = fs::remove_file(&new);
    make(&new)?;
    fs::rename(new, at)
}
