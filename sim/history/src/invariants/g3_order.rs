//! G3: no live waiter is overtaken.
//!
//! The keeper's own order is that of `Placed`; a place ends when it is granted, given up, lapsed or
//! forgotten. From outside it is seen in a `Line`, and whoever was touched by a fault since may have
//! lost its place.

use std::collections::{BTreeMap, BTreeSet};

use super::Findings;
use crate::{Ask, Event, Op, Ops, What};

pub(super) fn check(events: &[Event], ops: &Ops<'_>, findings: &mut Findings) {
    as_placed(events, ops, findings);
    as_seen(events, ops, findings);
}

fn as_placed(events: &[Event], ops: &Ops<'_>, findings: &mut Findings) {
    let mut lines: BTreeMap<&str, Line> = BTreeMap::new();
    for event in events {
        if event.what == What::Forgot {
            lines.values_mut().for_each(Line::forget);
            continue;
        }
        let Some(of) = event.what.op().and_then(|op| ops.all.get(&op)) else { continue };
        let line = lines.entry(of.lock).or_default();
        match &event.what {
            What::Placed { number, .. } => {
                let number = *number;
                if line.numbers.insert(of.op, number).is_none()
                    && !line.unsure.remove(&of.op)
                    && let Some((_, other)) = line.waiting.range(number..).next()
                {
                    let what =
                        format!("operation {} came after {other}, and stands before it", of.op);
                    findings.add(event.at_us, of.lock, what);
                }
                line.waiting.insert(number, of.op);
            }
            What::Lapsed { .. } | What::Freed { .. } => line.leave(of.op),
            What::Minted { member, .. } => {
                // A place that lapsed is not lost until another is granted.
                let unplaced = if line.unsure.contains(&of.op) { 0 } else { u64::MAX };
                let number = line.numbers.get(&of.op).copied().unwrap_or(unplaced);
                for other in line.waiting.range(..number).filter_map(|(_, op)| ops.all.get(op)) {
                    if would_take(other, member.as_deref()) {
                        let what = format!("operation {} was granted before {}", of.op, other.op);
                        findings.add(event.at_us, of.lock, what);
                    }
                }
                line.leave(of.op);
            }
            _ => {}
        }
    }
}

/// The queue of one lock, as its keeper numbers it.
#[derive(Default)]
struct Line {
    waiting: BTreeMap<u64, u64>,
    /// The last place of each operation.
    numbers: BTreeMap<u64, u64>,
    /// Those of which it may remember an earlier place than the one that was seen.
    unsure: BTreeSet<u64>,
}

impl Line {
    fn forget(&mut self) {
        self.waiting.clear();
        self.unsure.extend(std::mem::take(&mut self.numbers).into_keys());
    }

    fn waits_at(&self, op: u64) -> Option<u64> {
        self.numbers.get(&op).copied().filter(|number| self.waiting.get(number) == Some(&op))
    }

    fn leave(&mut self, op: u64) {
        if let Some(number) = self.waits_at(op) {
            self.waiting.remove(&number);
        }
    }
}

fn as_seen(events: &[Event], ops: &Ops<'_>, findings: &mut Findings) {
    let disturbances = disturbances(events, ops.waiter_lease_us);
    for event in events {
        let What::Line { lock, ops: line } = &event.what else { continue };
        for pair in line.windows(2) {
            let [Some(first), Some(next)] = [pair[0], pair[1]].map(|op| ops.all.get(&op)) else {
                continue;
            };
            let Some(granted_us) = next.granted_us.filter(|&at_us| at_us > event.at_us) else {
                continue;
            };
            let was_later = first.token.is_none() || first.token > next.token;
            let disturbed = disturbances.iter().any(|&(client, from_us, until_us)| {
                client.is_none_or(|client| client == first.client)
                    && from_us <= granted_us
                    && until_us >= event.at_us
            });
            if was_later
                && first.waits_at(granted_us)
                && would_take(first, next.member)
                && !disturbed
            {
                let what = format!("operation {} stood before {}, which held", first.op, next.op);
                findings.add(granted_us, lock, what);
            }
        }
    }
}

/// Would it have taken what another was granted?
fn would_take(waiting: &Op<'_>, granted: Option<&str>) -> bool {
    match waiting.ask {
        Ask::Member(member) => granted.is_none_or(|granted| granted == member),
        _ => true,
    }
}

/// The times in which a place may have been lost: whose (or anybody's), from and until when.
fn disturbances(events: &[Event], waiter_lease_us: u64) -> Vec<(Option<u32>, u64, u64)> {
    let mut disturbances: Vec<(Option<u32>, u64, u64)> = Vec::new();
    let mut open: BTreeMap<String, usize> = BTreeMap::new();
    for event in events {
        let (begins, client, key) = match &event.what {
            What::Paused { client } => (true, Some(*client), format!("pause {client}")),
            What::Resumed { client } => (false, Some(*client), format!("pause {client}")),
            What::Fault { kind, on, .. } => (true, None, format!("{kind} {on}")),
            What::Mended { kind, on } => (false, None, format!("{kind} {on}")),
            _ => continue,
        };
        // Whoever was held up in it asks again within a waiter lease after it.
        let until_us = event.at_us.saturating_add(waiter_lease_us);
        if begins {
            open.insert(key, disturbances.len());
            disturbances.push((client, event.at_us, until_us));
        } else if let Some(index) = open.remove(&key) {
            disturbances[index].2 = until_us;
        }
    }
    // What has no end goes on.
    for index in open.into_values() {
        if disturbances[index].0.is_some() {
            disturbances[index].2 = u64::MAX;
        }
    }
    disturbances
}
