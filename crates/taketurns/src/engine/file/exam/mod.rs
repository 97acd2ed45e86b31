//! Is a file fit to hold locks? Looks at it and its directory, and judges what was seen.
//!
//! The file is read through SQLite alone, for the reason that [`super::check`] gives, and nothing is
//! written: not even the files that SQLite puts beside a database that somebody writes to.

mod judge;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use rustix::fs::Access;

use super::OpenFile;
use super::check::{self, APPLICATION_ID, PathState, directory_of};
use crate::Error;
use crate::doctor::{Report, Subject};

/// The facts that the verdicts are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StoreFacts {
    path: PathBuf,
    directory: DirectoryFacts,
    /// Free on its disk for this user; `None` if that is not known.
    free_bytes: Option<u64>,
    /// `None` if it is not there yet.
    file: Option<FileFacts>,
    wakes: SocketFacts,
    /// The id of this boot can be read, which leases are tied to.
    boot_id: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct DirectoryFacts {
    mode: u32,
    /// By us.
    is_writable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FileFacts {
    mode: u32,
    is_writable: bool,
    content: Result<DatabaseFacts, String>,
}

/// What the database says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DatabaseFacts {
    application_id: i32,
    format: i64,
    /// Not known while nobody has it open: it is read without one then.
    journal: Option<String>,
    /// The first thing that SQLite finds wrong with it.
    damage: Option<String>,
    locks: i64,
    /// Those that somebody has used since this boot.
    of_this_boot: i64,
}

/// The sockets for wake-ups, beside the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SocketFacts {
    /// Addresses of sockets go through there.
    has_proc: bool,
    /// `None` if it is not there yet.
    directory: Option<SocketDirectory>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct SocketDirectory {
    is_directory: bool,
    /// Ours, or of the file's owner.
    is_trusted: bool,
    is_writable: bool,
}

/// Looks at the store of what follows `file:` in a URL.
pub(crate) fn examine(rest: &str) -> Result<Report, Error> {
    let path = OpenFile::new(rest)?.path;
    let store = format!("file:{}", path.display());
    // The same that keeps a client from opening it, in the same words.
    let refused = match check::look(&path) {
        Err(error) => Some(error.to_string()),
        Ok(PathState::Nothing | PathState::Store) => None,
    };
    let Some(facts) = look(&path) else {
        let found = refused.unwrap_or_else(|| "it can't be looked at".to_owned());
        let check = Subject::Directory.fail(
            directory_of(&path).display(),
            found,
            "make it: mkdir -p -m 700, as the user that is to have the locks",
        );
        return Ok(Report::new(store, false, vec![check]));
    };
    Ok(Report::new(store, true, judge::judge(&facts, refused.as_deref())))
}

/// `None` if there is no directory.
fn look(path: &Path) -> Option<StoreFacts> {
    let directory = directory_of(path);
    let found = fs::metadata(directory).ok().filter(fs::Metadata::is_dir)?;
    let space = rustix::fs::statvfs(directory).ok();
    // As the engine has it: the sockets lie beside the file itself.
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let file = fs::metadata(&real).ok();
    Some(StoreFacts {
        path: path.to_owned(),
        directory: DirectoryFacts {
            mode: found.permissions().mode(),
            is_writable: is_writable(directory),
        },
        free_bytes: space.map(|space| space.f_bavail.saturating_mul(space.f_frsize)),
        wakes: SocketFacts {
            has_proc: Path::new("/proc/self/fd").is_dir(),
            directory: wake(&real, file.as_ref()),
        },
        file: file.filter(fs::Metadata::is_file).map(|file| FileFacts {
            mode: file.permissions().mode(),
            is_writable: is_writable(&real),
            content: read(&real).map_err(|error| error.to_string()),
        }),
        boot_id: boot_id().is_some(),
    })
}

fn is_writable(path: &Path) -> bool {
    rustix::fs::access(path, Access::WRITE_OK).is_ok()
}

fn boot_id() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

fn wake(database: &Path, file: Option<&fs::Metadata>) -> Option<SocketDirectory> {
    let directory = super::wake_socket::directory(database);
    let found = fs::symlink_metadata(&directory).ok()?;
    let ours = rustix::process::geteuid().as_raw();
    Some(SocketDirectory {
        is_directory: found.is_dir(),
        is_trusted: found.uid() == ours || file.is_some_and(|file| file.uid() == found.uid()),
        is_writable: is_writable(&directory),
    })
}

/// Reads the database as it is. Without a journal beside it nobody writes to it now, and it is read without
/// one: else SQLite would make files.
fn read(path: &Path) -> rusqlite::Result<DatabaseFacts> {
    let mut journal = path.as_os_str().to_owned();
    journal.push("-wal");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let has_journal = Path::new(&journal).exists();
    let options = if has_journal { "" } else { "?immutable=1" };
    let connection =
        Connection::open_with_flags(format!("{}{options}", check::url_of(path)), flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(1))?;
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let (application_id, format) = (number("application_id")? as i32, number("user_version")?);
    let text = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, String>(0));
    let journal = if has_journal { Some(text("journal_mode")?) } else { None };
    let found = text("quick_check")?;
    let (mut locks, mut of_this_boot) = (0, 0);
    if application_id == APPLICATION_ID && found == "ok" {
        locks = connection.query_row("SELECT count(*) FROM locks", [], |row| row.get(0))?;
        of_this_boot = connection.query_row(
            "SELECT count(*) FROM locks JOIN boots ON boot = number WHERE boot_id = ?1",
            [boot_id().unwrap_or_default()],
            |row| row.get(0),
        )?;
    }
    let damage = (found != "ok").then_some(found);
    Ok(DatabaseFacts { application_id, format, journal, damage, locks, of_this_boot })
}
