//! Histories in files: one event a line, in any order. A program that is killed may leave its last
//! line unfinished, which is no mistake. Each process of a run may have a file of its own.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use crate::{EventKind, HistoryEvent};

/// A line that is no event.
#[derive(Debug)]
pub struct UnreadableLine {
    /// Which line, from 1.
    pub line: usize,
    /// Why.
    pub why: String,
}

impl fmt::Display for UnreadableLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for UnreadableLine {}

/// Why some files are no history.
#[derive(Debug)]
pub enum HistoryFileError {
    /// One can't be opened.
    Closed(PathBuf, io::Error),
    /// One has a line that is no event.
    Unreadable(PathBuf, UnreadableLine),
    /// None says how it begins.
    NoBeginning,
    /// Something is asked of a lock that the beginning does not name.
    UnknownLock(String),
}

impl fmt::Display for HistoryFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Unreadable(path, error) => write!(f, "{}, {error}", path.display()),
            Self::NoBeginning => f.write_str(
                "no event says how the history begins: is the file of the process that started it missing?",
            ),
            Self::UnknownLock(lock) => {
                write!(f, "an event names the lock {lock}, which the beginning of the history does not have")
            }
        }
    }
}

impl std::error::Error for HistoryFileError {}

/// Reads the files of one history, and puts them together.
///
/// # Errors
/// If one can't be read, or if what there is can't be judged.
pub fn read_all<P: AsRef<Path>>(paths: &[P]) -> Result<Vec<HistoryEvent>, HistoryFileError> {
    let mut events = Vec::new();
    for path in paths.iter().map(AsRef::as_ref) {
        let file =
            File::open(path).map_err(|error| HistoryFileError::Closed(path.to_owned(), error))?;
        let part = read(BufReader::new(file));
        events.extend(part.map_err(|error| HistoryFileError::Unreadable(path.to_owned(), error))?);
    }
    events.sort_by_key(|event: &HistoryEvent| event.at_us);
    let mut known: Option<BTreeSet<&str>> = None;
    for event in &events {
        if let EventKind::Begins { locks, .. } = &event.what {
            known.get_or_insert_default().extend(locks.iter().map(|lock| lock.name.as_str()));
        }
    }
    let known = known.ok_or(HistoryFileError::NoBeginning)?;
    for event in &events {
        match &event.what {
            EventKind::Asked { lock, .. } if !known.contains(lock.as_str()) => {
                return Err(HistoryFileError::UnknownLock(lock.clone()));
            }
            _ => {}
        }
    }
    Ok(events)
}

/// Reads all events, and sorts them by time. Events of one time stay in their order.
///
/// # Errors
/// If a line is no event, unless it is the last one and has no end.
pub fn read(mut file: impl BufRead) -> Result<Vec<HistoryEvent>, UnreadableLine> {
    let mut events: Vec<HistoryEvent> = Vec::new();
    let mut text = Vec::new();
    for line in 1.. {
        let unreadable = |why: String| UnreadableLine { line, why };
        text.clear();
        if file.read_until(b'\n', &mut text).map_err(|error| unreadable(error.to_string()))? == 0 {
            break;
        }
        let is_finished = text.ends_with(b"\n");
        if text.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice(&text) {
            Ok(event) => events.push(event),
            Err(error) if error.is_eof() && !is_finished => {}
            Err(error) => return Err(unreadable(error.to_string())),
        }
    }
    events.sort_by_key(|event| event.at_us);
    Ok(events)
}

/// Writes events.
///
/// # Errors
/// If they can't be written.
pub fn write(mut file: impl Write, events: &[HistoryEvent]) -> io::Result<()> {
    for event in events {
        serde_json::to_writer(&mut file, event)?;
        file.write_all(b"\n")?;
    }
    Ok(())
}
