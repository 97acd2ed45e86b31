//! A wall clock of its own for one process, which the test may set while it runs.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use crate::Builder;

/// What the clock of a process is made of, and set by.
#[derive(Debug)]
pub struct ServerClock {
    folder: TempDir,
}

impl ServerClock {
    /// A clock that is ahead of the machine's by a number of seconds, or behind it.
    ///
    /// # Errors
    ///
    /// If there is no C compiler. The linker of Rust is one.
    pub fn ahead(seconds: i64) -> io::Result<Self> {
        let clock = Self { folder: tempfile::tempdir()? };
        // A server that runs as another user has to pass through.
        fs::set_permissions(&clock.folder, Permissions::from_mode(0o711))?;
        fs::write(clock.path("set-by"), [seconds, 0].map(i64::to_ne_bytes).as_flattened())?;
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/clock.c");
        let mut cc = Command::new("cc");
        let built = cc.args(["-shared", "-fPIC", "-O1", "-o", &clock.path("clock.so"), source]);
        match built.status()?.success() {
            true => Ok(clock),
            false => Err(io::Error::other("cc could not build the clock")),
        }
    }

    /// One that stands still, at what the machine's shows: time passes when the test says so, however
    /// slow the machine is.
    ///
    /// # Errors
    ///
    /// As of [`Self::ahead`].
    pub fn stopped() -> io::Result<Self> {
        let clock = Self::ahead(0)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
        clock.write(1, i64::try_from(now.as_micros()).map_err(io::Error::other)?)?;
        Ok(clock)
    }

    /// Sets it forward or back, from what the machine's shows, or from where it was stopped.
    ///
    /// # Errors
    ///
    /// If its file can't be written.
    pub fn set(&self, seconds: i64) -> io::Result<()> {
        self.write(0, seconds)
    }

    /// Lets so much time pass on a clock that was [stopped](Self::stopped).
    ///
    /// # Errors
    ///
    /// If its file can't be read or written.
    pub fn pass(&self, time: Duration) -> io::Result<()> {
        let mut shown = [0; size_of::<i64>()];
        File::open(self.path("set-by"))?.read_exact_at(&mut shown, size_of::<i64>() as u64)?;
        let us = i64::try_from(time.as_micros()).map_err(io::Error::other)?;
        self.write(1, i64::from_ne_bytes(shown) + us)
    }

    fn write(&self, at: u64, number: i64) -> io::Result<()> {
        let file = File::options().write(true).open(self.path("set-by"))?;
        file.write_all_at(&number.to_ne_bytes(), at * size_of::<i64>() as u64)
    }

    /// The environment of a process that has this clock.
    pub fn env(&self) -> [(&'static str, String); 2] {
        [("LD_PRELOAD", self.path("clock.so")), ("CLOCK_SET_BY", self.path("set-by"))]
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

impl Builder {
    /// Its clock is this one.
    pub fn clock(self, clock: &ServerClock) -> Self {
        clock.env().into_iter().fold(self, |builder, (name, value)| builder.env(name, value))
    }
}
