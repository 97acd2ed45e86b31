//! A path that can't be a store: one clear error, and what is there stays as it was.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use taketurns::{ErrorKind, Locks};
use tempfile::TempDir;

use super::{connect, directory};

/// Connecting fails with these words, and leaves the file as it was.
async fn refused(path: &Path, words: &str) {
    let before = fs::read(path).ok();
    let url = format!("file:{}", path.display());
    let error = taketurns::connect(&url).await.expect_err("not a store");
    assert_eq!(error.kind(), ErrorKind::Store, "{error}");
    assert!(error.to_string().contains(words), "{error}");
    assert_eq!(fs::read(path).ok(), before, "it was changed");
}

#[tokio::test]
async fn a_directory_is_refused() {
    let (dir, _) = directory();
    refused(dir.path(), "this is a directory").await;
}

#[tokio::test]
async fn a_path_in_no_directory_is_refused() {
    let (dir, _) = directory();
    refused(&dir.path().join("none/locks.db"), "this directory is not there").await;
    let file = dir.path().join("file");
    fs::write(&file, "x").expect("a file");
    refused(&file.join("locks.db"), "not a directory").await;
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let (_dir, path) = directory();
    for contents in [&b"hello"[..], b"", &[0; 4096]] {
        fs::write(&path, contents).expect("a file");
        refused(&path, "not a taketurns store").await;
    }
}

#[tokio::test]
async fn somebody_elses_database_is_refused() {
    let (_dir, path) = directory();
    let other = Connection::open(&path).expect("SQLite");
    other.execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)").expect("filled");
    drop(other);
    refused(&path, "not a taketurns store").await;
}

/// Moves all that is in the journal into the file.
fn empty_the_journal(path: &Path) {
    let database = Connection::open(path).expect("SQLite");
    let moved = database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
    assert_eq!(moved, Ok(0), "nobody was in the way");
}

#[tokio::test]
async fn a_store_that_was_cut_short_is_refused() {
    let (_dir, path) = directory();
    let locks = connect(&path).await;
    drop(locks.mutex("l").acquire().await.expect("free"));
    locks.close().await;
    empty_the_journal(&path);
    let whole = fs::read(&path).expect("readable");
    for keep in [whole.len() - 1, whole.len() - 4096, whole.len() / 2, 200] {
        fs::write(&path, &whole[..keep]).expect("writable");
        refused(&path, "cut short").await;
    }
    fs::write(&path, &whole[..50]).expect("writable");
    refused(&path, "not a taketurns store").await;
}

#[tokio::test]
async fn a_store_that_was_cut_short_is_refused_though_its_journal_is_whole() {
    let (_dir, path) = directory();
    let locks = connect(&path).await;
    for lock in 0..100 {
        drop(locks.mutex(format!("lock {lock}")).acquire().await.expect("free"));
    }
    locks.close().await;
    empty_the_journal(&path);
    let locks = connect(&path).await;
    drop(locks.mutex("lock 1").acquire().await.expect("free"));
    locks.close().await;
    let whole = fs::read(&path).expect("readable");
    fs::write(&path, &whole[..whole.len() / 2]).expect("writable");
    refused(&path, "cut short").await;
}

#[tokio::test]
async fn a_store_of_another_format_is_refused() {
    let (_dir, path) = directory();
    connect(&path).await.close().await;
    let database = Connection::open(&path).expect("SQLite");
    database.pragma_update(None, "user_version", 99).expect("writable");
    drop(database);
    refused(&path, "format 99").await;
}

/// A store with two locks. The test damages one of them in the database.
async fn with_a_good_and_a_bad_lock() -> (TempDir, PathBuf, Connection) {
    let (dir, path) = directory();
    let locks = connect(&path).await;
    drop(locks.mutex("good").acquire().await.expect("free"));
    drop(locks.mutex("bad").acquire().await.expect("free"));
    locks.close().await;
    let database = Connection::open(&path).expect("SQLite");
    (dir, path, database)
}

/// The other is not hidden by the damaged one, and can be used.
async fn shows_the_good_one(locks: &Locks) {
    let listed = locks.list("*").await.expect("it does not hide the others");
    assert_eq!(listed.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["good"]);
    drop(locks.mutex("good").acquire().await.expect("free"));
}

#[tokio::test]
async fn a_damaged_lock_is_an_error_of_that_lock_alone() {
    let (_dir, path, database) = with_a_good_and_a_bad_lock().await;
    for damage in ["x'ff00'", "x'01ffffffff'", "x'01'", "x''", "'text'", "7"] {
        let update = format!("UPDATE locks SET state = {damage} WHERE name = 'bad'");
        database.execute(&update, []).expect("writable");
        let locks = connect(&path).await;
        let error = locks.mutex("bad").acquire().await.expect_err("damaged");
        assert_eq!(error.kind(), ErrorKind::Store, "{error}");
        assert!(error.to_string().contains("damaged"), "{error}");
        shows_the_good_one(&locks).await;
        locks.close().await;
        let kept = format!("SELECT state = {damage} FROM locks WHERE name = 'bad'");
        let kept: bool = database.query_row(&kept, [], |row| row.get(0)).expect("there");
        assert!(kept, "the damaged row was written to");
    }
}

#[tokio::test]
async fn a_row_without_a_name_hides_no_other_lock_and_shuts_nobody_out() {
    let (_dir, path, database) = with_a_good_and_a_bad_lock().await;
    let mut called = "'bad'".to_owned();
    for name in ["x'ff'", "'a' || char(10)"] {
        // Opening the store looks for locks to forget.
        let update =
            format!("UPDATE locks SET name = {name}, forget_at_ms = 0 WHERE name = {called}");
        assert_eq!(database.execute(&update, []), Ok(1));
        called = name.to_owned();
        let locks = connect(&path).await;
        shows_the_good_one(&locks).await;
    }
}

#[tokio::test]
async fn a_lock_of_another_format_is_refused_and_left_as_it_is() {
    let (_dir, path) = directory();
    let locks = connect(&path).await;
    drop(locks.mutex("l").acquire().await.expect("free"));
    locks.close().await;
    let database = Connection::open(&path).expect("SQLite");
    let state = || database.query_row("SELECT state FROM locks", [], |row| row.get(0));
    let mut newer: Vec<u8> = state().expect("there");
    newer[0] += 1;
    database.execute("UPDATE locks SET state = ?1", [&newer]).expect("writable");
    let error = connect(&path).await.mutex("l").acquire().await.expect_err("of another format");
    assert!(error.to_string().contains("unknown format"), "{error}");
    assert_eq!(state().expect("there"), newer);
}

#[tokio::test]
async fn a_url_that_is_none_is_refused_without_repeating_what_may_be_a_secret() {
    let urls = ["", "locks.db", "file:", "file:/", "file:///", "file://host/x", "file:x?y=1"];
    for url in urls.into_iter().chain(["redis//:secret@host", "postgress://:secret@host", "nfs:/x"])
    {
        let error = taketurns::connect(url).await.expect_err("not a store");
        assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
