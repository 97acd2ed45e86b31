//! Prints the library's warnings, each as a line on stderr.
//!
//! Two kinds are left out, since the program reports them itself: a lost lock ([`crate::supervise`]), and a
//! quarantine (`show`, `ls`, the error of an acquire, and the status line at a terminal).

use std::collections::HashSet;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::exit;
use crate::output::millis;
use crate::text;

/// Log targets of lost locks, also of those that were lost because the store's clock was set.
const SHOWN_ELSEWHERE: [&str; 2] = ["taketurns::held", "taketurns::client"];
/// The log target of warnings about a server's configuration.
const SETUP: &str = "taketurns::setup";
/// The field that only warnings of a quarantine have: how much longer it lasts.
const QUARANTINE: &str = "left_ms";

/// Is there a wait that nothing else reports?
static IN_SILENCE: AtomicBool = AtomicBool::new(false);

/// Prints the library's warnings from now on. Warnings about a server's configuration are printed only if
/// `takes_lock`: a holder relies on the configuration, while a script that lists locks every minute does not want the
/// same warning every minute.
pub(crate) fn show(takes_lock: bool) {
    // It fails only if there is a subscriber already.
    let _ = tracing::subscriber::set_global_default(WarningSubscriber::new(takes_lock));
}

/// A wait that nothing else reports. Warnings of a quarantine are shown during one, and at no other time.
pub(crate) struct SilentWait;

impl SilentWait {
    pub(crate) fn begin() -> Self {
        IN_SILENCE.store(true, Ordering::Relaxed);
        Self
    }
}

impl Drop for SilentWait {
    fn drop(&mut self) {
        IN_SILENCE.store(false, Ordering::Relaxed);
    }
}

/// Keeps warnings while `top` draws the whole screen, which shows them itself.
static BUFFER: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// Keeps warnings instead of printing them, until it is dropped.
pub(crate) struct WarningBuffer;

impl WarningBuffer {
    pub(crate) fn begin() -> Self {
        *buffer() = Some(Vec::new());
        Self
    }

    /// Returns the warnings since the last call, each in one line.
    pub(crate) fn take(&self) -> Vec<String> {
        buffer().as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Drop for WarningBuffer {
    fn drop(&mut self) {
        *buffer() = None;
    }
}

fn buffer() -> MutexGuard<'static, Option<Vec<String>>> {
    BUFFER.lock().unwrap_or_else(PoisonError::into_inner)
}

struct WarningSubscriber {
    takes_lock: bool,
    history: Mutex<WarningHistory>,
}

#[derive(Default)]
struct WarningHistory {
    lines: HashSet<String>,
    /// When the last reported quarantine ends.
    quarantine_until: Option<Instant>,
}

impl WarningSubscriber {
    fn new(takes_lock: bool) -> Self {
        Self { takes_lock, history: Mutex::default() }
    }

    fn is_wanted(&self, level: Level, target: &str) -> bool {
        level <= Level::WARN
            && target.split("::").next() == Some("taketurns")
            && !SHOWN_ELSEWHERE.contains(&target)
            && (self.takes_lock || target != SETUP)
    }
}

impl WarningHistory {
    fn is_news(&mut self, text: &WarningText, quarantine: bool, now: Instant) -> bool {
        if quarantine {
            // The server and its locks warn of the same quarantine.
            let known = self.quarantine_until.is_some_and(|until| now < until);
            if !known {
                self.quarantine_until = Some(now + Duration::from_millis(text.left_ms));
            }
            return !known;
        }
        self.lines.insert(text.to_string())
    }
}

impl Subscriber for WarningSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && self.is_wanted(*metadata.level(), metadata.target())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        let quarantine = event.metadata().fields().field(QUARANTINE).is_some();
        if quarantine && !IN_SILENCE.load(Ordering::Relaxed) {
            return;
        }
        let mut text = WarningText::default();
        event.record(&mut text);
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        if history.is_news(&text, quarantine, Instant::now()) {
            match &mut *buffer() {
                Some(buffer) => buffer.push(text::escaped(&text.to_string())),
                None => exit::say(text),
            }
        }
    }

    // No span is enabled.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// A warning as a sentence: `127.0.0.1:6379: what is wrong: why (57s left)`.
