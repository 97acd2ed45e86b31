//! The database file: making it, opening it, and what its errors mean.

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};

use super::check::APPLICATION_ID;
use crate::engine::EngineError;

/// The version of the tables is that of the stored lock. Another one is refused, not guessed at.
pub(super) use crate::engine::stored::VERSION;

/// How often a writer tries for the database before it counts as out of reach: some five seconds.
const BUSY_TRIES_MAX: i32 = 5_000;

const DAMAGED: &str = "the store is damaged or was cut short; it was left as it is. If nobody uses it \
    move it away, and a new one is made";

const TABLES: &str = "
    CREATE TABLE boots (number INTEGER PRIMARY KEY, boot_id TEXT NOT NULL UNIQUE);
    CREATE TABLE locks (
        name         TEXT PRIMARY KEY,
        boot         INTEGER NOT NULL,  -- leases of another boot are over
        forget_at_ms INTEGER,           -- wall clock; null: never
        state        BLOB NOT NULL      -- a version byte, then the snapshot
    ) WITHOUT ROWID;
    CREATE INDEX locks_to_forget ON locks (forget_at_ms) WHERE forget_at_ms IS NOT NULL;
";

/// Makes the whole database under another name and then gives it its own, so that nobody ever sees
/// half of one, and of several processes that do this at once one wins.
pub(super) fn create(path: &Path) -> Result<(), EngineError> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{:016x}.new", crate::random::bits64()));
    let draft = PathBuf::from(name);
    // The owners in it are secrets.
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft);
    opened.map_err(|error| broken(path, error))?;
    let made = fill(&draft).map_err(|error| at(path, error)).and_then(|()| {
        match fs::hard_link(&draft, path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                Err(broken(path, error))
            }
            _ => Ok(()),
        }
    });
    let _ = fs::remove_file(&draft);
    made
}

fn fill(draft: &Path) -> rusqlite::Result<()> {
    let connection = Connection::open(draft)?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", VERSION)?;
    connection.execute_batch(TABLES)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // Closing moves all of it into the one file.
    connection.close().map_err(|(_, error)| error)
}

pub(super) fn connect(path: &Path) -> Result<Connection, EngineError> {
    let connection = open(path).map_err(|error| at(path, error))?;
    if connection.is_readonly("main").map_err(engine_error)? {
        return Err(broken(
            path,
            "the file can't be written to: it may not be yours, or be damaged",
        ));
    }
    if !is_whole(&connection, path).map_err(|error| at(path, error))? {
        return Err(broken(path, DAMAGED));
    }
    let version = connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    let version = version.map_err(|error| at(path, error))?;
    if version != i64::from(VERSION) {
        return Err(broken(
            path,
            format!(
                "the store has format {version}, this program format {VERSION}; use the same release \
                 everywhere, or another file (and remove this one once nobody uses it)"
            ),
        ));
    }
    Ok(connection)
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_handler(Some(wait_for_writer))?;
    // The journal stays for the next process: moving it at every end costs more than reading it.
    // Besides, a file that turns out damaged must not be written to on the way out.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    Ok(connection)
}

/// Is all of the database there? A file that is shorter than the database is usual, since what was
/// added last is in the journal, but then it is looked at in full.
fn is_whole(connection: &Connection, path: &Path) -> rusqlite::Result<bool> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let bytes_of = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
    let page_bytes = number("page_size")? as u64;
    let bytes = number("page_count")? as u64 * page_bytes;
    let found = bytes_of(path);
    if found >= bytes {
        return Ok(true);
    }
    let mut journal = path.as_os_str().to_owned();
    journal.push("-wal");
    if !found.is_multiple_of(page_bytes) && bytes_of(Path::new(&journal)) == 0 {
        return Ok(false);
    }
    connection.pragma_query_value(None, "quick_check", |row| Ok(row.get::<_, String>(0)? == "ok"))
}

/// Whether a connection waits while another one writes. If not, it fails at once.
pub(super) fn set_patience(connection: &mut Connection, waits: bool) -> Result<(), EngineError> {
    let handler: Option<fn(i32) -> bool> = if waits { Some(wait_for_writer) } else { None };
    connection.busy_handler(handler).map_err(engine_error)
}

