//! Clocks, round trips, and quarantine.

use std::time::Duration;

use super::Case;
use crate::clock::millis;
use crate::doctor::{Check, Subject};
use crate::engine::redis::exam::gather::Trip;
use crate::engine::redis::handshake::facts::ServerFacts;
use crate::engine::redis::handshake::marker::{self, Marker, MarkerContext};
use crate::engine::redis::url::Failover;

/// Tokens are floored by the server's clock, so what was lost is outdone only as far as that is right. One
/// that NTP keeps is right by some milliseconds.
const OFF_OURS_MS_MAX: u64 = 2_000;
/// Who asks a quorum proposes the median of its clocks and a second more: a node whose clock is farther
/// ahead can't follow, and that costs a second round.
const OFF_MEDIAN_MS_MAX: u64 = 1_000;

/// With what a clock is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockReference {
    Ours,
    /// That of the nodes of a quorum, by how much it is ahead of ours. Ours matters to nobody there.
    Median(i64),
}

/// By how much its clock is ahead of ours, and how far that may be wrong: the quickest answer tells best.
fn ahead(trips: &[Trip]) -> Option<(i64, u64)> {
    let best = trips.iter().min_by_key(|trip| trip.took)?;
    let half_ms = millis(best.took / 2);
    let middle_ms = best.sent_ms.saturating_add(half_ms);
    let (server_ms, middle_ms) =
        (i64::try_from(best.server_ms).ok()?, i64::try_from(middle_ms).ok()?);
    let ahead_ms = server_ms.checked_sub(middle_ms)?;
    // Both clocks are read in whole milliseconds.
    Some((ahead_ms, half_ms + 1))
}

/// The same, of a server that told.
pub(in super::super) fn ahead_ms(trips: &[Trip]) -> Option<i64> {
    ahead(trips).map(|(ahead_ms, _)| ahead_ms)
}

impl Case<'_> {
    pub(super) fn time(&self, against: ClockReference) -> Vec<Check> {
        self.clock(against).into_iter().chain(self.latency()).collect()
    }

    fn clock(&self, against: ClockReference) -> Option<Check> {
        let (ahead_ms, within_ms) = ahead(&self.answers.trips)?;
        let (off_ms, max_ms, whose) = match against {
            ClockReference::Ours => (ahead_ms, OFF_OURS_MS_MAX, "ours"),
            ClockReference::Median(ms) => {
                (ahead_ms.saturating_sub(ms), OFF_MEDIAN_MS_MAX, "the median of the nodes")
            }
        };
        let way = if off_ms < 0 { "behind" } else { "ahead of" };
        let off = Duration::from_millis(off_ms.unsigned_abs()).as_secs_f64();
        let found = format!("{off:.3} s {way} {whose}, give or take {within_ms} ms");
        // Only what is sure counts.
        if off_ms.unsigned_abs().saturating_sub(within_ms) < max_ms {
            return Some(Subject::Clock.ok(&self.node, found));
        }
        let found = format!(
            "{found}: fencing tokens follow it, and grow after a loss of state only as far as clocks agree"
        );
        Some(Subject::Clock.warn(&self.node, found, "run NTP (chrony) on both, and let it slew"))
    }

    fn latency(&self) -> Option<Check> {
        let mut took: Vec<Duration> = self.answers.trips.iter().map(|trip| trip.took).collect();
        took.sort_unstable();
        let (median, worst) = (*took.get(took.len() / 2)?, *took.last()?);
        let ms = |took: Duration| took.as_secs_f64() * 1_000.0;
        let found = format!(
            "{} round trips: {:.1} ms in the middle, {:.1} ms at worst",
            took.len(),
            ms(median),
            ms(worst)
        );
        // A server that takes longer than that for one answer counts as gone.
        let limit = self.config.timeouts.response;
        if worst < limit / 10 {
            return Some(Subject::Latency.ok(&self.node, found));
        }
        let limit = limit.as_secs_f64();
        let found = format!(
            "{found}; a client gives a server up after {limit} s (response_timeout in the URL)"
        );
        let advice = "see SLOWLOG GET and LATENCY DOCTOR there, and whether the machine swaps";
        Some(Subject::Latency.warn(&self.node, found, advice))
    }

    /// Does it grant anything now, and will it when the next client comes?
    pub(super) fn quarantine(&self, facts: &ServerFacts) -> Option<Check> {
        let node = &self.node;
        if self.config.failover == Failover::Immediate {
            return Some(Subject::Quarantine.warn(
                node,
                "none, ever (failover=immediate): after a restart or a fail-over two may hold a lock, and \
                 only the fencing token protects",
                "leave failover=immediate out of the URL, if that is not meant",
            ));
        }
        let found = match self.answers.marker.as_ref()? {
            Ok(found) => found,
            // It is not about quarantine, and said elsewhere.
            Err(_) => return None,
        };
        if found.is_empty() {
            return Some(Subject::Quarantine.ok(node, "none: nobody has used it yet"));
        }
        let Some(marker) = Marker::parse(found) else {
            return Some(Subject::Quarantine.fail(
                node,
                "something else is at the key of the marker",
                "choose another prefix= in the URL",
            ));
        };
        let look = MarkerContext {
            run: &facts.run,
            now_ms: facts.now_ms,
            uptime_ms: facts.uptime_s.saturating_mul(1_000),
            lag_ms: self.answers.lag.map_or(0, millis),
            max_lease_ms: millis(self.config.max_lease),
            failover: self.config.failover,
            remembered: None,
        };
        let (judged, begins) = marker::judge(Some(&marker), look);
        let left_s = judged.until_ms.saturating_sub(facts.now_ms).div_ceil(1_000);
        Some(match (left_s, begins) {
            (0, _) => Subject::Quarantine.ok(node, "none"),
            (_, None) => Subject::Quarantine.warn(
                node,
                format!("in force for {left_s} s more: nothing is granted until then"),
                "wait; those who wait for a lock are granted it then, in their order",
            ),
            (_, Some(reason)) => Subject::Quarantine.warn(
                node,
                format!(
                    "{reason}: nothing will be granted for {left_s} s from the next connect on"
                ),
                "connect once (taketurns ls), so that it begins now",
            ),
        })
    }
}
