//! The client's metrics as text for Prometheus. Off until [`enable_metrics`]: then each costs some nanoseconds.

use std::sync::OnceLock;

use metrics::set_global_recorder;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::error::invalid;

static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();

/// The buckets of the one histogram that counts places and not seconds.
const PLACES: (&str, [f64; 6]) = ("taketurns_queue_depth", [1.0, 2.0, 5.0, 10.0, 100.0, 1_000.0]);

/// Counts and measures from now on, with these buckets for times. Does nothing the second time.
#[pyfunction]
pub(crate) fn enable_metrics(buckets: Vec<f64>) -> PyResult<()> {
    let failed = |error: &dyn std::fmt::Display| invalid(format!("metrics: {error}"));
    if HANDLE.get().is_some() {
        return Ok(());
    }
    let places = Matcher::Full(PLACES.0.to_owned());
    let builder = PrometheusBuilder::new()
        .set_buckets(&buckets)
        .and_then(|builder| builder.set_buckets_for_metric(places, &PLACES.1))
        .map_err(|error| failed(&error))?;
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    set_global_recorder(recorder).map_err(|error| failed(&error))?;
    let _ = HANDLE.set(handle);
    Ok(())
}

/// Returns all metrics as text for Prometheus.
#[pyfunction]
pub(crate) fn render_metrics(py: Python<'_>) -> PyResult<String> {
    let off = || PyRuntimeError::new_err("metrics are off: call taketurns.metrics.enable() first");
    let handle = HANDLE.get().ok_or_else(off)?;
    Ok(py.detach(|| handle.render()))
}

/// Folds what was measured into the buckets, so that a process that is never asked needs no more memory. Returns
/// whether metrics are on.
#[pyfunction]
pub(crate) fn tidy_metrics(py: Python<'_>) -> bool {
    let Some(handle) = HANDLE.get() else { return false };
    py.detach(|| handle.run_upkeep());
    true
}
