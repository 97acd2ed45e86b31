//! PostgreSQL, as one server that trusts every client. Only this machine can reach it.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Daemon, said};
use crate::process::Process;
use crate::{SetupError, watchdog};

const PROGRAM: &str = "postgres";

/// Where Debian keeps the programs of each version, which are not on the path.
const VERSIONS: &str = "/usr/lib/postgresql";

/// Who runs it where we are root, which it refuses to be.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// A PostgreSQL of its own port and folder, with nothing else changed. Dropping it ends it and removes its
/// files.
#[derive(Debug)]
pub struct Postgres {
    daemon: Daemon,
}

impl Postgres {
    /// Are its programs on the path, or where Debian keeps them?
    pub fn is_installed() -> bool {
        programs().is_some()
    }

    /// Starts one.
    ///
    /// # Errors
    ///
    /// [`SetupError::NotInstalled`] if it is not installed.
    pub fn start() -> Result<Self, SetupError> {
        let programs = programs().ok_or(SetupError::NotInstalled(PROGRAM))?;
        let mut daemon = Daemon::prepare()?;
        let port = daemon.port().to_string();
        let user = User::to_run_as()?;
        if let Some(user) = &user {
            user.owns(daemon.dir())?;
        }
        let data = daemon.dir().join("data");
        let run = |name: &str| {
            let program = programs.join(name);
            let mut command = match &user {
                Some(user) => user.command(&program),
                None => Command::new(&program),
            };
            command.current_dir(daemon.dir());
            command
        };

        let mut initdb = run("initdb");
        initdb.args(["--username", "postgres", "--auth", "trust", "--no-sync"]);
        initdb.args(["--encoding", "UTF8", "--locale", "C", "--pgdata"]).arg(&data);
        said("initdb", &mut initdb)?;

        let mut server = run(PROGRAM);
        server.arg("-D").arg(&data).args(["-h", "127.0.0.1", "-p", &port]);
        // No socket in a folder that all share.
        server.args(["-c", "unix_socket_directories="]);
        let mut ready = Command::new(programs.join("pg_isready"));
        ready.args(["-q", "-h", "127.0.0.1", "-p", &port]).stdin(Stdio::null());
        daemon.start(PROGRAM, &server, || ready.status().is_ok_and(|status| status.success()))?;
        Ok(Self { daemon })
    }

    /// Asks the server to end, even with clients connected, and waits until it has.
    ///
    /// # Errors
    ///
    /// [`SetupError::Patience`] if it does not. It is killed then.
    pub fn shutdown(mut self) -> Result<(), SetupError> {
        self.end()
    }

    /// Killed, it would leave shared memory behind.
    fn end(&mut self) -> Result<(), SetupError> {
        self.daemon.process.take().map_or(Ok(()), Process::quit)
    }

    /// Its URL, with a user that may do anything.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.daemon.port())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // If it does not end, it is killed all the same.
        let _ = self.end();
    }
}

/// The folder with the programs: the newest.
fn programs() -> Option<PathBuf> {
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
    on_path.chain(installed).find(|folder| {
        [PROGRAM, "initdb", "pg_isready"].iter().all(|name| folder.join(name).is_file())
    })
}

/// A user of the machine.
struct User {
    uid: u32,
    gid: u32,
}

impl User {
    /// Somebody else, if we are root.
    fn to_run_as() -> Result<Option<Self>, SetupError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let id = |name: &str, which: &str| {
            let said = said("id", Command::new("id").args([which, name])).ok()?;
            said.trim().parse().ok()
        };
        let find = |name| Some(Self { uid: id(name, "-u")?, gid: id(name, "-g")? });
        USERS.into_iter().find_map(find).map(Some).ok_or_else(|| SetupError::Failed {
            program: PROGRAM,
            said: "root may not run it, and there is no user called postgres or nobody".to_owned(),
        })
    }

    /// Makes it the owner of a folder. It must be able to pass through the parent folder, but lists nothing there.
    fn owns(&self, folder: &Path) -> Result<(), SetupError> {
        fs::set_permissions(watchdog::folder()?, Permissions::from_mode(0o711))?;
        Ok(chown(folder, Some(self.uid), Some(self.gid))?)
    }

    /// Becomes the program rather than its parent, so that a signal reaches it.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &self.uid.to_string(), "--regid", &self.gid.to_string()]);
        command.arg("--clear-groups").arg(program);
        command
    }
}
