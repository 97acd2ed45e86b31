//! Records the history: each process writes its events to a file of its own.
//!
//! Every event is one write to the file, so a process that is killed loses no line that it has written,
//! and no other process has to mend one that it has not. [`HistoryReader`] reads what all have noted.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use taketurns_history::{EventKind, HistoryEvent};
use taketurns_servers::turns::now_us;

/// Where one process notes what happens.
#[derive(Debug)]
pub(crate) struct HistoryWriter(Mutex<File>);

impl HistoryWriter {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(Mutex::new(File::options().create(true).append(true).open(path)?)))
    }

    /// Notes something that happens now, and says when that was.
    pub(crate) fn note(&self, what: EventKind) -> u64 {
        let at_us = now_us();
        self.note_at(at_us, what);
        at_us
    }

    /// Notes something that happened, or will have happened, at this time.
    pub(crate) fn note_at(&self, at_us: u64, what: EventKind) {
        let mut line =
            serde_json::to_vec(&HistoryEvent { at_us, what }).expect("an event is plain data");
        line.push(b'\n');
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line).expect("the history can be written");
    }
}

/// What all processes have noted so far.
#[derive(Debug, Default)]
pub(crate) struct HistoryReader {
    /// In the order in which they were read.
    pub(crate) events: Vec<HistoryEvent>,
    /// How far each file was read.
    read: BTreeMap<PathBuf, u64>,
}

impl HistoryReader {
    /// Reads what is new in the files of a folder. A line that is not whole yet is left for later.
    pub(crate) fn read(&mut self, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let from = self.read.entry(path.clone()).or_default();
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(*from))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
            let events = taketurns_history::read(&bytes[..whole]);
            let unreadable = |error| io::Error::other(format!("{}: {error}", path.display()));
            self.events.extend(events.map_err(unreadable)?);
            *from += whole as u64;
        }
        Ok(())
    }

    /// All of it, in the order of time.
    pub(crate) fn sorted(&self) -> Vec<HistoryEvent> {
        let mut events = self.events.clone();
        events.sort_by_key(|event| event.at_us);
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_line_is_read_when_it_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("one.jsonl");
        let notes = HistoryWriter::open(&path).expect("a file");
        notes.note_at(2, EventKind::Calm);
        let whole = fs::read(&path).expect("a file");
        fs::write(folder.path().join("two.jsonl"), &whole[..whole.len() / 2]).expect("written");
        let mut gathering = HistoryReader::default();
        gathering.read(folder.path()).expect("readable");
        assert_eq!(gathering.events.len(), 1);
        fs::write(folder.path().join("two.jsonl"), &whole).expect("written");
        notes.note_at(1, EventKind::Forgot);
        gathering.read(folder.path()).expect("readable");
        let times: Vec<u64> = gathering.sorted().iter().map(|event| event.at_us).collect();
        assert_eq!(times, [1, 2, 2]);
    }
}
