//! G4: once nothing goes wrong any more, everybody who waits gets its turn.
//!
//! How long that may take is for whoever made the history to decide: by its end it must have happened.

use super::Findings;
use crate::{Event, Ops, What};

pub(super) fn check(events: &[Event], ops: &Ops<'_>, findings: &mut Findings) {
    if !events.iter().any(|event| event.what == What::Calm) {
        return;
    }
    let end_us = events.last().map_or(0, |event| event.at_us);
    for op in ops.all.values().filter(|op| op.waits_at(end_us)) {
        let since_us = end_us - op.asked_us;
        let what = format!("operation {} has waited for {since_us} µs, and still does", op.op);
        findings.add(end_us, op.lock, what);
    }
}
