//! The marker: a key on each server that says which run of it was the last to be known, and until
//! when nothing is granted there.
//!
//! ```text
//!   no marker                             first use: grants at once
//!   the marker names this run             nothing was lost: grants
//!   it names another run                  restarted or failed over: what was granted last may be
//!                                         forgotten, so nothing is granted for as long as the
//!                                         longest lease may last
//!   no marker, or a younger one than      state was lost (FLUSHALL): the same
//!   the one that we remember
//!   no marker, and we distrust that       the same: the other nodes of a quorum know better
//! ```
//!
//! A marker is only ever changed by compare-and-set, so all clients of a server agree on it. What is
//! here is pure: [`super::verifier`] talks to the server.

use std::fmt;
use std::time::Duration;

use taketurns_core::limits;

use crate::engine::redis::url::Failover;

/// How many runs of the past a marker remembers.
const KNOWN_MAX: usize = 8;
/// The first word of a marker, so that another form can be told from this one.
pub(crate) const FORM: &str = "taketurns4";

/// Scripts print no number of more digits than this one, with what may be added to it, as it is. In
/// the year 3000 or so.
const TIME_MS_MAX: u64 = 33_000_000_000_000;

/// What the marker key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    /// The run of the server that it was written for.
    pub(crate) run: String,
    /// When it was first made, on the server's clock. Another time means another marker: all that
    /// was there before is gone.
    pub(crate) born_ms: u64,
    /// Until then nothing is granted.
    pub(crate) until_ms: u64,
    /// No client of this store has asked for longer leases.
    pub(crate) max_lease_ms: u64,
    /// Runs before this one, the latest first.
    pub(crate) known: Vec<String>,
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, born_ms, until_ms, max_lease_ms, known } = self;
        write!(f, "{FORM} {run} {born_ms} {until_ms} {max_lease_ms} {}", known.join(","))
    }
}

impl Marker {
    /// Reads one back. `None` if it is something else, or says what none of ours does.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let [FORM, run, born_ms, until_ms, max_lease_ms, known] = words[..] else { return None };
        let number = |text: &str, max: u64| text.parse().ok().filter(|number| *number <= max);
        Some(Self {
            run: run.to_owned(),
            born_ms: number(born_ms, TIME_MS_MAX)?,
            until_ms: number(until_ms, TIME_MS_MAX)?,
            max_lease_ms: number(max_lease_ms, limits::LEASE_MS_MAX)?,
            known: known.split(',').filter(|run| !run.is_empty()).map(str::to_owned).collect(),
        })
    }
}

/// What a client knows when it looks at a marker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarkerContext<'a> {
    /// The server's run, and its clock.
    pub(crate) run: &'a str,
    pub(crate) now_ms: u64,
    /// For how long it has been up.
    pub(crate) uptime_ms: u64,
    /// For how long an old master may have gone on taking writes.
    pub(crate) lag_ms: u64,
    /// The longest lease that this client may ask for.
    pub(crate) max_lease_ms: u64,
    pub(crate) failover: Failover,
    /// The marker that this client saw here the last time.
    pub(crate) remembered: Option<MarkerMemory>,
}

/// What a client keeps of a marker, for when it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MarkerMemory {
    /// When it was made.
    pub(crate) born_ms: u64,
    /// The longest lease of all clients. Others may hold for longer than we may.
    pub(crate) max_lease_ms: u64,
}

impl MarkerMemory {
    pub(crate) fn of(marker: &Marker) -> Self {
        Self { born_ms: marker.born_ms, max_lease_ms: marker.max_lease_ms }
    }
}

impl MarkerContext<'_> {
    /// The longest lease that we know of without the marker.
    fn max_lease_ms(&self) -> u64 {
        self.remembered.map_or(0, |marker| marker.max_lease_ms).max(self.max_lease_ms)
    }

    /// The end of a quarantine that begins now.
    fn after(&self, max_lease_ms: u64) -> u64 {
        self.now_ms.saturating_add(max_lease_ms).saturating_add(self.lag_ms)
    }
}

/// Why nothing is granted for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Another run of the server, or another server.
    NewRun,
    /// What was there is gone.
    StateLost,
    /// Nothing is known of a server that is young.
    Young,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::NewRun => "the server was restarted or failed over",
            Reason::StateLost => "the server has lost its state",
            Reason::Young => "the server is young, and nothing is known of it",
        })
    }
}

