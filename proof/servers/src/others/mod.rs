//! Servers that are neither Redis nor Valkey: to measure their locks beside ours, and to show how what they
//! keep is fenced.

mod etcd;
mod objects;
mod postgres;

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::ports::{self, Port};
use crate::process::Process;
use crate::{PATIENCE, SetupError, watchdog};

pub use etcd::Etcd;
pub use objects::ObjectStore;
pub use postgres::Postgres;

/// A program that listens on a port of its own and keeps its files in a folder of its own. Dropping it
/// kills it and removes its files.
#[derive(Debug)]
struct Daemon {
    // Before the folder, or it would write into it again.
    process: Option<Process>,
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
        Ok(Self { process: None, port, folder })
    }

    fn port(&self) -> u16 {
        self.port.number()
    }

    fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// Starts it, and returns when it is ready.
    fn start(
        &mut self,
        program: &'static str,
        command: &Command,
        mut is_ready: impl FnMut() -> bool,
    ) -> Result<(), SetupError> {
        let log = self.dir().join("server.log");
        let process = Process::spawn(command, File::create(&log)?)?;
        let deadline = Instant::now() + PATIENCE;
        while !process.has_ended() {
            if is_ready() {
                self.process = Some(process);
                return Ok(());
            }
            if Instant::now() >= deadline {
                let what = format!("{program} at {} is ready", self.port());
                return Err(SetupError::Patience { what, last: String::new() });
            }
            sleep(Duration::from_millis(10));
        }
        Err(SetupError::Ended { program, said: last_lines(&log) })
    }
}

fn last_lines(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let log = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
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