/// A transaction that may write. It is rolled back unless it is committed, also by a panic. Its statements are cached,
/// unlike those of [`rusqlite::Transaction`].
pub(super) struct WriteTransaction<'a> {
    connection: &'a Connection,
}

impl<'a> WriteTransaction<'a> {
    pub(super) fn begin(connection: &'a Connection) -> Result<Self, EngineError> {
        run(connection, "BEGIN IMMEDIATE").map_err(engine_error)?;
        Ok(Self { connection })
    }

    pub(super) fn commit(self) -> Result<(), EngineError> {
        run(self.connection, "COMMIT").map_err(engine_error)
    }
}

impl Drop for WriteTransaction<'_> {
    fn drop(&mut self) {
        if !self.connection.is_autocommit() {
            let _ = run(self.connection, "ROLLBACK");
        }
    }
}

fn run(connection: &Connection, statement: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(statement)?.execute([]).map(drop)
}

/// Copies the journal into the database, and begins a new one. Both wait for the disk: the first write to a new
/// journal does too, so it is made here. If somebody still reads the old journal, all this is left to a later time.
pub(super) fn checkpoint(connection: &Connection) -> Result<(), EngineError> {
    let (logged, copied) = connection
        .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
            Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        })
        .map_err(engine_error)?;
    if logged != copied {
        return Ok(());
    }
    connection.pragma_update(None, "user_version", VERSION).map_err(engine_error)
}

/// Transactions take some hundred microseconds, so another's is waited for in short steps.
fn wait_for_writer(tries: i32) -> bool {
    thread::sleep(if tries < 20 { Duration::from_micros(100) } else { Duration::from_millis(1) });
    tries < BUSY_TRIES_MAX
}

/// The number of this boot in this database. Rows that carry another are of processes long gone.
pub(super) fn boot_number(connection: &Connection) -> Result<i64, EngineError> {
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_err(|error| EngineError::Broken(format!("the boot id can't be read: {error}")))?;
    let boot_id = boot_id.trim();
    let known = || {
        connection
            .query_row("SELECT number FROM boots WHERE boot_id = ?1", [boot_id], |row| row.get(0))
            .optional()
            .map_err(engine_error)
    };
    if let Some(number) = known()? {
        return Ok(number);
    }
    connection
        .execute("INSERT OR IGNORE INTO boots (boot_id) VALUES (?1)", [boot_id])
        .map_err(engine_error)?;
    known()?.ok_or_else(|| corrupt("this boot is not in it"))
}

/// Which file it is, whatever it is called.
pub(super) fn identity(path: &Path) -> Result<(u64, u64), EngineError> {
    let found = fs::metadata(path).map_err(|error| broken(path, error))?;
    Ok((found.dev(), found.ino()))
}

/// What is wrong with the file, or with what is at its path.
pub(super) fn broken(path: &Path, why: impl Display) -> EngineError {
    EngineError::Broken(format!("{}: {why}", path.display()))
}

pub(super) fn corrupt(what: &str) -> EngineError {
    EngineError::Broken(format!("the store is damaged: {what}"))
}

/// What it means that the file at this path could not be opened or made.
fn at(path: &Path, error: rusqlite::Error) -> EngineError {
    if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) {
        return broken(path, DAMAGED);
    }
    match engine_error(error) {
        EngineError::Broken(why) => {
            broken(path, format_args!("{why}; is the disk full, or the file not yours?"))
        }
        other => other,
    }
}

/// SQLite rolls a failed transaction back, so nothing here is ever in doubt.
pub(super) fn engine_error(error: rusqlite::Error) -> EngineError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            EngineError::Unreachable("another process keeps the database busy".into())
        }
        Some(ErrorCode::DiskFull) => EngineError::Broken("the disk is full".into()),
        // SQLite can't read it, or a value is not of the type that we wrote. Our statements are always the
        // same: one that makes no sense meets tables that are not ours.
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown) | None => {
            corrupt(&error.to_string())
        }
        _ => EngineError::Broken(error.to_string()),
    }
}
