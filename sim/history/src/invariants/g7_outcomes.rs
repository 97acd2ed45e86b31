//! G7: whatever is lost, late, doubled or out of order, each operation has one outcome and no life
//! after it.

use std::collections::BTreeMap;

use super::Findings;
use crate::{Event, Ops, What};

#[derive(Default)]
struct Fate {
    outcomes: u32,
    minted: Option<u64>,
    freed: bool,
}

pub(super) fn check(events: &[Event], ops: &Ops<'_>, findings: &mut Findings) {
    let mut fates: BTreeMap<u64, Fate> = BTreeMap::new();
    for event in events {
        if event.what == What::Forgot {
            // What it minted and what it buried it may know no more.
            fates.values_mut().for_each(|fate| (fate.minted, fate.freed) = (None, false));
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
            What::Minted { token, .. } => {
                if fate.freed {
                    wrong(format!("operation {op} is over, and was granted again"));
                }
                if fate.minted.replace(token).is_some_and(|before| before != token) {
                    wrong(format!("operation {op} was granted a second time"));
                }
            }
            What::Placed { .. } if fate.freed => {
                wrong(format!("operation {op} is over, and was given a place"));
            }
            What::Freed { .. } => fate.freed = true,
            _ => {}
        }
    }
}
