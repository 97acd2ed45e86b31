//! Clients in other languages, for the tests that show that any client will do. They go into the
//! target directory, so that they are cargo's to clean, and nothing of the machine's is changed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use taketurns_servers::clients::{IOREDIS, Library, NODE_REDLOCK, REDIS_PY, REDLOCK_PY};

/// What installs a library into a folder.
type Installer = fn(Library, &Path) -> Command;

/// Installs those that are missing. One of another version is as good as missing.
pub(crate) fn install() -> Result<(), String> {
    let all: [(Library, Installer); 4] =
        [(REDIS_PY, pip), (REDLOCK_PY, pip_source), (IOREDIS, npm), (NODE_REDLOCK, npm)];
    for (library, command) in all {
        if library.find().is_err() {
            eprintln!("==> installing {library} into the target directory");
            into_place(&library.place(), |folder| command(library, folder))?;
        }
    }
    Ok(())
}

/// Has a command fill a folder, which gets its name when it is whole: what is there can be used.
fn into_place(place: &Path, fill: impl Fn(&Path) -> Command) -> Result<(), String> {
    let half = format!("{}.half-{}", place.display(), std::process::id());
    let half = Path::new(&half);
    let at = |error| format!("{}: {error}", half.display());
    fs::create_dir_all(half).map_err(at)?;
    let mut command = fill(half);
    let program = command.get_program().display().to_string();
    let status = command.stdin(Stdio::null()).status();
    let done = match status {
        Ok(status) if status.success() => fs::rename(half, place).map_err(at),
        Ok(status) => Err(format!("==> {program} failed with {status}")),
        Err(error) => Err(format!("==> {program} can't be started: {error}")),
    };
    if done.is_err() {
        let _ = fs::remove_dir_all(half);
    }
    // Another one that does the same may have been quicker.
    if place.is_dir() { Ok(()) } else { done }
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

/// The same as [`pip`].
fn npm(library: Library, folder: &Path) -> Command {
    let mut command = Command::new("npm");
    command.args(["install", "--loglevel=error", "--no-save", "--ignore-scripts", "--no-audit"]);
    command.args(["--no-fund", "--prefix"]).arg(folder);
    command.arg(format!("{}@{}", library.name, library.version));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &'static str) -> impl Fn(&Path) -> Command {
        move |folder| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).current_dir(folder);
            command
        }
    }

    #[test]
    fn a_library_is_there_when_it_is_whole_and_not_before() {
        let target = tempfile::tempdir().expect("a folder");
        let place = target.path().join("clients/a-1.0");
        let failed = into_place(&place, sh("touch half; exit 3")).expect_err("it failed");
        assert!(failed.contains("sh failed") && failed.contains('3'), "{failed}");
        into_place(&place, |_| Command::new("no-such-program")).expect_err("it can't start");
        let left = fs::read_dir(target.path().join("clients")).expect("a folder").count();
        assert_eq!(left, 0, "nothing is left of what failed");

        into_place(&place, sh("touch whole; test ! -e ../a-1.0")).expect("a library");
        assert!(place.join("whole").exists());
        into_place(&place, sh("touch late")).expect("another was quicker");
        let left = fs::read_dir(target.path().join("clients")).expect("a folder").count();
        assert_eq!(left, 1, "only the library");
        assert!(!place.join("late").exists());
    }
}
