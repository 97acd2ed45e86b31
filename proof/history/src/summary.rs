//! What there is in a history, in figures.

mod stalls;
mod table;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::invariants::{self, HistoryVerdict};
use crate::{EventKind, Guarantee, HistoryEvent, Op, Ops, Violation};

pub use stalls::Stall;

/// What there is in a history. As text it is a table for people; its JSON is for scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// What was tried.
    pub title: String,
    /// How many events there are.
    pub events: u64,
    /// From the first to the last of them.
    pub lasted_us: u64,
    /// What was asked, and what came of it.
    pub operations: Operations,
    /// How turns were shared.
    pub turns: TurnShare,
    /// From the asking until the guard was there.
    pub waits: Latencies,
    /// From when a lock was last let go of until the guard of one that waited was there.
    pub hand_overs: Latencies,
    /// The longest time in which somebody waited for a lock and nobody held it.
    pub longest_stall: Option<Stall>,
    /// What went wrong, by its kind.
    pub faults: BTreeMap<String, FaultCount>,
    /// Writes to the resource that looks at tokens.
    pub fenced: Writes,
    /// Writes to the one that does not.
    pub unfenced: Writes,
    /// For how many grants it could be seen from outside whether they overtook somebody.
    pub order_judged: u64,
    /// What was found, by what is promised.
    pub guarantees: Vec<GuaranteeSummary>,
    /// Everything that was found, in the order in which it was seen.
    #[serde(skip)]
    pub violations: Vec<Violation>,
}

/// What was asked, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Operations {
    /// Acquires.
    pub asked: u64,
    /// Those that had a guard.
    pub granted: u64,
    /// Those that had none, by the kind of error.
    pub failed: BTreeMap<String, u64>,
    /// Those whose future was dropped.
    pub cancelled: u64,
    /// Those without an outcome: their client died, or they still wait.
    pub open: u64,
    /// Guards that said they are lost.
    pub lost: u64,
}

/// How turns were shared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TurnShare {
    /// Clients that asked for something.
    pub clients: u64,
    /// The turns of who had fewest.
    pub min: u64,
    /// The turns of who had most.
    pub max: u64,
}

/// How long something took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Latencies {
    /// How often.
    pub count: u64,
    /// Half of them took no longer.
    pub p50_us: u64,
    /// All but one in a hundred took no longer.
    pub p99_us: u64,
    /// None took longer.
    pub max_us: u64,
}

/// Faults of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FaultCount {
    /// How many.
    pub count: u64,
    /// For how long in all.
    pub total_us: u64,
    /// The longest time without any grant that one of them began in.
    pub no_grant_us: u64,
}

/// Writes to a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Writes {
    /// Let through.
    pub accepted: u64,
    /// Not let through.
    pub refused: u64,
    /// Let through though another had written in between.
    pub hurt: u64,
}

/// What was found of one guarantee.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GuaranteeSummary {
    /// Which.
    pub guarantee: Guarantee,
    /// How often it was not kept.
    pub violations: u64,
    /// How often it was not kept when it was not promised.
    pub excused: u64,
}

impl Summary {
    /// Checks the history, and counts. The events must be in the order of their times.
    pub fn of(events: &[HistoryEvent]) -> Self {
        let ops = Ops::of(events);
        let HistoryVerdict { violations, order_judged } = invariants::judge(events, &ops);
        let mut summary = Self {
            title: title(events),
            events: events.len() as u64,
            lasted_us: lasted_us(events),
            operations: Operations::default(),
            turns: turns(&ops),
            waits: Latencies::of(ops.all.values().filter_map(wait_us).collect()),
            hand_overs: Latencies::of(hand_overs(&ops)),
            longest_stall: stalls::longest(events, &ops),
            faults: BTreeMap::new(),
            fenced: Writes::default(),
            unfenced: Writes::default(),
            order_judged,
            guarantees: Guarantee::ALL.map(|guarantee| found(guarantee, &violations)).into(),
            violations,
        };
        for event in events {
            summary.count(&event.what);
        }
        let outcomes = &mut summary.operations;
        outcomes.lost = ops.all.values().filter(|op| op.lost_us.is_some()).count() as u64;
        let closed = outcomes.granted + outcomes.cancelled + outcomes.failed.values().sum::<u64>();
        outcomes.open = outcomes.asked.saturating_sub(closed);
        let granted_us = granted_us(&ops);
        for fault in invariants::faults(events) {
            let faults = summary.faults.entry(fault.kind.to_owned()).or_default();
            faults.count += 1;
            faults.total_us += fault.until_us - fault.from_us;
            faults.no_grant_us = faults.no_grant_us.max(gap_us(&granted_us, fault.from_us));
        }
        summary
    }

