//! The programs of PostgreSQL, and the user that runs them where we are root, which they refuse to be.

use std::env;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::flavor::NO_SERVERS;
use crate::others::said;
use crate::{SetupError, watchdog};

/// The name of the server's program.
pub(super) const PROGRAM: &str = "postgres";

/// What else is needed of it.
const BESIDE: [&str; 4] = ["initdb", "pg_isready", "pg_basebackup", "psql"];

/// Where Debian keeps the programs of each version, which are not on the path.
const VERSIONS: &str = "/usr/lib/postgresql";

/// Who runs it where we are root.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// The folder with the programs: that of the server on the path, or else of the newest version.
pub(super) fn folder() -> Option<PathBuf> {
    if env::var_os(NO_SERVERS).is_some() {
        return None;
    }
    let path = env::var_os("PATH").unwrap_or_default();
    // What is on the path may be a link to one of them, without the others beside it.
    let on_path = env::split_paths(&path).filter_map(|folder| {
        let program = folder.join(PROGRAM).canonicalize().ok()?;
        program.parent().map(Path::to_owned)
    });
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir(VERSIONS)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let folder = entry.ok()?.path();
            let version = folder.file_name()?.to_str()?.parse().ok()?;
            Some((version, folder.join("bin")))
        })
        .collect();
    versions.sort_unstable();
    let installed = versions.into_iter().rev().map(|(_, folder)| folder);
    let complete = |folder: &PathBuf| {
        let mut all = BESIDE.iter().chain([&PROGRAM]);
        all.all(|name| folder.join(name).is_file())
    };
    on_path.chain(installed).find(complete)
}

/// Who runs a program that refuses to be root.
#[derive(Clone, Copy, Debug)]
pub(in crate::others) struct UserIds(Option<Ids>);

/// A user of the machine.
#[derive(Clone, Copy, Debug)]
struct Ids {
    uid: u32,
    gid: u32,
}

impl UserIds {
    /// Our own, or those of another user if we are root.
    pub(in crate::others) fn to_run_as(program: &'static str) -> Result<Self, SetupError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self(None));
        }
        let id = |name: &str, which: &str| {
            let said = said("id", Command::new("id").args([which, name])).ok()?;
            said.trim().parse().ok()
        };
        let find = |name| Some(Ids { uid: id(name, "-u")?, gid: id(name, "-g")? });
        let found = USERS.into_iter().find_map(find).ok_or_else(|| SetupError::Failed {
            program,
            said: "root may not run it, and there is no user called postgres or nobody".to_owned(),
        })?;
        Ok(Self(Some(found)))
    }

    /// Makes the user the owner of a file or folder.
    pub(in crate::others) fn own(self, path: &Path) -> io::Result<()> {
        self.0.map_or(Ok(()), |ids| chown(path, Some(ids.uid), Some(ids.gid)))
    }

    /// Makes the user the owner of a folder of this process. It may pass through the parent folder, and lists
    /// nothing there.
    pub(in crate::others) fn own_folder(self, folder: &Path) -> io::Result<()> {
        if self.0.is_some() {
            fs::set_permissions(watchdog::folder()?, Permissions::from_mode(0o711))?;
        }
        self.own(folder)
    }

    /// A command that becomes the program rather than its parent, so that a signal reaches it.
    pub(in crate::others) fn command(self, program: &Path) -> Command {
        let Some(ids) = self.0 else { return Command::new(program) };
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &ids.uid.to_string(), "--regid", &ids.gid.to_string()]);
        command.arg("--clear-groups").arg(program);
        command
    }
}
