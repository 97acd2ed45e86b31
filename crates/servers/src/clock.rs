//! A wall clock of its own for one process, which the test may set while it runs.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::process::Command;

use tempfile::TempDir;

use crate::Builder;

/// What the clock of a process is made of, and set by.
#[derive(Debug)]
pub struct Clock {
    folder: TempDir,
}

impl Clock {
    /// One that is ahead of the machine's by so many seconds, or behind it.
    ///
    /// # Errors
    ///
    /// If there is no C compiler. The linker of Rust is one.
    pub fn ahead(seconds: i64) -> io::Result<Self> {
        let clock = Self { folder: tempfile::tempdir()? };
        fs::write(clock.path("set-by"), seconds.to_ne_bytes())?;
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/clock.c");
        let mut cc = Command::new("cc");
        let built = cc.args(["-shared", "-fPIC", "-O1", "-o", &clock.path("clock.so"), source]);
        match built.status()?.success() {
            true => Ok(clock),
            false => Err(io::Error::other("cc could not build the clock")),
        }
    }

    /// Sets it forward or back, from what the machine's shows.
    ///
    /// # Errors
    ///
    /// If its file can't be written.
    pub fn set(&self, seconds: i64) -> io::Result<()> {
        let file = File::options().write(true).open(self.path("set-by"))?;
        file.write_all_at(&seconds.to_ne_bytes(), 0)
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
    pub fn clock(self, clock: &Clock) -> Self {
        clock.env().into_iter().fold(self, |builder, (name, value)| builder.env(name, value))
    }
}
