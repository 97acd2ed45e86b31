//! Decisions, and that the page and the dashboard name what there is.

use std::collections::BTreeSet;
use std::time::Duration;

use taketurns_core::Name;

use super::recorder::{LIST, MetricType};
use super::*;
use crate::engine::EngineError;

/// What `taketurns serve` shows at /metrics, which is no part of this crate.
const SERVED: [&str; 17] = [
    "taketurns_store_breaks_total",
    "taketurns_store_grants_seen_total",
    "taketurns_store_held",
    "taketurns_store_listing_seconds",
    "taketurns_store_listings_total",
    "taketurns_store_lock_held_seconds",
    "taketurns_store_lock_waiting",
    "taketurns_store_locks",
    "taketurns_store_longest_hold_seconds",
    "taketurns_store_longest_wait_seconds",
    "taketurns_store_quarantined",
    "taketurns_store_up",
    "taketurns_store_wait_seen_seconds",
    "taketurns_store_waiting",
    "taketurns_store_work_done",
    "taketurns_store_work_done_seconds",
    "taketurns_store_work_failed",
];

/// All names of metrics that a text mentions, as they are without what Prometheus adds to them.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let bare = |word| {
        ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| str::strip_suffix(word, end))
            .unwrap_or(word)
    };
    words.filter(|word| word.starts_with("taketurns_")).map(bare).collect()
}

fn all() -> BTreeSet<&'static str> {
    LIST.iter().map(|(name, ..)| *name).chain(SERVED).collect()
}

#[test]
fn the_page_names_every_metric_and_no_other() {
    let page = include_str!("../../../../docs/metrics.md");
    assert_eq!(named(page), all());
    for (name, is, ..) in LIST {
        let is = format!("{is:?}").to_lowercase();
        let row = |line: &&str| line.starts_with(&format!("| `{name}` | {is} |"));
        assert_eq!(page.lines().filter(row).count(), 1, "a row for {name}, which is a {is}");
    }
}

#[test]
fn the_dashboard_shows_every_metric_and_no_other() {
    let dashboard = include_str!("../../../../docs/grafana/taketurns.json");
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).expect("JSON");
    let mut expressions = String::new();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        assert!(ids.insert(panel["id"].as_u64().expect("a number")), "{panel}");
        for target in panel["targets"].as_array().into_iter().flatten() {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{target}");
            expressions.push_str(target["expr"].as_str().expect("an expression"));
            expressions.push('\n');
        }
    }
    assert_eq!(named(&expressions), all());
}

#[test]
fn names_say_the_unit_and_whether_they_only_grow() {
    for (name, is, unit, _) in LIST {
        assert_eq!(name.ends_with("_total"), is == MetricType::Counter, "{name}");
        assert_eq!(name.ends_with("_seconds"), unit == metrics::Unit::Seconds, "{name}");
    }
}

#[test]
fn errors_are_told_apart_by_who_has_to_do_something() {
    let lock = Name::new("l").expect("a name");
    let cases = [
        (Error::Timeout { lock: lock.clone(), within: Duration::ZERO }, WaitOutcome::Timeout),
        (Error::Quarantined { lock: lock.clone(), left: Duration::ZERO }, WaitOutcome::Timeout),
        (Error::QueueFull { lock: lock.clone() }, WaitOutcome::Refused),
        (Error::KindMismatch { lock, is: Kind::Pool }, WaitOutcome::Refused),
        (Error::Unsupported(EngineError::Unfenced), WaitOutcome::Refused),
        (Error::Unreachable(EngineError::Unreachable(String::new())), WaitOutcome::Failed),
        (Error::Store(EngineError::Broken(String::new())), WaitOutcome::Failed),
        (Error::Closed, WaitOutcome::Failed),
    ];
    for (error, expected) in cases {
        assert_eq!(WaitOutcome::of_error(&error), expected, "{error}");
    }
}

#[test]
fn a_delay_counts_from_the_anchor_before_or_after_the_grant() {
    let anchor = Anchor { sent_us: 5_000_000, engine_ms: 700 };
    // 3 ms after the anchor by the engine's clock; 10 ms after it by ours.
    assert_eq!(delay_us(anchor, 703, 5_010_000), 7_000);
    assert_eq!(delay_us(anchor, 690, 5_010_000), 20_000);
    assert_eq!(delay_us(anchor, 720, 5_010_000), 0, "no wake-up comes before its grant");
    assert_eq!(delay_us(anchor, u64::MAX, 5_010_000), 0);
}
