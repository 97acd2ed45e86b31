//! Servers that are neither Redis nor Valkey: PostgreSQL, which is a store of ours as well, and others to measure
//! their locks beside ours and to show how what they keep is fenced.

mod etcd;
mod objects;
mod pgbouncer;
mod postgres;

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::ports::{self, Port};
use crate::process::Process;
use crate::{PATIENCE, SetupError, watchdog};

pub use etcd::Etcd;
pub use objects::ObjectStore;
pub use pgbouncer::PgBouncer;
pub use postgres::{Postgres, PostgresBuilder, PostgresDatabase, PostgresPair};

/// A program that listens on a port of its own and keeps its files in a folder of its own. Dropping it
/// kills it and removes its files.
#[derive(Debug)]
struct Daemon {
    // Before the folder, or it would write into it again.
    process: Mutex<Option<Process>>,
    port: Port,
    folder: TempDir,
}

impl Daemon {
    /// A port and an empty folder, and nothing that runs yet.
    fn prepare() -> Result<Self, SetupError> {
        let port = ports::reserve()?;
        let folder = tempfile::Builder::new()
            .prefix(&format!("{}-", port.number()))
            .tempdir_in(watchdog::folder()?)?;
        Ok(Self { process: Mutex::default(), port, folder })
    }

    fn port(&self) -> u16 {
        self.port.number()
    }

    fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// What it said, over all its starts.
    fn log(&self) -> String {
        let bytes = fs::read(self.dir().join("server.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts it, and returns when it is ready.
    fn start(
        &self,
        program: &'static str,
        command: &Command,
        is_ready: impl FnMut() -> bool,
    ) -> Result<(), SetupError> {
        self.start_with(Process::spawn, program, command, is_ready)
    }

    /// The same, started by that function.
    fn start_with(
        &self,
        spawn: fn(&Command, File) -> io::Result<Process>,
        program: &'static str,
        command: &Command,
        mut is_ready: impl FnMut() -> bool,
    ) -> Result<(), SetupError> {
        let log = self.dir().join("server.log");
        let output = File::options().create(true).append(true).open(&log)?;
        let process = spawn(command, output)?;
        let deadline = Instant::now() + PATIENCE;
        while !process.has_ended() {
            if is_ready() {
                *self.process() = Some(process);
                return Ok(());
            }
            if Instant::now() >= deadline {
                let what = format!("{program} at {} is ready", self.port());
                return Err(SetupError::Patience { what, last: String::new() });
            }
            sleep(Duration::from_millis(10));
        }
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let said = lines[lines.len().saturating_sub(20)..].join("\n");
        Err(SetupError::Ended { program, said })
    }
}

/// What a command says, if it succeeds.
fn said(program: &'static str, command: &mut Command) -> Result<String, SetupError> {
    let output = match command.output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(SetupError::NotInstalled(program));
        }
        output => output?,
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(SetupError::Failed { program, said });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
