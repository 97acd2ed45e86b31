//! Files.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use taketurns::doctor::Level;
use tempfile::TempDir;

use super::{bad, block_on, examined, is};

/// The path of a store that was used, in a directory of its own.
fn used() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("locks.db");
    block_on(async {
        let locks = taketurns::connect(&url(&path)).await.expect("a store");
        locks.mutex("door").acquire().await.expect("free").release().await.expect("held");
    });
    (directory, path)
}

fn url(path: &Path) -> String {
    format!("file:{}", path.display())
}

/// Everything in a directory, with its bytes.
fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(directory).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut all: Vec<_> =
        paths.map(|path| (path.clone(), fs::read(path).unwrap_or_default())).collect();
    all.sort();
    all
}

#[test]
fn a_store_is_well_before_and_after_its_first_use_and_stays_as_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    // Too long for the address of a socket, if that were the path.
    let deep = directory.path().join("x".repeat(120));
    fs::create_dir(&deep).expect("made");
    let report = examined(&url(&deep.join("locks.db")));
    assert!(bad(&report).is_empty(), "{report:#?}");
    assert_eq!(fs::read_dir(&deep).expect("a directory").count(), 0, "nothing was made");

    let (directory, path) = used();
    // SQLite notes in its shared memory who reads; what is in it is nobody's data.
    let data = |all: Vec<(PathBuf, Vec<u8>)>| -> Vec<_> {
        all.into_iter().filter(|(path, _)| !path.ends_with("locks.db-shm")).collect()
    };
    let before = data(contents(directory.path()));
    let report = examined(&url(&path));
    assert!(bad(&report).is_empty(), "{report:#?}");
    let node = path.display().to_string();
    is(&report, &node, "locks", Level::Ok, "1, 1 of them used since this boot");
    assert_eq!(data(contents(directory.path())), before);
    // The journal was moved into the file, and nobody has it open.
    let connection = rusqlite::Connection::open(&path).expect("a database");
    let moved = "PRAGMA wal_checkpoint(TRUNCATE)";
    connection.query_row(moved, [], |_| Ok(())).expect("nobody else");
    drop(connection);
    let before = contents(directory.path());
    assert!(before.iter().all(|(path, _)| !path.ends_with("locks.db-wal")), "{before:?}");
    assert!(bad(&examined(&url(&path))).is_empty());
    assert_eq!(contents(directory.path()), before, "nothing was made");
}

#[test]
fn a_store_that_others_may_use_is_named() {
    let (directory, path) = used();
    let node = path.display().to_string();
    for (mode, may) in [(0o644, "release any lock"), (0o666, "grant itself any lock")] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("ours");
        is(&examined(&url(&path)), &node, "access", Level::Warn, may);
    }
    fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).expect("ours");
    let place = directory.path().display().to_string();
    is(&examined(&url(&path)), &place, "directory", Level::Warn, "anybody can replace the file");
}

#[test]
fn a_damaged_store_is_named_and_so_is_one_of_another_format() {
    let (_directory, path) = used();
    let node = path.display().to_string();
    let connection = rusqlite::Connection::open(&path).expect("a database");
    connection.pragma_update(None, "user_version", 99).expect("written");
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("nobody else");
    drop(connection);
    is(&examined(&url(&path)), &node, "format", Level::Fail, "99");
    let mut bytes = fs::read(&path).expect("a file");
    let half = bytes.len() / 2;
    bytes[4_096..].fill(0xaa);
    fs::write(&path, &bytes).expect("written");
    assert!(half > 4_096);
    let report = examined(&url(&path));
    assert_eq!(super::check(&report, &node, "integrity").level, Level::Fail, "{report:#?}");
}

#[test]
fn what_is_no_store_is_named_and_a_directory_that_is_not_there_is_out_of_reach() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("notes.txt");
    fs::write(&path, "not a database, but something that somebody wrote").expect("written");
    let report = examined(&url(&path));
    is(&report, &path.display().to_string(), "file", Level::Fail, "not a taketurns store");
    let nowhere = directory.path().join("no").join("locks.db");
    let report = examined(&url(&nowhere));
    let place = directory.path().join("no").display().to_string();
    is(&report, &place, "directory", Level::Fail, "is not there");
    assert!(!report.reached);
}

#[test]
fn a_directory_of_sockets_that_is_none_is_named() {
    let (_directory, path) = used();
    let wake = PathBuf::from(format!("{}-wake", path.display()));
    fs::remove_dir_all(&wake).expect("made before");
    fs::write(&wake, "").expect("in its place");
    let node = path.display().to_string();
    is(&examined(&url(&path)), &node, "wake-ups", Level::Warn, "no directory");
}
