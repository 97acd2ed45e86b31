//! Histories in files: one event a line, in any order. A program that is killed may leave its last
//! line unfinished, which is no mistake.

use std::fmt;
use std::io::{self, BufRead, Write};

use crate::Event;

/// A line that is no event.
#[derive(Debug)]
pub struct Unreadable {
    /// Which line, from 1.
    pub line: usize,
    /// Why.
    pub why: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for Unreadable {}

/// Reads all events, and sorts them by time. Events of one time stay in their order.
///
/// # Errors
/// If a line is no event, unless it is the last one and has no end.
pub fn read(file: impl BufRead) -> Result<Vec<Event>, Unreadable> {
    let mut events: Vec<Event> = Vec::new();
    for (index, line) in file.split(b'\n').enumerate() {
        let unreadable = |why: String| Unreadable { line: index + 1, why };
        let line = line.map_err(|error| unreadable(error.to_string()))?;
        if line.is_empty() {
            continue;
        }
        match serde_json::from_slice(&line) {
            Ok(event) => events.push(event),
            Err(error) if error.is_eof() => {}
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
pub fn write(mut file: impl Write, events: &[Event]) -> io::Result<()> {
    for event in events {
        serde_json::to_writer(&mut file, event)?;
        file.write_all(b"\n")?;
    }
    Ok(())
}
