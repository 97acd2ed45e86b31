//! G2: tokens strictly increase in the order of grants.
//!
//! Who asked after another had its guard was granted after it. Where the keeper's own order is known,
//! that counts.

use std::collections::{BTreeMap, BTreeSet};

use super::Findings;
use crate::{EventKind, HistoryEvent, Op, Ops};

pub(super) fn check(events: &[HistoryEvent], ops: &Ops<'_>, findings: &mut Findings) {
    for (lock, of_lock) in ops.by_lock() {
        let has_guard = |op: &&Op<'_>| op.granted_us.is_some() && op.token.is_some();
        let granted: Vec<&Op<'_>> = of_lock.into_iter().filter(has_guard).collect();
        unique(lock, &granted, findings);
        in_order(lock, &granted, findings);
    }
    as_minted(events, ops, findings);
}

fn unique(lock: &str, granted: &[&Op<'_>], findings: &mut Findings) {
    let mut by_token: BTreeMap<u64, &Op<'_>> = BTreeMap::new();
    for op in granted {
        let Some(token) = op.token else { continue };
        if let Some(other) = by_token.insert(token, op) {
            let what = format!("operations {} and {} both have token {token}", other.op, op.op);
            findings.add(op.granted_us.unwrap_or(op.asked_us), lock, what);
        }
    }
}

fn in_order(lock: &str, granted: &[&Op<'_>], findings: &mut Findings) {
    let mut by_grant = granted.to_vec();
    by_grant.sort_by_key(|op| op.granted_us);
    let mut by_asking = granted.to_vec();
    by_asking.sort_by_key(|op| op.asked_us);
    let mut before = by_grant.into_iter().peekable();
    let mut latest: Option<&Op<'_>> = None;
    for op in by_asking {
        while let Some(other) = before.next_if(|other| other.granted_us < Some(op.asked_us)) {
            if latest.is_none_or(|latest| latest.token < other.token) {
                latest = Some(other);
            }
        }
        if let Some(other) = latest
            && let (Some(before), Some(token)) = (other.token, op.token)
            && before > token
        {
            let what = format!(
                "operation {} asked after {} held with token {before}, and has {token}",
                op.op, other.op
            );
            findings.add(op.granted_us.unwrap_or(op.asked_us), lock, what);
        }
    }
}

fn as_minted(events: &[HistoryEvent], ops: &Ops<'_>, findings: &mut Findings) {
    let mut newest: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut minted: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut all, mut remembered) = (BTreeSet::new(), BTreeSet::new());
    for event in events {
        if event.what == EventKind::Forgot {
            remembered.clone_from(&all);
        }
        let EventKind::Minted { op, token, .. } = event.what else { continue };
        let Some(of) = ops.all.get(&op) else { continue };
        all.insert((op, token));
        // Who asks again is told again what it was granted. A keeper that has forgotten what it granted
        // since tells what it remembers.
        if minted.insert(op, token) == Some(token) || remembered.contains(&(op, token)) {
            continue;
        }
        match newest.get(of.lock) {
            Some(&(before, other)) if before >= token => {
                let what = format!("operation {op} was granted {token} after {other} had {before}");
                findings.add(event.at_us, of.lock, what);
            }
            _ => {
                newest.insert(of.lock, (token, op));
            }
        }
    }
}
