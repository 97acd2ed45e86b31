//! The resources that the locks guard: for each lock one that checks tokens and one that does not. They live in
//! the parent process, behind a socket.
//!
//! ```text
//!   client ──{read,  op, key, token}──▶  both remember what this operation has seen
//!          ──{write, op, key, token}──▶  both are changed, the fenced one only by who is not stale
//! ```
//!
//! A write that undoes another's is what a lock is there to prevent. No lease can, if its holder is
//! stopped between its last look at it and the write; a fence does.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde::{Deserialize, Serialize};
use taketurns::Token;
use taketurns::fence::Fence;
use taketurns_history::EventKind;

use crate::notes::HistoryWriter;

/// What a client says in a line. The answer is an empty one.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ResourceAccess {
    pub(crate) op: u64,
    pub(crate) key: String,
    pub(crate) token: u64,
    pub(crate) write: bool,
}

/// Both resources of every lock, for as long as this lives.
#[derive(Debug)]
pub(crate) struct ResourceServer {
    path: PathBuf,
    ends: Arc<AtomicBool>,
}

#[derive(Debug)]
struct GuardedResources {
    fence: Fence,
    /// How often each was written to, with and without a fence.
    versions: Mutex<HashMap<String, [u64; 2]>>,
    /// What each operation has seen of it.
    seen: Mutex<HashMap<u64, [u64; 2]>>,
    notes: Arc<HistoryWriter>,
}

impl ResourceServer {
    /// Listens at this path.
    pub(crate) fn open(path: &Path, notes: Arc<HistoryWriter>) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        let things = Arc::new(GuardedResources {
            fence: Fence::new(),
            versions: Mutex::default(),
            seen: Mutex::default(),
            notes,
        });
        let ends = Arc::new(AtomicBool::new(false));
        let ended = ends.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let things = things.clone();
                // A client that is killed in the middle of a line ends its connection, and no more.
                thread::spawn(move || things.serve(&client));
            }
        });
        Ok(Self { path: path.to_owned(), ends })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ResourceServer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // It looks up when somebody calls.
        let _ = UnixStream::connect(&self.path);
    }
}

impl GuardedResources {
    fn serve(&self, client: &UnixStream) -> io::Result<()> {
        let mut answers = client;
        for line in BufReader::new(client).lines() {
            self.used(&serde_json::from_str(&line?)?);
            answers.write_all(b"\n")?;
        }
        Ok(())
    }

    fn used(&self, of: &ResourceAccess) {
        let token = Token::from_raw(of.token);
        // One at a time: what is noted is in the order in which it happened.
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let admitted = self.fence.admit(&of.key, token).is_ok();
        let now = versions.entry(of.key.clone()).or_default();
        if !of.write {
            seen.insert(of.op, *now);
            return;
        }
        let Some(before) = seen.remove(&of.op) else { return };
        for (fenced, index) in [(true, 0), (false, 1)] {
            let accepted = !fenced || admitted;
            let stale = now[index] != before[index];
            if accepted {
                now[index] += 1;
            }
            self.notes.note(EventKind::Wrote { op: of.op, fenced, accepted, stale });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_late_write_is_kept_from_the_fenced_one_and_hurts_the_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, socket) = (folder.path().join("notes"), folder.path().join("socket"));
        let notes = Arc::new(HistoryWriter::open(&path).expect("a file"));
        let resources = ResourceServer::open(&socket, notes).expect("a socket");
        let mut client = UnixStream::connect(resources.path()).expect("it listens");
        let mut answers = BufReader::new(client.try_clone().expect("a socket"));
        let mut say = |op, token, write| {
            let of = ResourceAccess { op, key: "till".to_owned(), token, write };
            let line = serde_json::to_string(&of).expect("plain") + "\n";
            client.write_all(line.as_bytes()).expect("it listens");
            answers.read_line(&mut String::new()).expect("an answer");
        };
        say(1, 10, false);
        say(2, 20, false);
        say(2, 20, true);
        say(1, 10, true);
        let events = taketurns_history::read(BufReader::new(fs::File::open(path).expect("notes")));
        let whats: Vec<EventKind> =
            events.expect("events").into_iter().map(|event| event.what).collect();
        let wrote = |op, fenced, accepted, stale| EventKind::Wrote { op, fenced, accepted, stale };
        assert_eq!(
            whats,
            [
                wrote(2, true, true, false),
                wrote(2, false, true, false),
                wrote(1, true, false, true),
                wrote(1, false, true, true),
            ]
        );
    }
}
