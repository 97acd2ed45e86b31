//! Notes when the store answers to refreshes of this client's places, and when a place has lapsed: whether somebody was
//! overtaken is judged by it.
//!
//! The library tells of both in events of `tracing`: see `docs/metrics.md`.

use std::fmt;
use std::sync::Arc;

use taketurns_history::EventKind;
use taketurns_servers::turns::now_us;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Metadata, Subscriber, span, subscriber};

use crate::notes::HistoryWriter;

/// Begins to note them, for as long as the process lives.
pub(super) fn note_all(client: u32, notes: Arc<HistoryWriter>) -> Result<(), String> {
    let places = PlaceNotes { client, notes };
    subscriber::set_global_default(places).map_err(|error| error.to_string())
}

struct PlaceNotes {
    client: u32,
    notes: Arc<HistoryWriter>,
}

impl Subscriber for PlaceNotes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == "taketurns::waits"
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }

    fn event(&self, event: &Event<'_>) {
        let at_us = now_us();
        let mut fields = PlaceFields::default();
        event.record(&mut fields);
        let (client, PlaceFields { lock, took_us }) = (self.client, fields);
        let what = match event.metadata().name() {
            "taketurns.refreshed" => {
                EventKind::Refreshed { client, lock, sent_us: at_us.saturating_sub(took_us) }
            }
            "taketurns.rejoined" => EventKind::Rejoined { client, lock },
            _ => return,
        };
        self.notes.note_at(at_us, what);
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

#[derive(Default)]
struct PlaceFields {
    lock: String,
    took_us: u64,
}

impl Visit for PlaceFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "lock" {
            self.lock = format!("{value:?}");
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "took_us" {
            self.took_us = value;
        }
    }
}
