//! A wall clock of its own for one process, which the test may set while it runs. A PostgreSQL may have another one for
//! each database.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use crate::Builder;

/// The numbers in the file that sets a clock: see `clock.c`.
const AHEAD_S: usize = 0;
const STOPPED_US: usize = 1;
const DATABASES: usize = 2;
/// As many databases as may have a clock of their own at a time.
const DATABASES_MAX: usize = 255;

/// What the clock of a process is made of, and set by.
#[derive(Debug)]
pub struct ServerClock {
    folder: TempDir,
    /// The databases that have a clock of their own, each at the place of its numbers; 0 where there is none.
    databases: Mutex<[u32; DATABASES_MAX]>,
}

impl ServerClock {
    /// A clock that is ahead of the machine's by a number of seconds, or behind it.
    ///
    /// # Errors
    ///
    /// If there is no C compiler. The linker of Rust is one.
    pub fn ahead(seconds: i64) -> io::Result<Self> {
        let databases = Mutex::new([0; DATABASES_MAX]);
        let clock = Self { folder: tempfile::tempdir()?, databases };
        // A server that runs as another user has to pass through.
        fs::set_permissions(&clock.folder, Permissions::from_mode(0o711))?;
        fs::write(clock.path("set-by"), [0; (DATABASES + 2 * DATABASES_MAX) * size_of::<i64>()])?;
        clock.write(AHEAD_S, seconds)?;
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
        clock.write(STOPPED_US, machine_us()?)?;
        Ok(clock)
    }

    /// Sets it forward or back, from what the machine's shows, or from where it was stopped.
    ///
    /// # Errors
    ///
    /// If its file can't be written.
    pub fn set(&self, seconds: i64) -> io::Result<()> {
        self.write(AHEAD_S, seconds)
    }

    /// Lets so much time pass on a clock that was [stopped](Self::stopped).
    ///
    /// # Errors
    ///
    /// If its file can't be read or written.
    pub fn pass(&self, time: Duration) -> io::Result<()> {
        self.move_on(STOPPED_US, time)
    }

    /// Stops the clock of one database of a PostgreSQL, at what the machine's shows. Returns the clock's place.
    pub(crate) fn stop_database(&self, database: u32) -> io::Result<usize> {
        let mut databases = self.databases.lock().unwrap_or_else(PoisonError::into_inner);
        let free = databases.iter().position(|known| *known == 0);
        let free = free.ok_or_else(|| io::Error::other("too many clocks"))?;
        let place = DATABASES + 2 * free;
        // In this order, or for a moment it would show 0.
        self.write(place + 1, machine_us()?)?;
        self.write(place, i64::from(database))?;
        databases[free] = database;
        Ok(place)
    }

    /// Lets so much time pass in the database whose clock has this place.
    pub(crate) fn pass_in_database(&self, place: usize, time: Duration) -> io::Result<()> {
        self.move_on(place + 1, time)
    }

    /// The database is gone: another one may have its place.
    pub(crate) fn forget_database(&self, place: usize) -> io::Result<()> {
        self.write(place, 0)?;
        let mut databases = self.databases.lock().unwrap_or_else(PoisonError::into_inner);
        databases[(place - DATABASES) / 2] = 0;
        Ok(())
    }

    fn move_on(&self, at: usize, time: Duration) -> io::Result<()> {
        let mut shown = [0; size_of::<i64>()];
        let file = File::open(self.path("set-by"))?;
        file.read_exact_at(&mut shown, (at * size_of::<i64>()) as u64)?;
        let us = i64::try_from(time.as_micros()).map_err(io::Error::other)?;
        self.write(at, i64::from_ne_bytes(shown) + us)
    }

    fn write(&self, at: usize, number: i64) -> io::Result<()> {
        let file = File::options().write(true).open(self.path("set-by"))?;
        file.write_all_at(&number.to_ne_bytes(), (at * size_of::<i64>()) as u64)
    }

    /// The environment of a process that has this clock.
    pub fn env(&self) -> [(&'static str, String); 2] {
        [("LD_PRELOAD", self.path("clock.so")), ("CLOCK_SET_BY", self.path("set-by"))]
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

fn machine_us() -> io::Result<i64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
    i64::try_from(now.as_micros()).map_err(io::Error::other)
}

impl Builder {
    /// Its clock is this one.
    pub fn clock(self, clock: &ServerClock) -> Self {
        clock.env().into_iter().fold(self, |builder, (name, value)| builder.env(name, value))
    }
}
