//! A place where this process may mount what it likes: a disk that is soon full is one that we made
//! ourselves. Whatever is mounted there is gone with the last process in it.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::geteuid;

/// Set for a program that runs in such a place.
const INSIDE: &str = "TAKETURNS_TORTURE_MOUNTS";

/// Runs this program anew in such a place, if the system lets us and it is not there yet. It stays the
/// same process.
pub(crate) fn enter() {
    if std::env::var_os(INSIDE).is_some() {
        return;
    }
    // Who is not root is it there, and owns there what it owns here.
    let options: &[&str] = if geteuid().is_root() { &["-m"] } else { &["-m", "-r"] };
    let mut allowed = Command::new("unshare");
    allowed.args(options).args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]);
    let allowed = allowed.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !allowed.is_ok_and(|status| status.success()) {
        eprintln!("no disk of our own may be mounted here: none will be full");
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut again = Command::new("unshare");
    again.args(options).arg(program).args(std::env::args_os().skip(1)).env(INSIDE, "");
    // It returns only if that did not work.
    let error = again.exec();
    eprintln!("unshare: {error}");
}

/// Mounts a disk of this size at this folder. Nothing is done where that is not allowed.
pub(crate) fn small_disk(folder: &Path, megabytes: u32) -> io::Result<bool> {
    if std::env::var_os(INSIDE).is_none() {
        return Ok(false);
    }
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m,mode=700"), "tmpfs"]).arg(folder);
    match mount.status()?.success() {
        true => Ok(true),
        false => Err(io::Error::other("mount failed")),
    }
}

/// Not a byte is left for what anybody else writes, until this file is removed.
pub(crate) fn fill(filling: &Path) -> io::Result<()> {
    let mut file = File::create(filling)?;
    loop {
        match file.write(&[0; 4_096]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
