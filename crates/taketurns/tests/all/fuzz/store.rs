//! A store in a file as it was left, and asking what is left of it.

use std::fs;
use std::path::{Path, PathBuf};

use taketurns::engine::{
    AcquireRequest, Clock, Engine, EngineError, FileEngine, Owner, Pattern, Reply, Request, Wakes,
};
use taketurns::{Ask, ClientId, Label, Member, Name};
use tempfile::TempDir;

use crate::support::patience::soon;

/// Locks that one owner holds, and others wait for.
pub(crate) const HELD: [&str; 2] = ["held", "orders/42"];
/// More locks, enough to fill several pages of the file.
const MORE: usize = 40;

/// The bytes of a store: of its file, and of its journal.
#[derive(Clone)]
pub(crate) struct Files {
    pub(crate) file: Vec<u8>,
    pub(crate) journal: Vec<u8>,
}

pub(crate) fn journal_of(path: &Path) -> PathBuf {
    path.with_extension("db-wal")
}

impl Files {
    /// A directory of its own for them.
    pub(crate) fn put(&self) -> (TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("locks.db");
        fs::write(&path, &self.file).expect("writable");
        if !self.journal.is_empty() {
            fs::write(journal_of(&path), &self.journal).expect("writable");
        }
        (dir, path)
    }
}

/// A store in use: all of it in the journal, or all of it in the file.
pub(crate) async fn left_behind(in_file: bool) -> Files {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("locks.db");
    let engine = open(&path, 1).await.expect("a store");
    for lock in HELD {
        for owner in 1..4 {
            acquire(&engine, lock, owner).await.expect("it answers");
        }
    }
    let member = Member::new("b-1").expect("a name");
    engine.call(&name("pool"), Request::PoolAdd { member }).await.expect("it answers");
    for number in 0..MORE {
        acquire(&engine, &format!("a lock with a rather long name, {number}"), 1)
            .await
            .expect("it answers");
    }
    engine.close().await;
    drop(engine);
    if in_file {
        let database = rusqlite::Connection::open(&path).expect("SQLite");
        let moved = database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
        assert_eq!(moved, Ok(0), "nobody was in the way");
    }
    let read = |path: PathBuf| fs::read(path).unwrap_or_default();
    Files { file: read(path.clone()), journal: read(journal_of(&path)) }
}

pub(crate) async fn open(path: &Path, client: u64) -> Result<FileEngine, EngineError> {
    let (wakes, _) = Wakes::channel();
    let client = ClientId::from_bits(client);
    soon("it opens", FileEngine::open(path.to_owned(), Clock::System, client, wakes)).await
}

pub(crate) fn name(lock: &str) -> Name {
    Name::new(lock).expect("a name")
}

/// Acquires, or waits in line for longer than any test.
pub(crate) async fn acquire(
    engine: &FileEngine,
    lock: &str,
    owner: u128,
) -> Result<Reply, EngineError> {
    let request = AcquireRequest {
        owner: Owner::from_bits(owner),
        client: ClientId::from_bits(1),
        ask: Ask::Mutex,
        at_least_ms: 0,
        lease_ms: 86_400_000,
        waiter_lease_ms: Some(86_400_000),
        not_after_ms: u64::MAX,
        ballot: None,
        label: Label::default(),
    };
    let lock = name(lock);
    let call = engine.call(&lock, Request::Acquire(request));
    soon("it answers", call).await.map(|answer| answer.reply)
}

/// The names in a listing.
pub(crate) async fn list(engine: &FileEngine) -> Result<Vec<String>, EngineError> {
    let all = Pattern::new("*");
    let listed = soon("it answers", engine.list(&all, None, 1_000, 10)).await?;
    Ok(listed.into_iter().map(|(name, _)| name.to_string()).collect())
}

/// Uses a lock in every way, and answers whether each was an answer.
pub(crate) async fn use_it(engine: &FileEngine, lock: &str) -> Result<Reply, EngineError> {
    let reply = acquire(engine, lock, 9).await?;
    let name = name(lock);
    let (owner, member) = (Owner::from_bits(9), Member::new("m").expect("a name"));
    soon("it answers", engine.view(&name, 100)).await?;
    for request in [
        Request::Release { owner, bury_until_ms: 0, last_used: None },
        Request::Break { token: None, at_once: true },
        Request::PoolAdd { member },
        Request::Tick,
    ] {
        soon("it answers", engine.call(&name, request)).await?;
    }
    Ok(reply)
}

/// It says what is wrong, so that somebody can do something about it; and was surely not carried out.
pub(crate) fn is_clear(error: &EngineError) -> bool {
    let EngineError::Broken(why) = error else { return false };
    ["damaged", "corrupt", "not a taketurns store", "format"].iter().any(|word| why.contains(word))
}