/// Returns the marker that the server should have, and the reason if it begins a quarantine. If the
/// marker is unchanged, nothing needs to be written.
pub(crate) fn judge(found: Option<&Marker>, look: MarkerContext<'_>) -> (Marker, Option<Reason>) {
    let Some(found) = found else { return make(look) };
    let mut marker = found.clone();
    marker.max_lease_ms = marker.max_lease_ms.max(look.max_lease_ms());
    if found.run != look.run {
        marker.run = look.run.to_owned();
        marker.known.insert(0, found.run.clone());
        marker.known.truncate(KNOWN_MAX);
        marker.until_ms = look.after(marker.max_lease_ms);
        return (marker, Some(Reason::NewRun));
    }
    let is_another = look.remembered.is_some_and(|known| known.born_ms != found.born_ms);
    // Everything granted before it was made is over by then.
    let safe_from_ms = found.born_ms.saturating_add(marker.max_lease_ms);
    if is_another && found.until_ms < safe_from_ms && look.now_ms < safe_from_ms {
        marker.until_ms = safe_from_ms;
        return (marker, Some(Reason::StateLost));
    }
    let far_ms = limits::quarantine_ms_max(marker.max_lease_ms);
    if marker.until_ms.saturating_sub(look.now_ms) > far_ms {
        // Only ever pulled in: with a long lag even one that begins now ends farther away than that,
        // and would never end if each look began it anew.
        marker.until_ms = marker.until_ms.min(look.after(marker.max_lease_ms));
    }
    (marker, None)
}

/// The first marker of a server.
fn make(look: MarkerContext<'_>) -> (Marker, Option<Reason>) {
    let max_lease_ms = look.max_lease_ms();
    let young_ms = max_lease_ms.saturating_sub(look.uptime_ms);
    let (wait_ms, reason) = if look.remembered.is_some() {
        (max_lease_ms, Some(Reason::StateLost))
    } else if look.failover == Failover::Strict && young_ms > 0 {
        (young_ms, Some(Reason::Young))
    } else {
        (0, None)
    };
    let marker = Marker {
        run: look.run.to_owned(),
        born_ms: look.now_ms,
        until_ms: if wait_ms > 0 { look.now_ms.saturating_add(wait_ms) } else { 0 },
        max_lease_ms,
        known: Vec::new(),
    };
    (marker, reason)
}

