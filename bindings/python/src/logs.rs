//! The client's log events, for Python's `logging`. They are noted here and read by a Python thread, since they happen on
//! the client's own thread.

use std::collections::VecDeque;
use std::fmt::{Debug, Write};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, Subscriber, set_global_default};
use tracing::{Event, Level, Metadata, callsite};

use crate::error::invalid;
use crate::mailbox::{Mailbox, PyMailbox};

/// The key that is posted for a log event. No other use of a mailbox has it.
const LOGS: u64 = 0;

/// How many events are kept for a Python thread that is busy. The oldest are dropped.
const EVENTS_MAX: usize = 1_000;

/// Level, target and message.
type LogEvent = (u8, &'static str, String);

static EVENTS: Mutex<VecDeque<LogEvent>> = Mutex::new(VecDeque::new());
static READER: RwLock<Option<Arc<Mailbox>>> = RwLock::new(None);
static LEVEL: RwLock<LevelFilter> = RwLock::new(LevelFilter::OFF);

/// Receives the events of this library. Another extension module has a `tracing` of its own.
pub(crate) fn listen() {
    let _ = set_global_default(LogSubscriber);
}

/// Sets which events are noted (Python's numbers), and the mailbox that is posted 0 for each.
#[pyfunction]
pub(crate) fn log_level(level: u8, mailbox: &PyMailbox) -> PyResult<()> {
    let filter = match level {
        0..=9 => LevelFilter::TRACE,
        10..=19 => LevelFilter::DEBUG,
        20..=29 => LevelFilter::INFO,
        30..=39 => LevelFilter::WARN,
        40..=49 => LevelFilter::ERROR,
        50 => LevelFilter::OFF,
        _ => return Err(invalid(format!("a log level is at most 50, not {level}"))),
    };
    *READER.write().unwrap_or_else(PoisonError::into_inner) = Some(mailbox.shared()?);
    let before = mem::replace(&mut *LEVEL.write().unwrap_or_else(PoisonError::into_inner), filter);
    if before != filter {
        callsite::rebuild_interest_cache();
    }
    Ok(())
}

/// Returns the events since the last call: level (Python's numbers), logger and message.
#[pyfunction]
pub(crate) fn take_logs() -> Vec<(u8, String, String)> {
    let events = mem::take(&mut *EVENTS.lock().unwrap_or_else(PoisonError::into_inner));
    let logger = |target: &str| target.replace("::", ".");
    events.into_iter().map(|(level, target, said)| (level, logger(target), said)).collect()
}

struct LogSubscriber;

impl LogSubscriber {
    fn level() -> LevelFilter {
        *LEVEL.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscriber for LogSubscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match self.enabled(metadata) {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && metadata.target().starts_with("taketurns")
            && *metadata.level() <= Self::level()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(Self::level())
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let level = match *metadata.level() {
            Level::ERROR => 40,
            Level::WARN => 30,
            Level::INFO => 20,
            Level::DEBUG => 10,
            Level::TRACE => 5,
        };
        let mut said = EventText::default();
        event.record(&mut said);
        let mut events = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() == EVENTS_MAX {
            events.pop_front();
        }
        events.push_back((level, metadata.target(), said.finish()));
        drop(events);
        if let Some(mailbox) = &*READER.read().unwrap_or_else(PoisonError::into_inner) {
            mailbox.post(LOGS);
        }
    }

    // No span is enabled.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// An event as one line: the message, then its fields.
#[derive(Default)]
struct EventText {
    message: String,
    fields: String,
}

impl EventText {
    fn finish(self) -> String {
        let Self { message, fields } = self;
        if fields.is_empty() { message } else { format!("{message} ({fields})") }
    }
}

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let Self { message, fields } = self;
        let _ = match field.name() {
            "message" => write!(message, "{value:?}"),
            name if fields.is_empty() => write!(fields, "{name}={value:?}"),
            name => write!(fields, ", {name}={value:?}"),
        };
    }
}
