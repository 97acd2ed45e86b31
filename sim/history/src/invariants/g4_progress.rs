//! G4: once nothing goes wrong any more, everybody who waits gets its turn, and keeps it. And at any
//! time a lock that nobody holds keeps nobody waiting, nor is it given to who is taken for dead.
//!
//! How long a turn may take to come is for whoever made the history to decide: by its end it must have
//! happened; but a client that is stopped in the end can't take a turn, whoever gives it. The rest is
//! known only where the keeper's own notes are in the history.

use std::collections::{BTreeMap, BTreeSet};

use super::Findings;
use crate::{Event, Ops, What};

pub(super) fn check(events: &[Event], ops: &Ops<'_>, findings: &mut Findings) {
    if let Some(calm) = events.iter().find(|event| event.what == What::Calm) {
        in_the_end(calm.at_us, events, ops, findings);
        kept(calm.at_us, events, ops, findings);
    }
    at_the_keeper(events, ops, findings);
}

fn in_the_end(calm_us: u64, events: &[Event], ops: &Ops<'_>, findings: &mut Findings) {
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
            && op.asked_us > calm_us
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

/// After a failure a client tries again within this, and what it sent before it takes for lost within
/// two waiter leases.
const TRIES_AGAIN_US: u64 = 1_500_000;

/// Whoever has so much of a lease left can renew it when nothing is wrong.
const RENEWS_IN_US: u64 = 50_000;

/// Nobody's lease runs out when it could have been renewed. On real machines, which may stand still
/// without a word, that is not known.
fn kept(calm_us: u64, events: &[Event], ops: &Ops<'_>, findings: &mut Findings) {
    if !events.iter().any(|event| matches!(event.what, What::Minted { .. })) {
        return;
    }
    let late_us = calm_us + 2 * ops.waiter_lease_us + TRIES_AGAIN_US;
    for event in events.iter().filter(|event| event.at_us >= calm_us) {
        let What::Lost { op, cause } = &event.what else { continue };
        let Some(op) = ops.all.get(op).filter(|_| cause == "Expired") else { continue };
        let in_time = |granted_us: u64| {
            let left_us = op.claims.first().map_or(0, |(_, until_us)| until_us - granted_us);
            granted_us > calm_us && left_us >= RENEWS_IN_US
        };
        let is_new = op.granted_us.is_some_and(in_time);
        if is_new || op.claims.iter().any(|(_, until_us)| *until_us > late_us) {
            let what = format!("operation {} lost it, though nothing was wrong", op.op);
            findings.add(event.at_us, op.lock, what);
        }
    }
}

/// What the keeper of a lock was told of it.
#[derive(Default)]
struct Told {
    holding: BTreeSet<u64>,
    waiting: BTreeSet<u64>,
    lapsed: BTreeSet<u64>,
    /// Its keeper notes what it grants.
    is_noted: bool,
}

fn at_the_keeper(events: &[Event], ops: &Ops<'_>, findings: &mut Findings) {
    let mut locks: BTreeMap<&str, Told> = BTreeMap::new();
    // What it still knows of holders and places, once it forgot something, is not known.
    let mut forgot = false;
    for event in events {
        if event.what == What::Forgot {
            forgot = true;
            locks.values_mut().for_each(|told| told.lapsed.clear());
        }
        let Some(of) = event.what.op().and_then(|op| ops.all.get(&op)) else { continue };
        let Told { holding, waiting, lapsed, is_noted } = locks.entry(of.lock).or_default();
        let mut wrong = |what: String| findings.add(event.at_us, of.lock, what);
        match &event.what {
            What::Placed { quarantined, .. } => {
                lapsed.remove(&of.op);
                let is_new = waiting.insert(of.op);
                let is_free = *is_noted && holding.is_empty() && !quarantined && !forgot;
                if is_new && waiting.len() == 1 && is_free {
                    wrong(format!("operation {} has to wait, and nobody holds it", of.op));
                }
            }
            What::Minted { .. } => {
                if lapsed.remove(&of.op) {
                    wrong(format!("operation {} was granted it, and had lapsed", of.op));
                }
                waiting.remove(&of.op);
                holding.insert(of.op);
                *is_noted = true;
            }
            What::Lapsed { .. } => {
                waiting.remove(&of.op);
                lapsed.insert(of.op);
            }
            What::Heard { .. } => {
                // It may have its place still.
                lapsed.remove(&of.op);
                waiting.insert(of.op);
            }
            What::Freed { .. } => {
                holding.remove(&of.op);
                waiting.remove(&of.op);
                lapsed.remove(&of.op);
            }
            _ => {}
        }
    }
}
