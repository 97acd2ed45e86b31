//! Lock clients that are not ours: the libraries that people have, and small ones that follow a
//! published protocol to the letter, with its faults. Each program runs several clients, which take
//! turns on the same locks and note them, or one that does what it is told.
//!
//! ```text
//!   ForeignClients ──ForeignConfig──▶ python3, node ──▶ servers      n clients for some seconds
//!      └── turns() ◀── one TurnRecord per line
//!   Puppet ──order──▶ python3, node ──▶ servers                      one client, one order at a time
//!      └── answer ◀──
//! ```
//!
//! The programs are in `foreign/`. What they share is `foreign/turns.py`.

mod puppet;

use std::fmt;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;
use tempfile::TempDir;

use crate::process::Process;
use crate::turns::TurnRecord;
use crate::{PATIENCE, SetupError, clients, watchdog};

pub use puppet::Puppet;

/// Which clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignKind {
    /// redis-py's `Lock`: the key is the lock's name.
    Plain,
    /// python-redis-lock's `Lock`: `lock:`, and `lock-signal:` on which it blocks.
    PythonRedisLock,
    /// redlock-py over all servers.
    RedlockPy,
    /// node-redlock over all servers.
    RedlockJs,
    /// The fair queue mutex: `lock:`, `lock-queue:` and `lock-notify:`. Who has to wait may wait for a
    /// TTL, whatever happens in it.
    FairQueue,
    /// redturn: a list of requests, whose head holds the lock.
    Redturn,
    /// A sorted set of mutexes.
    ZMutex,
}

impl ForeignKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Plain,
        Self::PythonRedisLock,
        Self::RedlockPy,
        Self::RedlockJs,
        Self::FairQueue,
        Self::Redturn,
        Self::ZMutex,
    ];

    /// The name of its program.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Plain => "plain.py",
            Self::PythonRedisLock => "python_redis_lock.py",
            Self::RedlockPy => "redlock.py",
            Self::RedlockJs => "redlock.js",
            Self::FairQueue => "fairqueue.py",
            Self::Redturn => "redturn.py",
            Self::ZMutex => "zmutex.py",
        }
    }

    /// It is about to run.
    fn command(self, config: &ForeignConfig, interactive: bool) -> Result<Command, SetupError> {
        let python = |program: &str| concat(include_str!("foreign/turns.py"), program);
        let args = [config.as_argument(interactive)?];
        match self {
            Self::Plain => clients::python(&python(include_str!("foreign/plain.py")), args),
            Self::PythonRedisLock => {
                clients::python(&python(include_str!("foreign/python_redis_lock.py")), args)
            }
            Self::RedlockPy => clients::python(&python(include_str!("foreign/redlock.py")), args),
            Self::RedlockJs => clients::node(include_str!("foreign/redlock.js"), args),
            Self::FairQueue => clients::python(&python(include_str!("foreign/fairqueue.py")), args),
            Self::Redturn => clients::python(&python(include_str!("foreign/redturn.py")), args),
            Self::ZMutex => clients::python(&python(include_str!("foreign/zmutex.py")), args),
        }
    }
}

impl fmt::Display for ForeignKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program())
    }
}

fn concat(one: &str, other: &str) -> String {
    format!("{one}\n{other}")
}

/// What a program is to do. All of it is written down for it as it stands here.
#[derive(Clone, Debug, Serialize)]
pub struct ForeignConfig {
    /// What its clients are called: `who-0`, `who-1` and so on.
    pub who: String,
    /// The servers. The Redlock kinds use all, the others the first.
    pub urls: Vec<String>,
    /// The locks. Each turn is on one of them, at random. One `orders` by default.
    pub locks: Vec<String>,
    /// How many clients. Four by default.
    pub clients: usize,
    /// For how long turns begin. Two seconds by default.
    pub seconds: f64,
    /// How long a lock is taken for, and the timeout of a set of mutexes. Five seconds by default.
    pub ttl_ms: u64,
    /// How long a turn takes on average: at random, up to twice as long. Five by default.
    pub hold_ms: u64,
    /// The longest pause between two turns of one client. Five by default.
    pub think_ms: u64,
    /// How long who polls waits before it looks again, if not for as long as the library has it: 100
    /// for redis-py, 200 for both Redlocks, 1000 for a sorted set.
    pub retry_ms: Option<u64>,
    /// The mutexes of a sorted set, which are created. One `a` by default.
    pub members: Vec<String>,
    /// Releases a mutex of a sorted set by removing it, and creates it again.
    pub remove: bool,
    /// By how much the clients' clock is ahead, which is all that a sorted set is judged by.
    pub clock_ms: i64,
    /// Behaves as the library that people have, where that differs from the document: redturn.ts,
    /// amphp/redis, zmutexset.py. Its program names each difference.
    pub shipped: bool,
}

