//! G7: whatever is lost, late, doubled or out of order, each operation is asked once, has one outcome
//! and no life after it.

use std::collections::BTreeMap;

use super::Findings;
use crate::{EventKind, HistoryEvent, Ops};

#[derive(Default)]
struct Fate {
    asked: bool,
    outcomes: u32,
    /// What the keeper granted it.
    minted: Vec<u64>,
    /// How often the keeper had forgotten all when it was told that the operation is over.
    freed_in: Option<u32>,
}

pub(super) fn check(events: &[HistoryEvent], ops: &Ops<'_>, findings: &mut Findings) {
    let mut fates: BTreeMap<u64, Fate> = BTreeMap::new();
    let mut forgot = 0;
    for event in events {
        if event.what == EventKind::Forgot {
            forgot += 1;
        }
        let Some(op) = event.what.op() else { continue };
        let lock = ops.all.get(&op).map_or("?", |op| op.lock);
        let fate = fates.entry(op).or_default();
        let mut wrong = |what: String| findings.add(event.at_us, lock, what);
        // What it buried it may know no more.
        let is_over = fate.freed_in == Some(forgot);
        match &event.what {
            EventKind::Asked { .. } => {
                if fate.asked {
                    wrong(format!("operation {op} was asked twice"));
                }
                fate.asked = true;
            }
            EventKind::Granted { .. }
            | EventKind::Failed { .. }
            | EventKind::DoneBefore { .. }
            | EventKind::Cancelled { .. } => {
                fate.outcomes += 1;
                if !fate.asked {
                    wrong(format!("operation {op} has an outcome, and nobody asked"));
                }
                if fate.outcomes > 1 {
                    wrong(format!("operation {op} has another outcome: {}", word(&event.what)));
                }
                if let EventKind::Granted { token: Some(token), .. } = &event.what
                    && !fate.minted.is_empty()
                    && !fate.minted.contains(token)
                {
                    wrong(format!("operation {op} has token {token}, which it was never granted"));
                }
            }
            EventKind::Minted { token, .. } if !fate.minted.contains(token) => {
                if is_over {
                    wrong(format!("operation {op} is over, and was granted again"));
                }
                // Not wrong if it was granted before: that may have run out, while it was asking again.
                fate.minted.push(*token);
            }
            EventKind::Placed { .. } if is_over => {
                wrong(format!("operation {op} is over, and was given a place"));
            }
            EventKind::Freed { .. } => fate.freed_in = Some(forgot),
            EventKind::Again { .. } => fate.freed_in = None,
            _ => {}
        }
    }
}

fn word(what: &EventKind) -> &'static str {
    match what {
        EventKind::Granted { .. } => "granted",
        EventKind::Failed { .. } => "failed",
        EventKind::DoneBefore { .. } => "done before",
        _ => "cancelled",
    }
}
