//! Clients in other languages, as their users have them, each language in an environment of its own.
//!
//! `cargo xtask test` installs them below the target directory and nowhere else:
//!
//! ```text
//!   target/clients/python    a virtual environment: bin/python imports redis, redlock, moto, …
//!   target/clients/node      node_modules with ioredis and redlock
//!   target/clients/python-…  virtual environments for our own Python package: its tests, and its build
//! ```
//!
//! Each has a list of what is in it. An environment with another list is as good as missing.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::built::{target_dir, target_dirs};
use crate::{SetupError, into_place};

/// A library of another language, of exactly one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library {
    /// What its registry calls it.
    pub name: &'static str,
    /// The version that is installed, and no other.
    pub version: &'static str,
}

const fn library(name: &'static str, version: &'static str) -> Library {
    Library { name, version }
}

/// redis-py. Needs Python 3.10 or later.
pub const REDIS_PY: Library = library("redis", "8.1.0");

/// ioredis. The last of those that run on the Node 18 of Debian 12.
pub const IOREDIS: Library = library("ioredis", "5.11.1");

/// redlock-py: Redlock on redis-py. The last one there is. Published as source alone.
pub const REDLOCK_PY: Library = library("redlock-py", "1.0.8");

/// python-redis-lock: a lock on redis-py whose waiters block on a list.
pub const PYTHON_REDIS_LOCK: Library = library("python-redis-lock", "4.0.1");

/// node-redlock: Redlock on ioredis. The last one there is, for any Node since 12.
pub const NODE_REDLOCK: Library = library("redlock", "5.0.0-beta.2");

/// schemathesis: sends a server all sorts of requests that its OpenAPI description allows, and some that the
/// server should refuse. Needs Python 3.10 or later.
pub const SCHEMATHESIS: Library = library("schemathesis", "4.32.5");

/// A store for objects that speaks S3, to be run as a program: see [`ObjectStore`](crate::others::ObjectStore).
pub const MOTO: Library = library("moto", "5.2.5");

/// All libraries of one language, installed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Environment {
    /// The language, which names the folder.
    pub name: &'static str,
    /// What is in it.
    pub libraries: &'static [Library],
}

/// The Python environment. The last four are what moto needs to be a server for objects.
pub const PYTHON: Environment = Environment {
    name: "python",
    libraries: &[
        REDIS_PY,
        REDLOCK_PY,
        PYTHON_REDIS_LOCK,
        SCHEMATHESIS,
        MOTO,
        library("py-partiql-parser", "0.6.3"),
        library("PyYAML", "6.0.3"),
        library("flask", "3.1.3"),
        library("flask-cors", "6.0.5"),
    ],
};

/// What the tests of our own Python package need: a test runner, a type checker, another event loop, and the frameworks
/// of its recipes.
pub const PYTHON_PACKAGE: Environment = Environment {
    name: "python-package",
    libraries: &[
        library("pytest", "9.2.0"),
        library("mypy", "2.4.1"),
        library("uvloop", "0.23.0"),
        library("celery", "5.7.0"),
        REDIS_PY,
        library("fastapi", "0.163.0"),
        library("httpx", "0.28.1"),
    ],
};

/// What makes a wheel and a source distribution of it.
pub const PYTHON_BUILD: Environment =
    Environment { name: "python-build", libraries: &[library("maturin", "1.16.0")] };

/// The Node environment.
pub const NODE: Environment = Environment { name: "node", libraries: &[IOREDIS, NODE_REDLOCK] };

/// What the tests of our own Node package need: a compiler that checks its types, and the types of Node.
pub const NODE_PACKAGE: Environment = Environment {
    name: "node-package",
    libraries: &[library("typescript", "5.9.3"), library("@types/node", "20.19.43")],
};

/// The file that says what was installed into an environment.
const LIST: &str = "libraries.txt";

impl Environment {
    /// The folder it was installed into.
    ///
    /// # Errors
    ///
    /// [`SetupError::NoEnvironment`] if it was not installed, or with other versions.
    pub fn find(self) -> Result<PathBuf, SetupError> {
        let mut places = target_dirs().into_iter().map(|target| target.join(self.folder()));
        places.find(|place| self.is_in(place)).ok_or(SetupError::NoEnvironment(self))
    }

    /// Has a command fill its folder, in place of one with other versions.
    ///
    /// # Errors
    ///
    /// A line for people, if the command can't be started or fails.
    pub fn install(self, fill: impl Fn(&Path) -> Command) -> Result<(), String> {
        let place = target_dir().join(self.folder());
        if !self.is_in(&place) {
            // It may not be there at all.
            let _ = fs::remove_dir_all(&place);
        }
        into_place(&place, |folder| {
            let _ = fs::write(folder.join(LIST), self.to_string());
            fill(folder)
        })
    }

    fn folder(self) -> String {
        format!("clients/{}", self.name)
    }

    fn is_in(self, place: &Path) -> bool {
        fs::read_to_string(place.join(LIST)).is_ok_and(|list| list == self.to_string())
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// `redis 8.1.0, redlock-py 1.0.8, …`
impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let libraries: Vec<String> = self.libraries.iter().map(Library::to_string).collect();
        f.write_str(&libraries.join(", "))
    }
}

/// The interpreter of [`PYTHON`], about to be given its arguments.
///
/// # Errors
///
/// [`SetupError::NoEnvironment`] if that was not installed.
pub fn python_program() -> Result<Command, SetupError> {
    Ok(Command::new(PYTHON.find()?.join("bin/python")))
}

/// Python, about to run a script that may import what [`PYTHON`] has. The arguments are in `sys.argv[1:]`, and
/// what it prints comes at once.
///
/// # Errors
///
/// [`SetupError::NoEnvironment`] if that was not installed.
pub fn python<A: AsRef<OsStr>>(
    script: &str,
    args: impl IntoIterator<Item = A>,
) -> Result<Command, SetupError> {
    let mut command = python_program()?;
    command.args(["-u", "-c", script]).args(args);
    Ok(command)
}

/// Node, about to run a script that may `require` what [`NODE`] has. The arguments are in
/// `process.argv.slice(1)`.
///
/// # Errors
///
/// [`SetupError::NoEnvironment`] if that was not installed.
pub fn node<A: AsRef<OsStr>>(
    script: &str,
    args: impl IntoIterator<Item = A>,
) -> Result<Command, SetupError> {
    let mut command = Command::new("node");
    command.env("NODE_PATH", NODE.find()?.join("node_modules"));
    command.args(["-e", script, "--"]).args(args);
    Ok(command)
}

/// [`SCHEMATHESIS`], about to be given its arguments.
///
/// # Errors
///
/// [`SetupError::NoEnvironment`] if it was not installed.
pub fn schemathesis() -> Result<Command, SetupError> {
    let mut command = python_program()?;
    command.args(["-c", "from schemathesis.cli import schemathesis; schemathesis()"]);
    Ok(command)
}