impl ForeignConfig {
    /// Four clients, called `who-0` to `who-3`, on one lock for two seconds.
    pub fn new(who: &str, urls: impl IntoIterator<Item = String>) -> Self {
        Self {
            who: who.to_owned(),
            urls: urls.into_iter().collect(),
            locks: vec!["orders".to_owned()],
            clients: 4,
            seconds: 2.0,
            ttl_ms: 5_000,
            hold_ms: 5,
            think_ms: 5,
            retry_ms: None,
            members: vec!["a".to_owned()],
            remove: false,
            clock_ms: 0,
            shipped: false,
        }
    }

    /// The names of all clients.
    pub fn everyone(&self) -> Vec<String> {
        (0..self.clients).map(|number| format!("{}-{number}", self.who)).collect()
    }

    fn as_argument(&self, interactive: bool) -> Result<String, SetupError> {
        #[derive(Serialize)]
        struct Argument<'a> {
            #[serde(flatten)]
            config: &'a ForeignConfig,
            interactive: bool,
        }
        Ok(serde_json::to_string(&Argument { config: self, interactive })
            .map_err(std::io::Error::from)?)
    }
}

/// Clients that take turns for a while. Dropping it kills them.
#[derive(Debug)]
pub struct ForeignClients {
    kind: ForeignKind,
    seconds: f64,
    process: Process,
    folder: TempDir,
}

impl ForeignClients {
    /// Starts them.
    ///
    /// # Errors
    ///
    /// [`SetupError::NoEnvironment`] if the libraries were not installed.
    pub fn start(kind: ForeignKind, config: &ForeignConfig) -> Result<Self, SetupError> {
        let folder = folder()?;
        let stdout = File::create(folder.path().join("turns"))?;
        let stderr = File::create(folder.path().join(COMPLAINTS))?;
        let command = kind.command(config, false)?;
        // It has nothing to read.
        let (process, _) = Process::spawn_apart(&command, stdout, stderr)?;
        Ok(Self { kind, seconds: config.seconds, process, folder })
    }

    /// What they noted until now.
    ///
    /// # Errors
    ///
    /// If that are no turns.
    pub fn so_far(&self) -> Result<Vec<TurnRecord>, SetupError> {
        let noted = fs::read_to_string(self.folder.path().join("turns"))?;
        // The last line may still be in the making.
        let lines = noted.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let turns: Result<_, _> = lines.map(serde_json::from_str).collect();
        Ok(turns.map_err(std::io::Error::from)?)
    }

    /// Waits for their end, and returns what they noted.
    ///
    /// # Errors
    ///
    /// [`SetupError::Failed`] if one of them did, which includes that it lost a lock before its time;
    /// [`SetupError::Patience`] if they don't come to an end.
    pub fn turns(self) -> Result<Vec<TurnRecord>, SetupError> {
        let deadline = Instant::now() + Duration::from_secs_f64(self.seconds) + PATIENCE;
        while !self.process.has_ended() {
            if Instant::now() >= deadline {
                let what = format!("the end of {}", self.kind);
                return Err(SetupError::Patience { what, last: complaints(self.folder.path()) });
            }
            sleep(Duration::from_millis(10));
        }
        if !self.process.succeeded() {
            let said = complaints(self.folder.path());
            return Err(SetupError::Failed { program: self.kind.program(), said });
        }
        self.so_far()
    }
}

/// The file with what went wrong.
const COMPLAINTS: &str = "complaints";

fn folder() -> Result<TempDir, SetupError> {
    Ok(tempfile::Builder::new().prefix("foreign-").tempdir_in(watchdog::folder()?)?)
}

fn complaints(folder: &Path) -> String {
    fs::read_to_string(folder.join(COMPLAINTS)).unwrap_or_else(|error| error.to_string())
}
