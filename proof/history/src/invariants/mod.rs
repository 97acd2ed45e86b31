//! What must be true of every history: one file per guarantee.

mod g1_exclusion;
mod g2_tokens;
mod g3_lapses;
mod g3_order;
mod g4_progress;
mod g5_lost;
mod g6_residue;
mod g7_outcomes;
mod g8_once;
mod refreshes;
mod windows;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{EventKind, HistoryAsk, HistoryEvent, Op, Ops};
pub(crate) use refreshes::PlaceRefreshes;
pub(crate) use windows::{FaultTarget, FaultWindow, Windows, faults};

/// What is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Guarantee {
    /// At most one holder, or as many as the kind allows.
    G1,
    /// Tokens strictly increase in the order of grants.
    G2,
    /// No live waiter is overtaken.
    G3,
    /// Who waits gets its turn.
    G4,
    /// Who lost the lock knows before anyone else is granted it, and it stays lost.
    G5,
    /// Nothing is left behind.
    G6,
    /// What is lost, late, doubled or out of order changes no outcome.
    G7,
    /// Work is done at most once until that is forgotten, and nobody is granted it in between.
    G8,
    /// The resource that looks at tokens is never hurt.
    Fence,
}

impl Guarantee {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::G1,
        Self::G2,
        Self::G3,
        Self::G4,
        Self::G5,
        Self::G6,
        Self::G7,
        Self::G8,
        Self::Fence,
    ];

    /// What it promises, in a few words.
    pub fn words(self) -> &'static str {
        match self {
            Self::G1 => "no more holders than the kind allows",
            Self::G2 => "tokens grow with every grant",
            Self::G3 => "no live waiter is overtaken",
            Self::G4 => "who waits gets its turn",
            Self::G5 => "lost before the next is granted, and for good",
            Self::G6 => "nothing is left behind",
            Self::G7 => "one outcome each, whatever the network does",
            Self::G8 => "work is done once",
            Self::Fence => "the fenced resource is never hurt",
        }
    }
}

/// Something that can't be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What was promised.
    pub guarantee: Guarantee,
    /// When it was seen.
    pub at_us: u64,
    /// The lock, if it concerns one.
    pub lock: String,
    /// What was seen, in words.
    pub what: String,
    /// The fault for which the promise is not given, if it was one's time.
    pub excused_by: Option<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { guarantee, at_us, lock, what, excused_by } = self;
        write!(f, "{guarantee:?} at {at_us} µs")?;
        if !lock.is_empty() {
            write!(f, ", lock {lock}")?;
        }
        write!(f, ": {what}")?;
        match excused_by {
            Some(fault) => write!(f, " (not promised after {fault})"),
            None => Ok(()),
        }
    }
}

/// Where checks put what they find.
pub(crate) struct Findings {
    guarantee: Guarantee,
    found: Vec<Violation>,
}

impl Findings {
    fn add(&mut self, at_us: u64, lock: &str, what: String) {
        let (guarantee, lock) = (self.guarantee, lock.to_owned());
        self.found.push(Violation { guarantee, at_us, lock, what, excused_by: None });
    }
}

/// What came of the checks.
pub struct HistoryVerdict {
    /// Everything in the history that can't be, in the order in which it was seen.
    pub violations: Vec<Violation>,
    /// For how many grants it could be seen from outside whether they overtook somebody.
    pub order_judged: u64,
}

/// Everything in the history that can't be, in the order in which it was seen. The events must be in
/// the order of their times.
pub fn check(events: &[HistoryEvent]) -> Vec<Violation> {
    judge(events, &Ops::of(events)).violations
}

