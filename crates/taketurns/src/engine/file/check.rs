//! Is this path a store of ours, or one to be? Asked before anything is written, so that whatever
//! else it is stays as it was.
//!
//! The file is never opened here but through SQLite: closing any other descriptor of it would drop
//! the POSIX locks that another connection of this process has on it.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::database::broken;
use crate::engine::EngineError;

/// `ttrn`: what the header of a store says it is.
pub(super) const APPLICATION_ID: i32 = 0x7474_726e;

/// What is at the path of a store.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PathState {
    Nothing,
    Store,
}

/// Looks at what is there without changing it.
pub(super) fn look(path: &Path) -> Result<PathState, EngineError> {
    let directory = directory_of(path);
    match directory.metadata() {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(broken(directory, "this is not a directory")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(broken(directory, "this directory is not there; make it first"));
        }
        Err(error) => return Err(broken(directory, error)),
    }
    local_file_system(directory)?;
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            Err(broken(path, "this is a directory; the store is a file"))
        }
        Ok(found) if found.is_file() => is_ours(path).map(|()| PathState::Store),
        Ok(_) => Err(broken(path, "this is not a regular file")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(PathState::Nothing),
        Err(error) => Err(broken(path, error)),
    }
}

/// Reads the first page, as it is and nothing else: no lock, no journal, no recovery.
fn is_ours(path: &Path) -> Result<(), EngineError> {
    let url = format!("{}?immutable=1", url_of(path));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let read = || -> rusqlite::Result<i32> {
        let connection = Connection::open_with_flags(&url, flags)?;
        connection.pragma_query_value(None, "application_id", |row| row.get(0))
    };
    match read() {
        Ok(APPLICATION_ID) => Ok(()),
        // Whether enough of it is there is for the real connection to say: it knows the journal.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => Ok(()),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) => {
            Err(broken(path, "it can't be opened: it may not be readable"))
        }
        _ => Err(broken(
            path,
            "this is not a taketurns store; it was left as it is. Name another path",
        )),
    }
}

/// The path as SQLite takes it with options behind it.
pub(super) fn url_of(path: &Path) -> String {
    let mut url = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        url.push_str(&format!("%{byte:02x}"));
    }
    url
}

/// The directory of a path; `.` for a bare name.
pub(super) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// File systems that reach over a network, or may, by the number that `statfs` gives.
const NETWORK: [(u32, &str); 15] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x5346_414f, "AFS"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x4750_4653, "GPFS"),
    (0x7461_636f, "OCFS2"),
    (0x786f_4256, "vboxsf"),
    // Whatever is behind it can't be seen from here; sshfs and virtiofs are.
    (0x6573_5546, "FUSE"),
];

/// SQLite's shared memory and file locks work between processes of one machine only.
fn refuse_network(directory: &Path, kind: u32) -> Result<(), EngineError> {
    match NETWORK.iter().find(|(magic, _)| *magic == kind) {
        Some((_, name)) => Err(broken(
            directory,
            format!(
                "this is on a file system that may be shared by machines ({name}), where file locks can't be relied on; \
                 use a local disk"
            ),
        )),
        None => Ok(()),
    }
}

#[cfg(target_os = "linux")]
fn local_file_system(directory: &Path) -> Result<(), EngineError> {
    let found = rustix::fs::statfs(directory).map_err(|error| broken(directory, error))?;
    refuse_network(directory, found.f_type as u32)
}

#[cfg(not(target_os = "linux"))]
fn local_file_system(directory: &Path) -> Result<(), EngineError> {
    Err(broken(directory, "the file engine needs Linux: its lease clock is that of the boot"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_refused_by_name() {
        let refused = refuse_network(Path::new("/mnt/share"), 0x6969).unwrap_err().to_string();
        assert!(refused.starts_with("/mnt/share: ") && refused.contains("NFS"), "{refused}");
        assert!(refuse_network(Path::new("/"), 0xef53).is_ok(), "ext4 is local");
    }
}
