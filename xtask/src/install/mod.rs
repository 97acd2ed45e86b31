//! Installs what the tests need beside Rust, where that can be done without asking: on Debian and
//! its like, as root or with a sudo that wants no password. Elsewhere it says what to install.
//!
//! It installs nothing that is there already.

mod apt;
mod libclang;
mod libraries;

use std::process::{Command, Stdio};

use taketurns_servers::clients::Environment;
use taketurns_servers::others::{Etcd, PgBouncer, Postgres};
use taketurns_servers::{Flavor, SetupError, installed};

/// Something that is not Rust's, and comes in packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependency {
    /// Servers, which the tests start themselves.
    Server(Flavor),
    /// What the bindings of the module are made with.
    Libclang,
    /// Python and pip, for a client in another language.
    Python,
    /// Node and npm, for another one.
    Node,
    /// Chromium and its driver, for the page of `taketurns serve`.
    Browser,
    /// A terminal for `taketurns top`.
    Tmux,
    /// etcd, to measure its lock beside ours, and what its client is built with.
    Etcd,
    /// PostgreSQL, for the engine, for its own locks beside ours, and for what the manual shows of it.
    Postgres,
    /// A proxy in front of it.
    PgBouncer,
    /// curl, which the manual asks stores and APIs with.
    Curl,
}

/// All that the tests need.
pub(crate) const ALL: [Dependency; 10] = [
    Dependency::Server(Flavor::Redis),
    Dependency::Server(Flavor::Valkey),
    Dependency::Libclang,
    Dependency::Python,
    Dependency::Node,
    Dependency::Browser,
    Dependency::Tmux,
    Dependency::Postgres,
    Dependency::PgBouncer,
    Dependency::Curl,
];

/// What the benchmark can do without: it leaves out what it would measure with them.
pub(crate) const PEERS: [Dependency; 2] = [Dependency::Etcd, Dependency::Postgres];

impl Dependency {
    fn is_there(self) -> bool {
        match self {
            Self::Server(flavor) => installed(flavor),
            Self::Libclang => libclang::is_there(),
            Self::Python => runs("python3", &["-m", "pip", "--version"]),
            Self::Node => runs("node", &["--version"]) && runs("npm", &["--version"]),
            Self::Browser => {
                runs("chromium", &["--version"]) && runs("chromedriver", &["--version"])
            }
            Self::Tmux => runs("tmux", &["-V"]),
            Self::Etcd => Etcd::is_installed() && runs("protoc", &["--version"]),
            Self::Postgres => Postgres::is_installed() && runs("psql", &["--version"]),
            Self::PgBouncer => PgBouncer::is_installed(),
            Self::Curl => runs("curl", &["--version"]),
        }
    }

    const fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Server(Flavor::Redis) => &["redis-server"],
            Self::Server(Flavor::Valkey) => &["valkey-server"],
            Self::Libclang => &["libclang-dev"],
            Self::Python => &["python3", "python3-pip"],
            Self::Node => &["nodejs", "npm"],
            Self::Browser => &["chromium", "chromium-driver"],
            Self::Tmux => &["tmux"],
            Self::Etcd => &["etcd-server", "protobuf-compiler", "libprotobuf-dev"],
            Self::Postgres => &["postgresql"],
            Self::PgBouncer => &["pgbouncer"],
            Self::Curl => &["curl"],
        }
    }

    /// The one line for who has to install it.
    fn what_to_do(self) -> String {
        let (what, wanted) = match self {
            Self::Server(flavor) => return SetupError::Missing(flavor).to_string(),
            Self::Libclang => (
                "libclang",
                "libclang with its headers, and set LIBCLANG_PATH if it is in an unusual place",
            ),
            Self::Python => ("python3 with pip", "Python 3.10 or later with pip"),
            Self::Node => ("node with npm", "Node 18 or later with npm"),
            Self::Browser => ("chromium with chromedriver", "Chromium with its driver"),
            Self::Tmux => ("tmux", "tmux 3.0 or later"),
            Self::Etcd => {
                ("etcd with protoc", "etcd 3.4 or later and protoc with its own .proto files")
            }
            Self::Postgres => ("postgres", "PostgreSQL 15 or later"),
            Self::PgBouncer => ("pgbouncer", "pgbouncer 1.18 or later"),
            Self::Curl => ("curl", "curl 7.82 or later"),
        };
        let command = if ALL.contains(&self) { "test" } else { "bench" };
        format!(
            "{what} is missing: `cargo xtask {command}` installs it on Debian, or install {wanted}"
        )
    }
}