    /// How many things were found that can't be and have no excuse.
    pub fn unexcused(&self) -> u64 {
        self.guarantees.iter().map(|found| found.violations).sum()
    }

    fn count(&mut self, what: &EventKind) {
        match what {
            EventKind::Asked { .. } => self.operations.asked += 1,
            EventKind::Granted { .. } => self.operations.granted += 1,
            EventKind::Cancelled { .. } => self.operations.cancelled += 1,
            EventKind::Failed { error, .. } => {
                *self.operations.failed.entry(error.clone()).or_default() += 1;
            }
            EventKind::DoneBefore { .. } => {
                *self.operations.failed.entry("DoneBefore".to_owned()).or_default() += 1;
            }
            EventKind::Wrote { fenced, accepted, stale, .. } => {
                let writes = if *fenced { &mut self.fenced } else { &mut self.unfenced };
                writes.accepted += u64::from(*accepted);
                writes.refused += u64::from(!*accepted);
                writes.hurt += u64::from(*accepted && *stale);
            }
            _ => {}
        }
    }
}

impl Latencies {
    fn of(mut times_us: Vec<u64>) -> Self {
        times_us.sort_unstable();
        let per_cent = |share: usize| {
            let index = (times_us.len() * share).div_ceil(100).saturating_sub(1);
            times_us.get(index).copied().unwrap_or_default()
        };
        Self {
            count: times_us.len() as u64,
            p50_us: per_cent(50),
            p99_us: per_cent(99),
            max_us: per_cent(100),
        }
    }
}

/// What was tried, as the first event says.
pub(crate) fn title(events: &[HistoryEvent]) -> String {
    let title = events.iter().find_map(|event| match &event.what {
        EventKind::Begins { title, .. } => Some(title.clone()),
        _ => None,
    });
    title.unwrap_or_default()
}

fn lasted_us(events: &[HistoryEvent]) -> u64 {
    match (events.first(), events.last()) {
        (Some(first), Some(last)) => last.at_us - first.at_us,
        _ => 0,
    }
}

fn found(guarantee: Guarantee, violations: &[Violation]) -> GuaranteeSummary {
    let of_it = violations.iter().filter(|violation| violation.guarantee == guarantee);
    let (excused, unexcused): (Vec<_>, Vec<_>) = of_it.partition(|v| v.excused_by.is_some());
    GuaranteeSummary {
        guarantee,
        violations: unexcused.len() as u64,
        excused: excused.len() as u64,
    }
}

fn turns(ops: &Ops<'_>) -> TurnShare {
    let mut of: BTreeMap<u32, u64> = BTreeMap::new();
    for op in ops.all.values() {
        *of.entry(op.client).or_default() += u64::from(op.granted_us.is_some());
    }
    TurnShare {
        clients: of.len() as u64,
        min: of.values().copied().min().unwrap_or_default(),
        max: of.values().copied().max().unwrap_or_default(),
    }
}

fn wait_us(op: &Op<'_>) -> Option<u64> {
    op.granted_us.map(|granted_us| granted_us - op.asked_us)
}

/// When somebody was granted something.
fn granted_us(ops: &Ops<'_>) -> Vec<u64> {
    let mut times_us: Vec<u64> = ops.all.values().filter_map(|op| op.granted_us).collect();
    times_us.sort_unstable();
    times_us
}

/// From the last grant up to this time until the next one. Zero if there is no grant on one of the two sides.
fn gap_us(granted_us: &[u64], at_us: u64) -> u64 {
    let (before, after) =
        granted_us.split_at(granted_us.partition_point(|&granted_us| granted_us <= at_us));
    before.last().zip(after.first()).map_or(0, |(last, next)| next - last)
}

fn hand_overs(ops: &Ops<'_>) -> Vec<u64> {
    let mut times_us = Vec::new();
    for of_lock in ops.by_lock().into_values() {
        let held = || of_lock.iter().filter(|op| op.granted_us.is_some());
        let mut let_go_us: Vec<u64> = held().filter_map(|op| op.ended_us).collect();
        let_go_us.sort_unstable();
        for op in held() {
            let Some(granted_us) = op.granted_us else { continue };
            let before = let_go_us.partition_point(|&at_us| at_us <= granted_us);
            if let Some(&free_us) = before.checked_sub(1).and_then(|index| let_go_us.get(index))
                && op.asked_us < free_us
            {
                times_us.push(granted_us - free_us);
            }
        }
    }
    times_us
}
