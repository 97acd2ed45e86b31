//! A recorder of a test's own, with all that was recorded since it began.

use std::collections::BTreeMap;
use std::time::Duration;

use metrics::LocalRecorderGuard;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use taketurns_servers::PATIENCE;
use tokio::runtime::{Builder, Handle};

/// What was recorded. A series is written `name{label=value,label=value}`.
pub(crate) struct RecordedMetrics {
    snapshotter: Snapshotter,
    counters: BTreeMap<String, u64>,
    gauges: BTreeMap<String, f64>,
    histograms: BTreeMap<String, Vec<f64>>,
    /// Of what no description was given.
    undescribed: Vec<String>,
}

impl RecordedMetrics {
    pub(crate) fn of(recorder: &DebuggingRecorder) -> Self {
        Self {
            snapshotter: recorder.snapshotter(),
            counters: BTreeMap::new(),
            gauges: BTreeMap::new(),
            histograms: BTreeMap::new(),
            undescribed: Vec::new(),
        }
    }

    /// Takes in what came since the last look, which the recorder then forgets.
    pub(crate) fn look(&mut self) -> &mut Self {
        for (key, _, description, value) in self.snapshotter.snapshot().into_vec() {
            let key = key.key();
            let labels: Vec<String> =
                key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let series = match labels.is_empty() {
                true => key.name().to_owned(),
                false => format!("{}{{{}}}", key.name(), labels.join(",")),
            };
            if description.is_none() {
                self.undescribed.push(series.clone());
            }
            match value {
                DebugValue::Counter(more) => *self.counters.entry(series).or_default() += more,
                DebugValue::Gauge(more) => *self.gauges.entry(series).or_default() += more.0,
                DebugValue::Histogram(more) => {
                    let values = self.histograms.entry(series).or_default();
                    values.extend(more.into_iter().map(|value| value.0));
                }
            }
        }
        self
    }

    pub(crate) fn counter(&mut self, series: &str) -> u64 {
        self.look().counters.get(series).copied().unwrap_or(0)
    }

    pub(crate) fn gauge(&mut self, series: &str) -> f64 {
        self.look().gauges.get(series).copied().unwrap_or(0.0)
    }

    pub(crate) fn histogram(&mut self, series: &str) -> Vec<f64> {
        self.look().histograms.get(series).cloned().unwrap_or_default()
    }

    /// How many values each series of a histogram or counter has.
    pub(crate) fn counts(&mut self, name: &str) -> BTreeMap<String, u64> {
        self.look();
        let of_name = |series: &&String| series.split('{').next() == Some(name);
        let counters = self.counters.iter().map(|(series, count)| (series, *count));
        let values = self.histograms.iter().map(|(series, values)| (series, values.len() as u64));
        counters
            .chain(values)
            .filter(|(series, count)| of_name(series) && *count > 0)
            .map(|(series, count)| (series[name.len()..].to_owned(), count))
            .collect()
    }

    pub(crate) fn all_are_described(&mut self) {
        assert_eq!(self.look().undescribed, Vec::<String>::new());
        assert!(!self.histograms.is_empty());
    }

    /// Waits until something is so.
    pub(crate) async fn until(&mut self, what: &str, is_so: impl Fn(&mut Self) -> bool) {
        let since = std::time::Instant::now();
        while !is_so(self) {
            assert!(since.elapsed() < PATIENCE, "still not so: {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Runs a test on one thread, with the runtime for its clients and a recorder for that thread.
pub(crate) fn record<T, F: Future<Output = T>>(
    test: impl FnOnce(Handle, RecordedMetrics) -> F,
) -> T {
    let recorder = DebuggingRecorder::new();
    let _local: LocalRecorderGuard<'_> = metrics::set_default_local_recorder(&recorder);
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(test(runtime.handle().clone(), RecordedMetrics::of(&recorder)))
}
