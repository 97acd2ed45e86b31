//! G3: no live waiter is overtaken.
//!
//! The keeper's own order is that of `Placed`; a place ends when it is granted, given up, lapsed or
//! forgotten. From outside it is seen in a `Line`, and whoever was touched by a fault since may have
//! lost its place.

use std::collections::BTreeMap;

use super::Findings;
use crate::{Ask, Event, Op, Ops, What};

pub(super) fn check(events: &[Event], ops: &Ops<'_>, findings: &mut Findings) {
    as_placed(events, ops, findings);
    as_seen(events, ops, findings);
}

fn as_placed(events: &[Event], ops: &Ops<'_>, findings: &mut Findings) {
    let mut lines: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for event in events {
        if event.what == What::Forgot {
            lines.clear();
            continue;
        }
        let Some(of) = event.what.op().and_then(|op| ops.all.get(&op)) else { continue };
        let line = lines.entry(of.lock).or_default();
        let place = line.iter().position(|&waiting| waiting == of.op);
        match event.what {
            What::Placed { .. } if place.is_none() => line.push(of.op),
            What::Lapsed { .. } | What::Freed { .. } => line.retain(|&waiting| waiting != of.op),
            What::Minted { .. } => {
                for other in &line[..place.unwrap_or(line.len())] {
                    if let Some(other) = ops.all.get(other)
                        && would_take(other, of)
                    {
                        let what = format!("operation {} was granted before {}", of.op, other.op);
                        findings.add(event.at_us, of.lock, what);
                    }
                }
                line.retain(|&waiting| waiting != of.op);
            }
            _ => {}
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
            if was_later && first.waits_at(granted_us) && would_take(first, next) && !disturbed {
                let what = format!("operation {} stood before {}, which held", first.op, next.op);
                findings.add(granted_us, lock, what);
            }
        }
    }
}

/// Would the first have taken what the second was granted?
fn would_take(first: &Op<'_>, second: &Op<'_>) -> bool {
    match first.ask {
        Ask::Member(member) => second.member.is_none_or(|got| got == member),
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