/// Makes sure that these are there.
pub(crate) fn missing(needs: &[Dependency]) -> Result<(), String> {
    apt::tidy()?;
    let missing = absent(needs);
    if missing.is_empty() {
        return Ok(());
    }
    let Some(apt) = apt::Apt::find() else {
        return Err(what_to_do(&missing));
    };
    apt.update()?;
    for package in missing.iter().flat_map(|need| need.packages()) {
        apt.install(package)?;
    }
    let missing = absent(&missing);
    if missing.is_empty() { Ok(()) } else { Err(what_to_do(&missing)) }
}

/// Makes sure that all is there that the tests need.
pub(crate) fn all() -> Result<(), String> {
    missing(&ALL)?;
    libraries::install()
}

/// Makes sure that a Python environment is there, which only some commands need.
pub(crate) fn environment(environment: Environment) -> Result<(), String> {
    missing(&[Dependency::Python])?;
    libraries::install_python(environment)
}

/// Installs nothing: what the tests need and is missing, a line each, is the error.
pub(crate) fn nothing() -> Result<(), String> {
    let mut lines: Vec<String> = absent(&ALL).into_iter().map(Dependency::what_to_do).collect();
    lines.extend(libraries::missing());
    if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) }
}

/// The same for what is of use, but not needed: what can't be had is told, and no more.
pub(crate) fn if_possible(needs: &[Dependency]) {
    for need in needs {
        if let Err(why) = missing(&[*need]) {
            eprintln!("{why}");
        }
    }
}

fn absent(needs: &[Dependency]) -> Vec<Dependency> {
    needs.iter().copied().filter(|need| !need.is_there()).collect()
}

fn what_to_do(missing: &[Dependency]) -> String {
    let lines: Vec<String> = missing.iter().map(|need| need.what_to_do()).collect();
    lines.join("\n")
}

fn runs(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    let status = command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_asked_for_in_one_line() {
        let all = [&ALL[..], &PEERS].concat();
        let said = what_to_do(&all);
        assert_eq!(said.lines().count(), all.len(), "{said}");
        for (need, line) in all.iter().zip(said.lines()) {
            let [what, wanted] = match need {
                Dependency::Server(Flavor::Redis) => ["redis-server", "Redis 7.0"],
                Dependency::Server(Flavor::Valkey) => ["valkey-server", "Valkey 7.2"],
                Dependency::Libclang => ["libclang", "libclang with its headers"],
                Dependency::Python => ["python3 with pip", "Python 3.10 or later"],
                Dependency::Node => ["node with npm", "Node 18 or later"],
                Dependency::Browser => ["chromium with chromedriver", "Chromium with its driver"],
                Dependency::Tmux => ["tmux", "tmux 3.0 or later"],
                Dependency::Etcd => ["etcd with protoc", "etcd 3.4 or later"],
                Dependency::Postgres => ["postgres", "PostgreSQL 15 or later"],
                Dependency::PgBouncer => ["pgbouncer", "pgbouncer 1.18 or later"],
                Dependency::Curl => ["curl", "curl 7.82 or later"],
            };
            assert!(line.starts_with(&format!("{what} is missing: ")), "{line}");
            assert!(line.contains(&format!("on Debian, or install {wanted}")), "{line}");
        }
    }
}
