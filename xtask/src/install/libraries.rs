//! Clients in other languages, for the tests that show that any client will do. They go into the
//! target directory, so that they are cargo's to clean, and nothing of the machine's is changed.

use std::path::Path;
use std::process::Command;

use taketurns_servers::clients::{
    IOREDIS, Library, MOTO, NODE_REDLOCK, REDIS_PY, REDLOCK_PY, SCHEMATHESIS,
};
use taketurns_servers::into_place;

/// What installs a library into a folder.
type Installer = fn(Library, &Path) -> Command;

/// Installs those that are missing. One of another version is as good as missing.
pub(crate) fn install() -> Result<(), String> {
    let all: [(Library, Installer); 6] = [
        (REDIS_PY, pip),
        (REDLOCK_PY, pip_source),
        (IOREDIS, npm),
        (NODE_REDLOCK, npm),
        (SCHEMATHESIS, pip),
        (MOTO, pip_moto),
    ];
    for (library, command) in all {
        if library.find().is_err() {
            eprintln!("==> installing {library} into the target directory");
            into_place(&library.place(), |folder| command(library, folder))?;
        }
    }
    Ok(())
}

/// With nothing that runs code of a package while it is installed.
fn pip(library: Library, folder: &Path) -> Command {
    let mut command = Command::new("python3");
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]);
    command.args(["--only-binary", ":all:", "--target"]).arg(folder);
    command.arg(format!("{}=={}", library.name, library.version));
    // It has nothing to say about root here.
    command.env("PIP_ROOT_USER_ACTION", "ignore");
    command
}

/// For one that is published as source alone, so that its set-up has to run. What it needs beside
/// itself is among the others.
fn pip_source(library: Library, folder: &Path) -> Command {
    let mut command = pip(library, folder);
    command.args(["--no-deps", "--no-binary", library.name]);
    command
}

/// With what it needs to be a server for objects, and nothing for the many others that it can be.
fn pip_moto(library: Library, folder: &Path) -> Command {
    let mut command = pip(library, folder);
    command.args(["py-partiql-parser==0.6.3", "PyYAML==6.0.3"]);
    command.args(["flask==3.1.3", "flask-cors==6.0.5"]);
    command
}

/// The same as [`pip`].
fn npm(library: Library, folder: &Path) -> Command {
    let mut command = Command::new("npm");
    command.args(["install", "--loglevel=error", "--no-save", "--ignore-scripts", "--no-audit"]);
    command.args(["--no-fund", "--prefix"]).arg(folder);
    command.arg(format!("{}@{}", library.name, library.version));
    command
}