/// What a server looks like to one who has not used it yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkerSighting {
    /// Nobody has used it with this prefix, or it has forgotten that.
    Nothing,
    /// It is in use.
    Marker {
        /// For how long, on its own clock.
        age: Duration,
        /// It grants nothing now, or won't as soon as a client verifies it.
        in_quarantine: bool,
        /// The longest lease that any client of it allows.
        max_lease: Duration,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: MarkerContext<'static> = MarkerContext {
        run: "now",
        now_ms: 1_000_000,
        uptime_ms: 5_000,
        lag_ms: 0,
        max_lease_ms: 60_000,
        failover: Failover::Quarantine,
        remembered: None,
    };

    /// Of a client whose leases were no longer than ours.
    fn remembered(born_ms: u64) -> Option<MarkerMemory> {
        Some(MarkerMemory { born_ms, max_lease_ms: 60_000 })
    }

    fn marker(run: &str) -> Marker {
        Marker {
            run: run.into(),
            born_ms: 900_000,
            until_ms: 0,
            max_lease_ms: 60_000,
            known: vec!["before".into()],
        }
    }

    #[test]
    fn what_was_written_is_read_back() {
        for known in [vec![], vec!["a".to_owned()], vec!["a".to_owned(), "b".to_owned()]] {
            let marker = Marker { known, ..marker("x") };
            assert_eq!(Marker::parse(&marker.to_string()), Some(marker));
        }
        for text in ["", "x", "taketurns4 a 1 2", "taketurns3 a 1 2 3 ", "taketurns4 a b 2 3 "] {
            assert_eq!(Marker::parse(text), None, "{text:?}");
        }
        for absurd in ["99999999999999 2 3", "1 99999999999999 3", "1 2 86400001"] {
            assert_eq!(Marker::parse(&format!("taketurns4 a {absurd} ")), None, "{absurd}");
        }
    }

    #[test]
    fn a_first_use_grants_at_once() {
        let (marker, reason) = judge(None, LOOK);
        assert_eq!((marker.until_ms, marker.born_ms, reason), (0, 1_000_000, None));
    }

    #[test]
    fn a_server_that_is_as_we_left_it_grants() {
        let look = MarkerContext { remembered: remembered(900_000), ..LOOK };
        assert_eq!(judge(Some(&marker("now")), look), (marker("now"), None));
    }

    #[test]
    fn another_run_is_quarantined_for_the_longest_lease_and_the_lag() {
        let look = MarkerContext { lag_ms: 10_000, ..LOOK };
        let (marker, reason) = judge(Some(&marker("old")), look);
        assert_eq!(reason, Some(Reason::NewRun));
        assert_eq!(marker.until_ms, 1_000_000 + 60_000 + 10_000);
        assert_eq!((marker.run.as_str(), marker.born_ms), ("now", 900_000));
        assert_eq!(marker.known, ["old", "before"]);
    }

    #[test]
    fn the_longest_lease_of_all_clients_counts() {
        let long = Marker { max_lease_ms: 90_000, ..marker("old") };
        assert_eq!(judge(Some(&long), LOOK).0.until_ms, 1_090_000);
        let look = MarkerContext { max_lease_ms: 120_000, ..LOOK };
        assert_eq!(judge(Some(&long), look).0.until_ms, 1_120_000);
        let (raised, reason) = judge(Some(&marker("now")), look);
        assert_eq!((raised.max_lease_ms, raised.until_ms, reason), (120_000, 0, None));
    }

    #[test]
    fn a_marker_that_is_gone_means_that_state_was_lost() {
        let (marker, reason) = judge(None, MarkerContext { remembered: remembered(1), ..LOOK });
        assert_eq!((marker.until_ms, reason), (1_060_000, Some(Reason::StateLost)));
    }

    #[test]
    fn a_marker_younger_than_ours_means_that_state_was_lost() {
        let look = MarkerContext { remembered: remembered(1), ..LOOK };
        let found = Marker { born_ms: 999_000, ..marker("now") };
        let (judged, reason) = judge(Some(&found), look);
        assert_eq!((judged.until_ms, reason), (999_000 + 60_000, Some(Reason::StateLost)));
        assert_eq!(judge(Some(&judged), look), (judged.clone(), None), "once is enough");
        let old = Marker { born_ms: 900_000, ..found };
        assert_eq!(judge(Some(&old), look), (old.clone(), None), "all those leases are over");
    }

    #[test]
    fn what_others_may_have_held_is_remembered_with_the_marker() {
        let long = Some(MarkerMemory { born_ms: 1, max_lease_ms: 600_000 });
        let look = MarkerContext { remembered: long, ..LOOK };
        let (made, _) = judge(None, look);
        assert_eq!((made.until_ms, made.max_lease_ms), (1_600_000, 600_000));
        let found = Marker { born_ms: 999_000, ..marker("now") };
        assert_eq!(judge(Some(&found), look).0.until_ms, 999_000 + 600_000);
        assert_eq!(judge(Some(&marker("old")), look).0.until_ms, 1_600_000);
    }

    #[test]
    fn a_quarantine_meant_for_another_clock_is_pulled_in() {
        let until = |until_ms| judge(Some(&Marker { until_ms, ..marker("now") }), LOOK).0.until_ms;
        assert_eq!(until(1_070_000), 1_070_000, "somebody knows of a lag");
        assert_eq!(until(4_600_000), 1_060_000, "the clock was set back by an hour");
    }

    #[test]
    fn a_quarantine_for_a_long_lag_ends_when_it_was_meant_to() {
        let look = |now_ms| MarkerContext { lag_ms: 600_000, now_ms, ..LOOK };
        let (begun, _) = judge(Some(&marker("old")), look(1_000_000));
        assert_eq!(begun.until_ms, 1_000_000 + 60_000 + 600_000);
        assert_eq!(judge(Some(&begun), look(1_000_500)), (begun.clone(), None), "others agree");
    }

    #[test]
    fn absurd_numbers_do_not_overflow() {
        let absurd = |run: &str| Marker {
            born_ms: u64::MAX,
            until_ms: u64::MAX,
            max_lease_ms: u64::MAX,
            ..marker(run)
        };
        for run in ["now", "old"] {
            let look = MarkerContext { remembered: remembered(1), ..LOOK };
            assert_eq!(judge(Some(&absurd(run)), look).0.until_ms, u64::MAX);
        }
    }

    #[test]
    fn strict_trusts_no_young_server() {
        let strict = MarkerContext { failover: Failover::Strict, ..LOOK };
        let (marker, reason) = judge(None, strict);
        assert_eq!((marker.until_ms, reason), (1_055_000, Some(Reason::Young)));
        let old = MarkerContext { uptime_ms: 60_000, ..strict };
        assert_eq!(judge(None, old).0.until_ms, 0);
    }

    #[test]
    fn no_more_than_eight_runs_are_remembered() {
        let mut found = marker("0");
        for run in 1..20 {
            found = judge(Some(&found), MarkerContext { run: &run.to_string(), ..LOOK }).0;
        }
        assert_eq!(found.known.len(), 8);
        assert_eq!(found.known[0], "18");
    }
}
