//! This project's packages for other languages, as the workspace's build made them, in the environment of their tests.
//!
//! ```text
//!   target/debug/deps/lib_taketurns.so ──┐
//!   bindings/python/python/taketurns/*.py ┴─► target/debug/python/taketurns   links, for PYTHONPATH
//! ```
//!
//! [`node`] has the same for Node.

pub mod node;

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::SetupError;
use crate::built::{built_library, profile_folder};
use crate::clients::PYTHON_PACKAGE;

/// The sources of the Python package.
const PYTHON_SOURCES: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../bindings/python/python/taketurns");

/// Python with the package `taketurns`, about to be given its arguments.
///
/// # Errors
///
/// [`SetupError::NoEnvironment`] if the environment was not installed, [`SetupError::NoPackage`] if the native part was
/// not built.
pub fn python() -> Result<Command, SetupError> {
    let environment = PYTHON_PACKAGE.find()?;
    let mut command = Command::new(environment.join("bin/python"));
    command.env("PYTHONPATH", python_path()?).env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

/// The folder from which Python imports the package. Several processes may make it at once.
///
/// # Errors
///
/// [`SetupError::NoPackage`] if the native part was not built.
pub fn python_path() -> Result<PathBuf, SetupError> {
    let native = built_library("_taketurns")
        .map_err(|library| SetupError::NoPackage("taketurns-python", library))?;
    let path = profile_folder().join("python");
    let package = path.join("taketurns");
    fs::create_dir_all(&package)?;
    link(&native, &package.join("_taketurns.abi3.so"))?;
    for source in fs::read_dir(PYTHON_SOURCES)? {
        let source = source?;
        link(&source.path(), &package.join(source.file_name()))?;
    }
    Ok(path)
}

/// Makes a link, unless it is there.
fn link(to: &Path, at: &Path) -> io::Result<()> {
    let to = to.canonicalize()?;
    if fs::read_link(at).is_ok_and(|there| there == to) {
        return Ok(());
    }
    // It may lead to another checkout.
    let _ = fs::remove_file(at);
    match symlink(to, at) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
