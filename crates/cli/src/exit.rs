//! How the program ends: every exit code, and the one line on stderr that goes with a failure.
//!
//! The codes are those of `sysexits.h` where it has one, so that a script can tell "somebody else has
//! it" from "the store is down" without reading the message.

use std::fmt;
use std::io::{self, Write};

use rustix::process::Signal;
use taketurns::{ErrorKind, limits};

use crate::child;
use crate::status;

/// A store that was looked at is not fit to hold locks.
pub(crate) const UNFIT: u8 = 1;
/// The command line, a name or a value in it makes no sense, or asks for what the store can't do.
pub(crate) const USAGE: u8 = 64;
/// The store can't be reached, or too few of its nodes, or can't be used.
pub(crate) const UNAVAILABLE: u8 = 69;
/// What should have been printed could not be.
pub(crate) const OUTPUT: u8 = 74;
/// The lock was not acquired: somebody else holds it. `-E` changes this one.
pub(crate) const NOT_ACQUIRED: u8 = 75;
/// The lock was lost while the command ran, or a handle's lock is not held any more.
pub(crate) const LOST: u8 = 76;
/// The command is there but can't be run.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// There is no such command.
pub(crate) const NO_SUCH_COMMAND: u8 = 127;

/// The codes as people read them, in the help and in the manual pages.
pub(crate) const CODES: [(&str, &str); 10] = [
    ("0", "done; for run and elect: the command's own code"),
    ("1", "doctor: a check failed"),
    ("64", "the command line makes no sense, or not for this store"),
    ("69", "the store can't be reached or used"),
    ("74", "the result could not be printed"),
    ("75", "the lock was not acquired (run and acquire: -E changes this); nobody leads"),
    ("76", "the lock was lost, or is not held any more"),
    ("126", "the command to run can't be executed"),
    ("127", "the command to run was not found"),
    ("128+n", "the command, or the wait for the lock, was ended by signal n"),
];

/// The table that `--help` shows.
pub(crate) fn help() -> String {
    let row = |(code, meaning): &(&str, &str)| format!("\n  {code:5}  {meaning}");
    format!("Exit codes:{}", CODES.iter().map(row).collect::<String>())
}

/// What ended the program, as one line for people and one code for scripts.
#[derive(Debug)]
pub(crate) struct ExitFailure {
    pub(crate) code: u8,
    message: String,
    /// What the program dies of instead of exiting with the code.
    by: Option<Signal>,
}

impl ExitFailure {
    pub(crate) fn new(code: u8, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string(), by: None }
    }

    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(USAGE, message)
    }

    /// A signal ended it: 128 + n. If that was Ctrl-C or Ctrl-\\ at our terminal we die of it too,
    /// which is how a shell knows that its loop or script is to end as well: after an exit with 130
    /// it goes on. Whoever started us without a terminal gets the code, which is easier to read.
    pub(crate) fn signal(signal: Signal, at_terminal: bool, message: impl fmt::Display) -> Self {
        let by = at_terminal && [Signal::INT, Signal::QUIT].contains(&signal);
        let code = 128 + signal.as_raw() as u8;
        Self { by: by.then_some(signal), ..Self::new(code, message) }
    }

    /// The code for "somebody else has it" is the user's to choose.
    pub(crate) fn not_acquired_as(mut self, code: u8) -> Self {
        if self.code == NOT_ACQUIRED {
            self.code = code;
        }
        self
    }

    /// Tells the user, and gives the code to exit with, unless the program is to die of a signal.
    /// Only when all else is done: what was held has been released.
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
            // We have seen to the rest of the label ourselves.
            taketurns::Error::InvalidLabel(_) => Self::usage(format_args!(
                "--why is too long or has control characters: host, program and reason together \
                 have at most {} bytes",
                limits::LABEL_BYTES_MAX
            )),
            taketurns::Error::InvalidLease { given, max } => Self::usage(format_args!(
                "--lease {}: this store takes leases of up to {} s; ?max_lease=SECS in its URL \
                 raises that (?timeout=SECS with protocol=zmutex)",
                given.as_secs_f64(),
                max.as_secs_f64()
            )),
            error => Self::new(code_of(error.kind()), error),
        }
    }
}

/// A reader that went away (`taketurns ls | head -1`) has what it wanted: no failure, no message.
impl From<io::Error> for ExitFailure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(0, "");
        }
        Self::new(OUTPUT, format_args!("the result could not be printed: {error}"))
    }
}

fn code_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Timeout
        | ErrorKind::QueueFull
        | ErrorKind::PoolFull
        | ErrorKind::Quarantined => NOT_ACQUIRED,
        ErrorKind::Lost | ErrorKind::NotHeld => LOST,
        ErrorKind::KindMismatch
        | ErrorKind::Unfenced
        | ErrorKind::InvalidName
        | ErrorKind::InvalidLabel
        | ErrorKind::InvalidLease
        | ErrorKind::InvalidPermits
        | ErrorKind::InvalidLocalTurns
        | ErrorKind::InvalidUrl
        | ErrorKind::InvalidHandle
        | ErrorKind::Unsupported => USAGE,
        _ => UNAVAILABLE,
    }
}

/// One line on stderr, whatever the message holds: names and errors of others must not be able to
/// break the line or drive the terminal. There is nobody left to tell if it can't be written.
pub(crate) fn say(message: impl fmt::Display) {
    status::make_room();
    let _ = writeln!(io::stderr(), "taketurns: {}", one_line(&message.to_string()));
}

/// Line and paragraph separators, and marks that turn the direction of what follows.
const TURNS: [char; 13] = [
    '\u{2028}', '\u{2029}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}',
    '\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
];

/// The text with its control characters spelled out, and others that end a line or turn it around.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || TURNS.contains(&c) {
            line.extend(c.escape_default())
        } else {
            line.push(c)
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_stays_on_one_line_and_leaves_the_terminal_alone() {
        assert_eq!(one_line("a\nb\x1b[31mc ü"), "a\\nb\\u{1b}[31mc ü");
        assert_eq!(one_line("a\u{202e}b\u{2028}c"), "a\\u{202e}b\\u{2028}c");
    }

    #[test]
    fn only_an_interrupt_at_a_terminal_is_died_of() {
        let by = |signal, at_terminal| ExitFailure::signal(signal, at_terminal, "").by;
        assert_eq!(by(Signal::INT, true), Some(Signal::INT));
        assert_eq!(by(Signal::QUIT, true), Some(Signal::QUIT));
        assert_eq!((by(Signal::TERM, true), by(Signal::INT, false)), (None, None));
        assert_eq!(ExitFailure::signal(Signal::INT, true, "").code, 130);
    }

    #[test]
    fn too_few_nodes_are_a_store_that_is_down_and_what_it_cannot_do_is_a_wrong_command() {
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
