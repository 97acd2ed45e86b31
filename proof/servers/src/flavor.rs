//! Which of the two servers: their names, and whether they are installed.

use std::env;
use std::fmt;

/// Redis or Valkey. Every test of an engine runs on both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flavor {
    /// `redis-server`, 7.0 or later.
    Redis,
    /// `valkey-server`, any version.
    Valkey,
}

impl Flavor {
    /// Both, for tests that go through them.
    pub const ALL: [Self; 2] = [Self::Redis, Self::Valkey];

    /// The name of the program. A sentinel is the same program, told so.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Redis => "redis-server",
            Self::Valkey => "valkey-server",
        }
    }

    /// The name of its program for people, which is installed with it.
    pub const fn client(self) -> &'static str {
        match self {
            Self::Redis => "redis-cli",
            Self::Valkey => "valkey-cli",
        }
    }

    pub(crate) const fn oldest(self) -> &'static str {
        match self {
            Self::Redis => "Redis 7.0",
            Self::Valkey => "Valkey 7.2",
        }
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redis => "Redis",
            Self::Valkey => "Valkey",
        })
    }
}

/// With this variable set no server counts as installed: for a run of tests that need none.
pub const NO_SERVERS: &str = "TAKETURNS_NO_SERVERS";

/// Is the program on the path? Its version is not looked at.
pub fn installed(flavor: Flavor) -> bool {
    if env::var_os(NO_SERVERS).is_some() {
        return false;
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(flavor.program()).is_file())
}
