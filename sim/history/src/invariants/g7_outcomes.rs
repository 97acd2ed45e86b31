//! G7: whatever is lost, late, doubled or out of order, each operation has one outcome and no life
//! after it.

use std::collections::BTreeMap;

use super::Findings;
use crate::{Event, Ops, What};

#[derive(Default)]
struct Fate {
    outcomes: u32,
    freed: bool,
}

pub(super) fn check(events: &[Event], ops: &Ops<'_>, findings: &mut Findings) {
    let mut fates: BTreeMap<u64, Fate> = BTreeMap::new();
    for event in events {
        if event.what == What::Forgot {
            // Whom it buried it may know no more.
            fates.values_mut().for_each(|fate| fate.freed = false);
            continue;
        }
        let Some(op) = event.what.op() else { continue };
        let lock = ops.all.get(&op).map_or("?", |op| op.lock);
        let fate = fates.entry(op).or_default();
        let mut wrong = |what: String| findings.add(event.at_us, lock, what);
        match event.what {
            What::Granted { .. } | What::Failed { .. } | What::Cancelled { .. } => {
                fate.outcomes += 1;
                if fate.outcomes > 1 {
                    wrong(format!("operation {op} has another outcome: {:?}", event.what));
                }
            }
            What::Minted { .. } | What::Placed { .. } if fate.freed => {
                wrong(format!("operation {op} is over, and yet: {:?}", event.what));
            }
            What::Freed { .. } => fate.freed = true,
            What::Again { .. } => fate.freed = false,
            _ => {}
        }
    }
}
