//! G5: a guard says that it is lost before anybody else can be granted what it held, and lost is
//! final.

use std::collections::BTreeMap;

use super::Findings;
use crate::{Ask, Event, Op, Ops, What};

pub(super) fn check(events: &[Event], ops: &Ops<'_>, findings: &mut Findings) {
    for op in ops.all.values() {
        let Some(lost_us) = op.lost_us else { continue };
        if let Some((told_us, _)) = op.claims.iter().find(|(told_us, _)| *told_us > lost_us) {
            let what = format!("operation {} was lost at {lost_us}, and is held again", op.op);
            findings.add(*told_us, op.lock, what);
        }
    }
    // The newest grant of each lock, and of each member of a pool.
    let mut newest: BTreeMap<Class<'_>, (u64, &Op<'_>)> = BTreeMap::new();
    for event in events {
        let Some(op) = event.what.op().and_then(|op| ops.all.get(&op)) else { continue };
        match &event.what {
            What::Granted { token: Some(token), member, .. }
            | What::Minted { token, member, .. } => {
                let class = (op.lock, member.as_deref(), *op.ask != Ask::Read);
                let newest = newest.entry(class).or_insert((*token, op));
                if *token > newest.0 {
                    *newest = (*token, op);
                }
            }
            What::Checked { until_us: Some(_), .. } => {
                let is_newer = |(token, other): &&(u64, &Op<'_>)| {
                    op.op != other.op && Some(*token) > op.token && !may_share(op, other)
                };
                let classes = [true, false].map(|writes| (op.lock, op.member, writes));
                let mut others = classes.iter().filter_map(|class| newest.get(class));
                if let Some((_, other)) = others.find(is_newer) {
                    let what = format!(
                        "operation {} is told that it holds, and {} was granted it",
                        op.op, other.op
                    );
                    findings.add(event.at_us, op.lock, what);
                }
            }
            _ => {}
        }
    }
}

/// Lock, member, and whether it excludes others of its kind.
type Class<'a> = (&'a str, Option<&'a str>, bool);

/// May two of one class be held at one time?
fn may_share(one: &Op<'_>, other: &Op<'_>) -> bool {
    matches!((one.ask, other.ask), (Ask::Read, Ask::Read) | (Ask::Permits(_), Ask::Permits(_)))
}
