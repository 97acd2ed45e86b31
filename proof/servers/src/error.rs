//! What can go wrong with a server, in one enum.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::Flavor;
use crate::clients::Environment;

/// Why a server, or a set of them, is not as asked.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The program is not on the path.
    #[error(
        "{} is missing: `cargo xtask test` installs it on Debian, or install {} or later",
        .0.program(),
        .0.oldest()
    )]
    Missing(Flavor),
    /// The program of another server is not there.
    #[error("{0} is missing: `cargo xtask bench` installs it on Debian")]
    NotInstalled(&'static str),
    /// The libraries of a language were not installed.
    #[error("the {} libraries are missing ({}): `cargo xtask test` installs them", .0.name, .0)]
    NoEnvironment(Environment),
    /// There is no such module.
    #[error("{} is missing; build it: cargo build -p taketurns-module", .0.display())]
    NoModule(PathBuf),
    /// The native part of a package for another language was not built.
    #[error("{} is missing; build it: cargo build -p {_0}", .1.display())]
    NoPackage(&'static str, PathBuf),
    /// It ended before it could be used. What it said last is part of the message.
    #[error("{program} ended at once, and said last:\n{said}")]
    Ended {
        /// The program's name.
        program: &'static str,
        /// The last lines of its log.
        said: String,
    },
    /// It ran, and something went wrong. What it said about that is part of the message.
    #[error("{program} failed, and said:\n{said}")]
    Failed {
        /// The program's name.
        program: &'static str,
        /// All that it complained of.
        said: String,
    },
    /// A condition did not come true in [`PATIENCE`](crate::PATIENCE).
    #[error("{what}: not so after {} s{last}", crate::PATIENCE.as_secs())]
    Patience {
        /// What was waited for.
        what: String,
        /// What was seen instead, if known.
        last: String,
    },
    /// A server refused a command that should have worked.
    #[error("`{command}` was refused: {reply}")]
    Refused {
        /// The command, its words separated by spaces.
        command: String,
        /// The reply.
        reply: String,
    },
    /// No server of the set answers.
    #[error("no {0} answers")]
    NoneAnswers(&'static str),
    /// Certificates could not be made.
    #[cfg(feature = "tls")]
    #[error("a certificate can't be made: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A file, a process or a connection.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The message, since tests `expect`, which shows this.
impl fmt::Debug for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