/// The same for who has put the operations together already.
pub fn judge(events: &[HistoryEvent], ops: &Ops<'_>) -> HistoryVerdict {
    let mut violations = Vec::new();
    let mut order_judged = 0;
    for guarantee in Guarantee::ALL {
        let mut findings = Findings { guarantee, found: Vec::new() };
        match guarantee {
            Guarantee::G1 => g1_exclusion::check(ops, &mut findings),
            Guarantee::G2 => g2_tokens::check(events, ops, &mut findings),
            Guarantee::G3 => order_judged = g3_order::check(events, ops, &mut findings),
            Guarantee::G4 => g4_progress::check(events, ops, &mut findings),
            Guarantee::G5 => g5_lost::check(events, ops, &mut findings),
            Guarantee::G6 => g6_residue::check(events, ops, &mut findings),
            Guarantee::G7 => g7_outcomes::check(events, ops, &mut findings),
            Guarantee::G8 => g8_once::check(events, ops, &mut findings),
            Guarantee::Fence => fence(events, ops, &mut findings),
        }
        violations.append(&mut findings.found);
    }
    excuse(&mut violations, &faults(events), ops.max_lease_us);
    violations.sort_by_key(|violation| violation.at_us);
    HistoryVerdict { violations, order_judged }
}

/// What a fault brings about may show up as late as when the longest lease is over.
fn excuse(violations: &mut [Violation], faults: &[FaultWindow<'_>], max_lease_us: u64) {
    let excusing: Vec<_> = faults.iter().filter(|fault| !fault.excuses.is_empty()).collect();
    for violation in violations {
        let excuses = |fault: &&&FaultWindow<'_>| {
            let until_us = fault.until_us.saturating_add(max_lease_us);
            (fault.from_us..=until_us).contains(&violation.at_us)
                && fault.excuses.contains(&violation.guarantee)
        };
        violation.excused_by = excusing.iter().find(excuses).map(|fault| fault.to_string());
    }
}

fn fence(events: &[HistoryEvent], ops: &Ops<'_>, findings: &mut Findings) {
    for event in events {
        if let EventKind::Wrote { op, fenced: true, accepted: true, stale: true } = event.what {
            let lock = ops.all.get(&op).map_or("?", |op| op.lock);
            let what = format!("operation {op} undid what another had written");
            findings.add(event.at_us, lock, what);
        }
    }
}

/// May these two not be held at one time, whatever else is?
fn exclude_each_other(one: &Op<'_>, other: &Op<'_>) -> bool {
    match (one.ask, other.ask) {
        (HistoryAsk::Read, HistoryAsk::Read) | (HistoryAsk::Permits(_), HistoryAsk::Permits(_)) => {
            false
        }
        (HistoryAsk::Any | HistoryAsk::Member(_), HistoryAsk::Any | HistoryAsk::Member(_)) => {
            one.member == other.member
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HistoryLock, LockKind};

    pub(super) fn begins() -> EventKind {
        let locks = vec![HistoryLock { name: "l".to_owned(), kind: LockKind::Mutex }];
        let title = "by hand".to_owned();
        EventKind::Begins {
            title,
            locks,
            waiter_lease_us: 1_000_000,
            max_lease_us: 1_000_000,
            stopped_blocks: false,
        }
    }

    pub(super) fn asked(op: u64) -> EventKind {
        EventKind::Asked {
            op,
            client: 0,
            lock: "l".to_owned(),
            ask: HistoryAsk::Mutex,
            endless: false,
            keeps: false,
        }
    }

    pub(super) fn granted(op: u64, until_us: u64) -> EventKind {
        EventKind::Granted { op, token: Some(op), member: None, until_us }
    }

    pub(super) fn claim(op: u64, until_us: u64) -> EventKind {
        EventKind::Checked { op, until_us: Some(until_us) }
    }

    /// What is found to break one guarantee.
    pub(super) fn found(guarantee: Guarantee, events: Vec<(u64, EventKind)>) -> Vec<String> {
        let events: Vec<HistoryEvent> =
            events.into_iter().map(|(at_us, what)| HistoryEvent { at_us, what }).collect();
        let found = check(&events).into_iter().filter(|found| found.guarantee == guarantee);
        found.map(|violation| violation.what).collect()
    }
}
