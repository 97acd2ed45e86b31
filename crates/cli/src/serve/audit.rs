//! The audit log: a line of JSON for each break that somebody asks for, and one for what became of it.
//!
//! The first is written before the lock is touched. If it can't be written, nothing is broken.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use serde::Serialize;
use taketurns::{Name, Token};

use super::address::Peer;
use super::poller::now_ms;
use crate::output::utc;

/// The file of the audit log. It is opened for each line, so that it can be rotated by renaming it.
pub(super) struct AuditLog(pub(super) PathBuf);

/// What somebody asks to be broken.
#[derive(Clone)]
pub(super) struct BreakOrder {
    pub(super) lock: Name,
    pub(super) why: String,
    pub(super) at_once: bool,
    pub(super) token: Option<Token>,
    pub(super) peer: Peer,
}

/// A line.
#[derive(Serialize)]
struct AuditLine<'a> {
    time: String,
    event: &'static str,
    lock: &'a str,
    peer: &'a str,
    why: &'a str,
    at_once: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
    /// How many holders it was taken from.
    #[serde(skip_serializing_if = "Option::is_none")]
    broken: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl AuditLog {
    /// Opens the file once, so that a wrong path is an error at the start.
    pub(super) fn new(path: PathBuf) -> io::Result<Self> {
        let log = Self(path);
        log.open()?;
        Ok(log)
    }

    /// Records that a break was asked for.
    pub(super) fn asked(&self, order: &BreakOrder) -> io::Result<()> {
        self.write(&AuditLine::new("asked", order))
    }

    /// Records what became of it.
    pub(super) fn ended(
        &self,
        order: &BreakOrder,
        outcome: &Result<u32, taketurns::Error>,
    ) -> io::Result<()> {
        let line = AuditLine::new("ended", order);
        self.write(&match outcome {
            Ok(broken) => AuditLine { broken: Some(*broken), ..line },
            Err(error) => AuditLine { error: Some(error.to_string()), ..line },
        })
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new().append(true).create(true).mode(0o600).open(&self.0)
    }

    /// One write, so that lines of several servers do not mix.
    fn write(&self, line: &AuditLine<'_>) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let mut file = self.open()?;
        file.write_all(&text)?;
        file.sync_data()
    }
}

impl<'a> AuditLine<'a> {
    fn new(event: &'static str, order: &'a BreakOrder) -> Self {
        let BreakOrder { lock, why, at_once, token, peer } = order;
        Self {
            time: utc(now_ms()),
            event,
            lock: lock.as_str(),
            peer: &peer.0,
            why,
            at_once: *at_once,
            token: token.map(Token::raw),
            broken: None,
            error: None,
        }
    }
}
