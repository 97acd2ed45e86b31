//! Exit codes, and the one line on stderr that explains a failure.
//!
//! The codes follow `sysexits.h` where it has one, so a script can tell "the lock is held" from "the
//! store is down" without reading the message.

use std::fmt;
use std::io::{self, Write};

use rustix::process::Signal;
use taketurns::{ErrorKind, limits};

use crate::child;
use crate::output::count;
use crate::status;
use crate::text;

/// A check of `doctor` failed.
pub(crate) const UNFIT: u8 = 1;
/// The command line is wrong, or asks for something that this store doesn't support.
pub(crate) const USAGE: u8 = 64;
/// The store, or a majority of its nodes, can't be reached or used.
pub(crate) const UNAVAILABLE: u8 = 69;
/// Work was given up: as many attempts failed as `--attempts` allows.
pub(crate) const EXHAUSTED: u8 = 70;
/// Writing the output failed.
pub(crate) const OUTPUT: u8 = 74;
/// The lock was not acquired because it is held. `-E` changes this code.
pub(crate) const NOT_ACQUIRED: u8 = 75;
/// The lock was lost while the command ran, or a handle's lock is no longer held.
pub(crate) const LOST: u8 = 76;
/// The command was found but can't be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command was not found.
pub(crate) const NO_SUCH_COMMAND: u8 = 127;

/// The codes with their meaning, for the help and the manual pages.
pub(crate) const CODES: [(&str, &str); 11] = [
    (
        "0",
        "success; run, once and elect exit with the command's own code; once: or it was done before",
    ),
    ("1", "doctor: a check failed"),
    ("64", "usage error, or the store does not support the request"),
    ("69", "the store can't be reached or used"),
    ("70", "once: it was given up after --attempts"),
    ("74", "writing the output failed"),
    ("75", "the lock was not acquired (-E changes this code); elect --leader: nobody leads"),
    ("76", "the lock was lost, or is no longer held"),
    ("126", "the command was found but can't be executed"),
    ("127", "the command was not found"),
    ("128+n", "signal n ended the command, or the wait for the lock"),
];

/// Returns the table that `--help` shows.
pub(crate) fn help() -> String {
    let row = |(code, meaning): &(&str, &str)| format!("\n  {code:5}  {meaning}");
    format!("Exit codes:{}", CODES.iter().map(row).collect::<String>())
}

/// Why the program fails: one line for people, one code for scripts.
#[derive(Debug)]
pub(crate) struct ExitFailure {
    pub(crate) code: u8,
    message: String,
    /// The signal that the program kills itself with, instead of exiting with the code.
    by: Option<Signal>,
}

impl ExitFailure {
    pub(crate) fn new(code: u8, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string(), by: None }
    }

    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(USAGE, message)
    }

    /// A signal ended it: 128 + n. After Ctrl-C or Ctrl-\\ at our terminal the program kills itself with
    /// the same signal. Only then does a shell end its loop or script too; after an exit with 130 it goes
    /// on. Without a terminal the program exits with the code, which a parent reads more easily.
    pub(crate) fn signal(signal: Signal, at_terminal: bool, message: impl fmt::Display) -> Self {
        let by = at_terminal && [Signal::INT, Signal::QUIT].contains(&signal);
        let code = 128 + signal.as_raw() as u8;
        Self { by: by.then_some(signal), ..Self::new(code, message) }
    }

    /// Replaces the code for "not acquired" with the one that the user chose.
    pub(crate) fn not_acquired_as(mut self, code: u8) -> Self {
        if self.code == NOT_ACQUIRED {
            self.code = code;
        }
        self
    }

    /// Prints the message and returns the exit code, or kills the program with its signal. Call it last:
    /// after the lock was released.
    pub(crate) fn report(self) -> u8 {
        if !self.message.is_empty() {
            say(&self);
        }
        if let Some(signal) = self.by {
            child::die_of(signal);
        }
        self.code
    }
}

