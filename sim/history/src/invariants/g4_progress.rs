//! G4: once nothing goes wrong any more, everybody who waits gets its turn.
//!
//! How long that may take is for whoever made the history to decide: by its end it must have happened.
//! A client that is stopped in the end can't take a turn, whoever gives it.

use std::collections::BTreeSet;

use super::Findings;
use crate::{Event, Ops, What};

pub(super) fn check(events: &[Event], ops: &Ops<'_>, findings: &mut Findings) {
    let Some(calm) = events.iter().find(|event| event.what == What::Calm) else { return };
    let end_us = events.last().map_or(0, |event| event.at_us);
    let stopped = stopped(events);
    for op in ops.all.values().filter(|op| op.waits_at(end_us) && !stopped.contains(&op.client)) {
        let since_us = end_us - op.asked_us;
        let what = format!("operation {} has waited for {since_us} µs, and still does", op.op);
        findings.add(end_us, op.lock, what);
    }
    for event in events {
        let What::Failed { op, error } = &event.what else { continue };
        if let Some(op) = ops.all.get(op)
            && op.endless
            && op.asked_us > calm.at_us
        {
            let what = format!("operation {} was to wait for its turn, and has {error}", op.op);
            findings.add(event.at_us, op.lock, what);
        }
    }
}

/// The clients that are stopped in the end.
fn stopped(events: &[Event]) -> BTreeSet<u32> {
    let mut stopped = BTreeSet::new();
    for event in events {
        match event.what {
            What::Paused { client } => stopped.insert(client),
            What::Resumed { client } => stopped.remove(&client),
            _ => false,
        };
    }
    stopped
}
