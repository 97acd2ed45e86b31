//! What Prometheus reads, in its text format. Pure: written from what was learnt by looking.

use std::fmt::{self, Write};

use taketurns::{Name, View};

use crate::output::whole_millis;
use crate::watch::order::{Filter, Sort, held_for};
use crate::watch::{BOUNDS_MS, LockHistory};
use crate::work;

/// How many locks have series of their own: the busiest. Each name is a series, and names may be many.
const NAMED_MAX: usize = 50;

/// The server's own metrics, beside those of the locks.
pub(super) struct ServerMetrics {
    pub(super) is_up: bool,
    pub(super) took_s: f64,
    pub(super) looks: u64,
    pub(super) breaks: u64,
}

pub(super) fn text(watch: &LockHistory, own: &ServerMetrics) -> String {
    let mut out = MetricsText(String::new());
    let totals = watch.totals();
    let seconds = |ms: u64| ms as f64 / 1e3;
    out.one("up", "gauge", "1 if the store answered the last look", f64::from(u8::from(own.is_up)));
    out.one("locks", "gauge", "Locks that the store knows", totals.locks as f64);
    out.one("held", "gauge", "Locks that somebody holds", totals.held as f64);
    out.one("waiting", "gauge", "Waiters of all locks", totals.waiting as f64);
    out.one(
        "quarantined",
        "gauge",
        "Locks that nobody is granted for now",
        totals.quarantined as f64,
    );
    out.one("work_done", "gauge", "Work for once that is done and remembered", totals.done as f64);
    let failed = totals.failed as f64;
    out.one("work_failed", "gauge", "Work for once with failed attempts that is not done", failed);
    let wait = seconds(totals.longest_wait_ms);
    out.one("longest_wait_seconds", "gauge", "Longest wait that goes on", wait);
    let hold = seconds(totals.longest_hold_ms);
    out.one("longest_hold_seconds", "gauge", "Longest hold that goes on", hold);
    out.one("listing_seconds", "gauge", "How long the last look took", own.took_s);
    out.one("listings_total", "counter", "Looks at the store", own.looks as f64);
    out.one("grants_seen_total", "counter", "Grants seen by looking", watch.grants() as f64);
    out.one("breaks_total", "counter", "Locks broken through this server", own.breaks as f64);
    out.waits(watch);
    let (busiest, _) = watch.locks(&Filter::default(), Sort::default(), NAMED_MAX);
    let waiting = |(_, view): &(&Name, &View)| Some(view.waiting as f64);
    out.each("lock_waiting", "Waiters of each of the busiest locks", &busiest, waiting);
    let held = |(_, view): &(&Name, &View)| held_for(view).map(whole_millis).map(seconds);
    out.each("lock_held_seconds", "For how long each of them is held", &busiest, held);
    let done: Vec<_> = watch.done().take(NAMED_MAX).collect();
    let age = |(_, view): &(&Name, &View)| work::done_ago(view).map(whole_millis).map(seconds);
    out.each("work_done_seconds", "How long ago the work of that name was done", &done, age);
    out.0
}

/// The metrics text, as far as it is written.
struct MetricsText(String);

impl MetricsText {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP taketurns_store_{name} {help}.");
        let _ = writeln!(self.0, "# TYPE taketurns_store_{name} {kind}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.head(name, kind, help);
        let _ = writeln!(self.0, "taketurns_store_{name} {value}");
    }

    fn each(
        &mut self,
        name: &str,
        help: &str,
        locks: &[(&Name, &View)],
        value: impl Fn(&(&Name, &View)) -> Option<f64>,
    ) {
        self.head(name, "gauge", help);
        for lock in locks {
            if let Some(value) = value(lock) {
                let label = EscapedLabel(lock.0.as_str());
                let _ = writeln!(self.0, "taketurns_store_{name}{{lock=\"{label}\"}} {value}");
            }
        }
    }

    fn waits(&mut self, watch: &LockHistory) {
        let (name, waits) = ("wait_seen_seconds", watch.waits());
        self.head(name, "histogram", "How long those waited who were seen to be granted a lock");
        let mut sum = 0;
        let bounds = BOUNDS_MS.iter().map(|bound_ms| (*bound_ms as f64 / 1e3).to_string());
        for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(waits.counts) {
            sum += count;
            let _ = writeln!(self.0, "taketurns_store_{name}_bucket{{le=\"{bound}\"}} {sum}");
        }
        let _ = writeln!(self.0, "taketurns_store_{name}_sum {}", waits.sum_ms as f64 / 1e3);
        let _ = writeln!(self.0, "taketurns_store_{name}_count {sum}");
    }
}

/// A label's value: backslash, quote and line end are escaped.
struct EscapedLabel<'a>(&'a str);

impl fmt::Display for EscapedLabel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::tests::{done, failed, held, name};

    const OWN: ServerMetrics = ServerMetrics { is_up: true, took_s: 0.25, looks: 3, breaks: 1 };

    #[test]
    fn all_is_said_of_few_locks() {
        let mut watch = LockHistory::default();
        watch.see(1_000, vec![]);
        let once = [(name("done"), done(70)), (name("failed"), failed(2))];
        let locks = [(name("a\"\\b"), held(1, 500)), (name("free"), View::default())];
        watch.see(2_000, locks.into_iter().chain(once).collect());
        let text = text(&watch, &OWN);
        for line in [
            "# TYPE taketurns_store_up gauge",
            "taketurns_store_up 1",
            "taketurns_store_locks 4",
            "taketurns_store_work_done 1",
            "taketurns_store_work_failed 1",
            "taketurns_store_work_done_seconds{lock=\"done\"} 70",
            "taketurns_store_held 1",
            "taketurns_store_longest_hold_seconds 0.5",
            "taketurns_store_listing_seconds 0.25",
            "taketurns_store_listings_total 3",
            "taketurns_store_grants_seen_total 1",
            "taketurns_store_breaks_total 1",
            "taketurns_store_wait_seen_seconds_bucket{le=\"1\"} 1",
            "taketurns_store_wait_seen_seconds_bucket{le=\"+Inf\"} 1",
            "taketurns_store_wait_seen_seconds_count 1",
            "taketurns_store_lock_waiting{lock=\"a\\\"\\\\b\"} 0",
            "taketurns_store_lock_held_seconds{lock=\"a\\\"\\\\b\"} 0.5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("lock_held_seconds{lock=\"free\"}"), "nobody holds it");
    }

    #[test]
    fn many_locks_have_few_series() {
        let mut watch = LockHistory::default();
        let lock = |number| (name(&format!("lock-{number}")), held(number, 1));
        watch.see(1_000, (1..=10_000).map(lock).collect());
        assert!(text(&watch, &OWN).lines().count() < 200);
    }
}