impl fmt::Display for ExitFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<taketurns::Error> for ExitFailure {
    fn from(error: taketurns::Error) -> Self {
        match error {
            // The program makes the rest of the label, which is always valid.
            taketurns::Error::InvalidLabel(_) => Self::usage(format_args!(
                "--why is too long or has control characters: host, program and reason may have {} \
                 bytes together",
                limits::LABEL_BYTES_MAX
            )),
            taketurns::Error::InvalidLease { given, max } => Self::usage(format_args!(
                "--lease {}: the longest lease of this store is {} s; raise it with ?max_lease=SECS \
                 in its URL (?timeout=SECS with protocol=zmutex)",
                given.as_secs_f64(),
                max.as_secs_f64()
            )),
            taketurns::Error::InvalidAtLeast { given, max } => Self::usage(format_args!(
                "--at-least {}: it is between 0.01 s and the longest lease of this store, {} s; raise \
                 that with ?max_lease=SECS in its URL",
                given.as_secs_f64(),
                max.as_secs_f64()
            )),
            taketurns::Error::Exhausted { lock, attempts } => {
                let attempts = count(attempts as usize, "attempt");
                Self::new(
                    EXHAUSTED,
                    format_args!(
                        "{lock} was given up: {attempts} failed (--attempts); find out why, then run \
                         `taketurns undo {lock}`"
                    ),
                )
            }
            error => Self::new(code_of(error.kind()), error),
        }
    }
}

/// A broken pipe is no failure: the reader has what it wanted (`taketurns ls | head -1`).
impl From<io::Error> for ExitFailure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(0, "");
        }
        Self::new(OUTPUT, format_args!("writing the output failed: {error}"))
    }
}

fn code_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Timeout
        | ErrorKind::QueueFull
        | ErrorKind::PoolFull
        | ErrorKind::Quarantined => NOT_ACQUIRED,
        ErrorKind::Lost | ErrorKind::NotHeld => LOST,
        ErrorKind::Exhausted => EXHAUSTED,
        ErrorKind::KindMismatch
        | ErrorKind::Unfenced
        | ErrorKind::InvalidName
        | ErrorKind::InvalidLabel
        | ErrorKind::InvalidLease
        | ErrorKind::InvalidPermits
        | ErrorKind::InvalidKeep
        | ErrorKind::InvalidOnce
        | ErrorKind::InvalidNote
        | ErrorKind::InvalidAtLeast
        | ErrorKind::InvalidUrl
        | ErrorKind::InvalidHandle
        | ErrorKind::Unsupported => USAGE,
        _ => UNAVAILABLE,
    }
}

/// Prints one line on stderr, whatever the message contains: foreign names and errors must not break
/// the line or send escapes to the terminal. A failure to write is ignored.
pub(crate) fn say(message: impl fmt::Display) {
    status::make_room();
    let _ = writeln!(io::stderr(), "taketurns: {}", text::escaped(&message.to_string()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_interrupt_at_a_terminal_kills_the_program() {
        let by = |signal, at_terminal| ExitFailure::signal(signal, at_terminal, "").by;
        assert_eq!(by(Signal::INT, true), Some(Signal::INT));
        assert_eq!(by(Signal::QUIT, true), Some(Signal::QUIT));
        assert_eq!((by(Signal::TERM, true), by(Signal::INT, false)), (None, None));
        assert_eq!(ExitFailure::signal(Signal::INT, true, "").code, 130);
    }

    #[test]
    fn a_missing_quorum_is_unavailable_and_an_unsupported_request_is_usage() {
        let missing = taketurns::NoQuorum::new(2, 3, Vec::new());
        assert_eq!(ExitFailure::from(taketurns::Error::NoQuorum(missing)).code, UNAVAILABLE);
        let pools = taketurns::engine::EngineError::Unsupported("pools".to_owned());
        assert_eq!(ExitFailure::from(taketurns::Error::Unsupported(pools)).code, USAGE);
    }

    #[test]
    fn only_the_code_for_not_acquired_can_be_changed() {
        assert_eq!(ExitFailure::new(NOT_ACQUIRED, "").not_acquired_as(3).code, 3);
        assert_eq!(ExitFailure::new(LOST, "").not_acquired_as(3).code, LOST);
    }
}
