//! The list of all metrics, and how they get to the application's recorder.

use metrics::{Key, KeyName, Level, Metadata, Recorder, SharedString, Unit, with_recorder};

use super::{
    ACQUIRE_WAIT, HELD, HOLD, LOSSES, QUEUE_DEPTH, RECONNECTS, RENEWALS, STORE_CALL, WAITING,
    WAKEUP_DELAY, WAKEUPS,
};

/// Recorders may sort metrics by this.
static METADATA: Metadata<'static> = Metadata::new("taketurns", Level::INFO, Some("taketurns"));

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricType {
    Counter,
    Gauge,
    Histogram,
}

/// One metric: its name, type and unit, and what it tells.
pub(super) type MetricEntry = (&'static str, MetricType, Unit, &'static str);

/// All there are.
pub(super) const LIST: [MetricEntry; 11] = [
    (
        ACQUIRE_WAIT,
        MetricType::Histogram,
        Unit::Seconds,
        "From asking for a lock to having it, or not",
    ),
    (
        HOLD,
        MetricType::Histogram,
        Unit::Seconds,
        "From having a lock to letting go of it, or losing it",
    ),
    (
        QUEUE_DEPTH,
        MetricType::Histogram,
        Unit::Count,
        "The place in the queue that an acquire was given",
    ),
    (HELD, MetricType::Gauge, Unit::Count, "Locks that this process holds"),
    (WAITING, MetricType::Gauge, Unit::Count, "Acquires of this process that are under way"),
    (RENEWALS, MetricType::Counter, Unit::Count, "Renewals of held locks"),
    (LOSSES, MetricType::Counter, Unit::Count, "Locks that were lost while they were held"),
    (RECONNECTS, MetricType::Counter, Unit::Count, "Connections that took the place of one before"),
    (WAKEUPS, MetricType::Counter, Unit::Count, "Wake-ups that the store pushed"),
    (
        WAKEUP_DELAY,
        MetricType::Histogram,
        Unit::Seconds,
        "From the grant in the store to the waiter, at most",
    ),
    (STORE_CALL, MetricType::Histogram, Unit::Seconds, "From a request to the store to its answer"),
];

/// Tells the recorder what each metric means. Done for every client: the recorder may be younger than
/// the first.
pub(crate) fn describe() {
    with_recorder(|recorder| {
        for (name, is, unit, help) in LIST {
            let (name, help) = (KeyName::from_const_str(name), SharedString::const_str(help));
            match is {
                MetricType::Counter => recorder.describe_counter(name, Some(unit), help),
                MetricType::Gauge => recorder.describe_gauge(name, Some(unit), help),
                MetricType::Histogram => recorder.describe_histogram(name, Some(unit), help),
            }
        }
    });
}

pub(super) fn count(key: &'static Key) {
    with_recorder(|recorder: &dyn Recorder| {
        recorder.register_counter(key, &METADATA).increment(1);
    });
}

pub(super) fn measure(key: &'static Key, value: f64) {
    with_recorder(|recorder: &dyn Recorder| {
        recorder.register_histogram(key, &METADATA).record(value);
    });
}

pub(super) fn shift(key: &'static Key, by: f64) {
    with_recorder(|recorder: &dyn Recorder| {
        recorder.register_gauge(key, &METADATA).increment(by);
    });
}