#[derive(Default)]
struct WarningText {
    about: String,
    message: String,
    why: String,
    details: Vec<String>,
    left_ms: u64,
}

impl WarningText {
    fn take(&mut self, name: &str, value: impl fmt::Display) {
        let _ = match name {
            "message" => write!(self.message, "{value}"),
            "server" => write!(self.about, "{value}: "),
            "lock" => write!(self.about, "lock {value}: "),
            "error" => write!(self.why, ": {value}"),
            _ => {
                self.details.push(format!("{name} {value}"));
                Ok(())
            }
        };
    }
}

impl Visit for WarningText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.take(field.name(), format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == QUARANTINE {
            self.left_ms = value;
        }
        match field.name().strip_suffix("_ms") {
            Some(name) => self.details.push(format!("{} {name}", millis(value))),
            None => self.take(field.name(), value),
        }
    }
}

impl fmt::Display for WarningText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { about, message, why, details, .. } = self;
        write!(f, "{about}{message}{why}")?;
        if details.is_empty() { Ok(()) } else { write!(f, " ({})", details.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(takes_lock: bool, level: Level, target: &str) -> bool {
        WarningSubscriber::new(takes_lock).is_wanted(level, target)
    }

    #[test]
    fn warnings_and_errors_of_the_library_are_said_and_nothing_else() {
        let store = "taketurns::file";
        assert!(wanted(false, Level::WARN, store) && wanted(false, Level::ERROR, store));
        assert!(!wanted(true, Level::INFO, store) && !wanted(true, Level::DEBUG, store));
        assert!(!wanted(true, Level::WARN, "rustls::client"));
        assert!(!wanted(true, Level::WARN, "taketurns_other"));
    }

    #[test]
    fn what_the_program_says_itself_is_left_out() {
        for target in SHOWN_ELSEWHERE {
            assert!(!wanted(true, Level::WARN, target), "{target}");
        }
        assert!(wanted(true, Level::WARN, SETUP) && !wanted(false, Level::WARN, SETUP));
    }

    #[test]
    fn a_quarantine_is_told_of_once_and_so_is_every_other_warning() {
        let (mut history, now) = (WarningHistory::default(), Instant::now());
        let mut text = WarningText { left_ms: 2_000, ..WarningText::default() };
        let later = |ms| now + Duration::from_millis(ms);
        assert!(history.is_news(&text, true, now));
        text.take("lock", "door");
        assert!(!history.is_news(&text, true, later(1_999)), "the same one, in other words");
        assert!(history.is_news(&text, true, later(2_000)), "another one");
        assert!(history.is_news(&text, false, now));
        assert!(!history.is_news(&text, false, now));
    }

    #[test]
    fn what_would_be_written_over_the_screen_is_kept_for_who_draws_it() {
        let buffer = WarningBuffer::begin();
        tracing::subscriber::with_default(WarningSubscriber::new(false), || {
            for _ in 0..2 {
                tracing::warn!(target: "taketurns::file", lock = "door", "left\nout");
            }
        });
        assert_eq!(buffer.take(), ["lock door: left\\nout"]);
        assert!(buffer.take().is_empty(), "told once");
    }

    #[test]
    fn a_warning_reads_as_a_sentence() {
        let mut text = WarningText::default();
        text.take("lock", "door");
        text.take("message", "left out of the listing");
        text.take("error", "it is damaged");
        text.details.push(format!("{} left", millis(57_000)));
        assert_eq!(
            text.to_string(),
            "lock door: left out of the listing: it is damaged (57s left)"
        );
    }
}
