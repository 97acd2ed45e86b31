//! Clients in other languages, as their users have them. `cargo xtask test` installs them into the
//! target directory, each in a folder that is named after its version, and into nothing else.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use crate::Error;
use crate::built::{target_dir, target_dirs};

/// A library of another language, of exactly one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library {
    /// What its registry calls it.
    pub name: &'static str,
    /// The version that is installed, and no other.
    pub version: &'static str,
}

/// redis-py. Needs Python 3.10 or later.
pub const REDIS_PY: Library = Library { name: "redis", version: "8.1.0" };

/// ioredis. The last of those that run on the Node 18 of Debian 12.
pub const IOREDIS: Library = Library { name: "ioredis", version: "5.11.1" };

/// redlock-py: Redlock on redis-py. The last one there is.
pub const REDLOCK_PY: Library = Library { name: "redlock-py", version: "1.0.8" };

/// node-redlock: Redlock on ioredis. The last one there is, for any Node since 12.
pub const NODE_REDLOCK: Library = Library { name: "redlock", version: "5.0.0-beta.2" };

/// schemathesis: asks a server all sorts of things that its OpenAPI description says it answers, and some
/// that it should refuse. Needs Python 3.10 or later.
pub const SCHEMATHESIS: Library = Library { name: "schemathesis", version: "4.32.5" };

/// A store for objects that speaks S3, to be run as a program: see [`ObjectStore`](crate::others::ObjectStore).
pub const MOTO: Library = Library { name: "moto", version: "5.2.5" };

impl Library {
    /// The folder to install it into.
    pub fn place(self) -> PathBuf {
        target_dir().join(self.folder())
    }

    /// The folder it was installed into.
    ///
    /// # Errors
    ///
    /// [`Error::NoLibrary`] if it was not installed.
    pub fn find(self) -> Result<PathBuf, Error> {
        let mut places = target_dirs().into_iter().map(|target| target.join(self.folder()));
        places.find(|place| place.is_dir()).ok_or(Error::NoLibrary(self))
    }

    fn folder(self) -> String {
        format!("clients/{}-{}", self.name, self.version)
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// Python, about to run a script that may `import redis` and `redlock`. The arguments are in `sys.argv[1:]`, and
/// what it prints comes at once.
///
/// # Errors
///
/// [`Error::NoLibrary`] if [`REDIS_PY`] or [`REDLOCK_PY`] was not installed.
pub fn python<A: AsRef<OsStr>>(
    script: &str,
    args: impl IntoIterator<Item = A>,
) -> Result<Command, Error> {
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", path([REDIS_PY.find()?, REDLOCK_PY.find()?])?);
    command.args(["-u", "-c", script]).args(args);
    Ok(command)
}

/// Node, about to run a script that may `require` `ioredis` and `redlock`. The arguments are in
/// `process.argv.slice(1)`.
///
/// # Errors
///
/// [`Error::NoLibrary`] if [`IOREDIS`] or [`NODE_REDLOCK`] was not installed.
pub fn node<A: AsRef<OsStr>>(
    script: &str,
    args: impl IntoIterator<Item = A>,
) -> Result<Command, Error> {
    let mut command = Command::new("node");
    let modules = [IOREDIS.find()?, NODE_REDLOCK.find()?].map(|place| place.join("node_modules"));
    command.env("NODE_PATH", path(modules)?);
    command.args(["-e", script, "--"]).args(args);
    Ok(command)
}

/// [`SCHEMATHESIS`], about to be given its arguments.
///
/// # Errors
///
/// [`Error::NoLibrary`] if it was not installed.
pub fn schemathesis() -> Result<Command, Error> {
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", SCHEMATHESIS.find()?);
    command.args(["-c", "from schemathesis.cli import schemathesis; schemathesis()"]);
    Ok(command)
}

/// Several folders to look into, as one word.
fn path(folders: [PathBuf; 2]) -> io::Result<OsString> {
    env::join_paths(folders).map_err(io::Error::other)
}
