//! G5: a guard says that it is lost before anybody else can be granted what it held, and lost is
//! final. One that was broken is lost by its deadline.

use std::collections::BTreeMap;

use super::Findings;
use crate::{EventKind, HistoryAsk, HistoryEvent, Op, Ops};

pub(super) fn check(events: &[HistoryEvent], ops: &Ops<'_>, findings: &mut Findings) {
    for op in ops.all.values() {
        let Some(lost_us) = op.lost_us else { continue };
        // The first of the claims came with the guard, and may have been noted late.
        let again = op.claims.iter().skip(1).find(|(told_us, _)| *told_us > lost_us);
        if let Some((told_us, _)) = again {
            let what = format!("operation {} was lost at {lost_us}, and is held again", op.op);
            findings.add(*told_us, op.lock, what);
        }
    }
    broken(events, ops, findings);
    let mut newest = NewestGrants::default();
    for event in events {
        let at_us = event.at_us;
        let Some(op) = event.what.op().and_then(|op| ops.all.get(&op)) else { continue };
        let (token, end_us) = match &event.what {
            EventKind::Minted { token, member, .. } => {
                newest.add(op, member.as_deref(), GrantRecord { at_us, token: *token, op: op.op });
                continue;
            }
            EventKind::Granted { token: Some(token), member, .. } => {
                let told = (*token, op.span().map_or(0, |(_, end_us)| end_us));
                newest.add(op, member.as_deref(), GrantRecord { at_us, token: *token, op: op.op });
                told
            }
            EventKind::Checked { until_us: Some(_), .. } => match op.token {
                Some(token) => (token, at_us + 1),
                None => continue,
            },
            _ => continue,
        };
        if let Some(other) = newest.than(op, token, at_us).filter(|other| other.at_us < end_us) {
            let what = format!(
                "operation {} is told that it holds, and {} was granted it",
                op.op, other.op
            );
            findings.add(at_us, op.lock, what);
        }
    }
}

/// A grant, and when it was certain.
#[derive(Clone, Copy)]
struct GrantRecord {
    at_us: u64,
    token: u64,
    op: u64,
}

/// After a break, the holder keeps at most the lease that it had. A keeper that forgets may have forgotten the break too.
fn broken(events: &[HistoryEvent], ops: &Ops<'_>, findings: &mut Findings) {
    if events.iter().any(|event| event.what == EventKind::Forgot) {
        return;
    }
    for event in events {
        let EventKind::Broken { lock, asked_us } = &event.what else { continue };
        let held =
            |op: &&Op<'_>| op.lock == lock && op.granted_us.is_some_and(|at_us| at_us < *asked_us);
        // Votes of a quorum last for a waiter lease at least. A hundredth is for clocks that run at
        // different speeds.
        let longest_us = ops.max_lease_us.max(ops.waiter_lease_us);
        let until_us = event.at_us + longest_us + longest_us / 100;
        for op in ops.all.values().filter(held) {
            if let Some((told_us, _)) = op.claims.iter().find(|claim| claim.1 > until_us) {
                let what =
                    format!("operation {} was broken at {}, and goes on", op.op, event.at_us);
                findings.add(*told_us, op.lock, what);
            }
        }
    }
}

/// What is granted: the lock, which member of a pool, and only to read under?
type Class<'a> = (&'a str, Option<&'a str>, bool);

/// The newest grant of each class, and the newest of before its time: what was noted in one µs may have
/// come in either order.
#[derive(Default)]
struct NewestGrants<'a>(BTreeMap<Class<'a>, [Option<GrantRecord>; 2]>);

impl<'a> NewestGrants<'a> {
    fn add(&mut self, op: &Op<'a>, member: Option<&'a str>, grant: GrantRecord) {
        let [before, newest] =
            self.0.entry((op.lock, member, *op.ask == HistoryAsk::Read)).or_insert([None, None]);
        if newest.is_none_or(|newest| grant.token > newest.token) {
            if newest.is_none_or(|newest| newest.at_us < grant.at_us) {
                *before = *newest;
            }
            *newest = Some(grant);
        }
    }

    /// What was granted before this time with a larger token, and excludes this one.
    fn than(&self, op: &Op<'_>, token: u64, at_us: u64) -> Option<GrantRecord> {
        let excluding: &[bool] = match op.ask {
            HistoryAsk::Permits(_) => &[],
            HistoryAsk::Read => &[false],
            _ => &[false, true],
        };
        let grants = excluding.iter().filter_map(|read| self.0.get(&(op.lock, op.member, *read)));
        // What was granted before this one asked is not newer, whatever its token.
        let newer = |grant: &GrantRecord| {
            let in_time = op.asked_us <= grant.at_us && grant.at_us < at_us;
            in_time && grant.token > token && grant.op != op.op
        };
        grants.flatten().flatten().copied().filter(newer).max_by_key(|grant| grant.token)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{asked, begins, claim, found, granted};
    use crate::{EventKind, Guarantee};

    #[test]
    fn who_was_broken_has_no_more_than_a_lease_left() {
        let life = |granted_us, until_us| {
            let broken = EventKind::Broken { lock: "l".to_owned(), asked_us: 50 };
            let events = vec![(0, begins()), (1, asked(1)), (granted_us, granted(1, 900))];
            found(Guarantee::G5, [events, vec![(60, broken), (70, claim(1, until_us))]].concat())
        };
        assert_eq!(life(10, 3_000_000), ["operation 1 was broken at 60, and goes on"]);
        assert!(life(10, 1_000_000).is_empty());
        assert!(life(55, 3_000_000).is_empty(), "that was another one's to lose");
    }
}
