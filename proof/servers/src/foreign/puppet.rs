//! One foreign client that does what it is told, for a test that tells a story in order.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

use super::{COMPLAINTS, ForeignConfig, ForeignKind, complaints, folder};
use crate::process::Process;
use crate::{PATIENCE, SetupError};

/// A client that waits for orders. Dropping it kills it, as a crash would.
///
/// An order is an object with `do` and what that needs; `lock` is the lock's name. The answer says
/// `ok`, and `error` if something was raised. Waiting ends after `wait_ms`, which is 0 by default.
///
/// ```text
///   plain.py      acquire lock wait_ms ttl_ms?   → ok, token     extend lock ttl_ms   release lock
///   python_redis_lock.py   acquire lock wait_ms  → ok            release lock
///   redlock.py    acquire lock wait_ms ttl_ms?   → ok, token     release lock
///   redlock.js    acquire lock wait_ms ttl_ms?   → ok, token     extend lock ttl_ms   release lock
///   fairqueue.py  lock lock wait_ms token?       → ok, token     unlock lock token?
///   redturn.py    wait lock wait_ms ttl_ms?      → ok, id        signal lock id
///   zmutex.py     acquire lock member? wait_ms   → ok, member, score
///                 update lock member score       → ok, member, score
///                 release lock member score remove?
///                 create, delete lock member     stale lock      → members
/// ```
///
/// Where it can't be spoken to, the methods panic with what it complained of: that is a fault of the
/// program or of the test, not a case to handle.
#[derive(Debug)]
pub struct Puppet {
    kind: ForeignKind,
    process: Process,
    orders: ChildStdin,
    answers: Receiver<io::Result<String>>,
    folder: TempDir,
}

impl Puppet {
    /// Starts one. The number of clients, the seconds, `hold_ms` and `think_ms` mean nothing to it.
    ///
    /// # Errors
    ///
    /// [`SetupError::NoEnvironment`] if the libraries were not installed.
    pub fn start(kind: ForeignKind, config: &ForeignConfig) -> Result<Self, SetupError> {
        let folder = folder()?;
        let stderr = File::create(folder.path().join(COMPLAINTS))?;
        let (output, stdout) = io::pipe()?;
        let stdout = File::from(OwnedFd::from(stdout));
        let (process, orders) = Process::spawn_apart(&kind.command(config, true)?, stdout, stderr)?;
        let (send, answers) = channel();
        thread::Builder::new().name("puppet".to_owned()).spawn(move || {
            // Ends with the program, or when nobody listens.
            BufReader::new(output).lines().all(|line| send.send(line).is_ok());
        })?;
        Ok(Self { kind, process, orders, answers, folder })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Gives an order, and returns the answer.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[track_caller]
    pub fn ask(&mut self, order: Value) -> Value {
        self.tell(order);
        self.answer()
    }

    /// Gives an order. It is carried out when those before it were.
    ///
    /// # Panics
    ///
    /// If it has ended.
    #[track_caller]
    pub fn tell(&mut self, order: Value) {
        if let Err(error) = self.orders.write_all(format!("{order}\n").as_bytes()) {
            panic!("{} takes no orders: {error}\n{}", self.kind, complaints(self.folder.path()));
        }
    }

    /// The answer to the oldest order that has none.
    ///
    /// # Panics
    ///
    /// If there is none in [`PATIENCE`].
    #[track_caller]
    pub fn answer(&mut self) -> Value {
        let answer = self.answers.recv_timeout(PATIENCE).map_err(io::Error::other).flatten();
        match answer.and_then(|answer| Ok(serde_json::from_str(&answer)?)) {
            Ok(answer) => answer,
            Err(error) => {
                panic!("{} does not answer: {error}\n{}", self.kind, complaints(self.folder.path()))
            }
        }
    }
}
