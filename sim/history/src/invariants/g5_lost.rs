//! G5: a guard says that it is lost before anybody else can be granted what it held, and lost is
//! final.

use std::collections::BTreeMap;

use super::{Findings, exclude_each_other};
use crate::{Event, Op, Ops, What};

pub(super) fn check(events: &[Event], ops: &Ops<'_>, findings: &mut Findings) {
    for op in ops.all.values() {
        let Some(lost_us) = op.lost_us else { continue };
        if let Some((told_us, _)) = op.claims.iter().find(|(told_us, _)| *told_us > lost_us) {
            let what = format!("operation {} was lost at {lost_us}, and is held again", op.op);
            findings.add(*told_us, op.lock, what);
        }
    }
    // The newest grant of each lock, and of each member of a pool.
    let mut newest: BTreeMap<(&str, Option<&str>, bool), &Op<'_>> = BTreeMap::new();
    for event in events {
        let Some(op) = event.what.op().and_then(|op| ops.all.get(&op)) else { continue };
        match event.what {
            What::Granted { .. } | What::Minted { .. } if op.token.is_some() => {
                let newest = newest.entry(class(op)).or_insert(op);
                if op.token > newest.token {
                    *newest = op;
                }
            }
            What::Checked { until_us: Some(_), .. } => {
                let is_newer =
                    |other: &&&Op<'_>| other.token > op.token && exclude_each_other(op, other);
                let classes = [true, false].map(|writes| (op.lock, op.member, writes));
                let mut others = classes.iter().filter_map(|class| newest.get(class));
                if let Some(other) = others.find(is_newer) {
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

/// Grants of one class exclude each other, or none does.
fn class<'a>(op: &Op<'a>) -> (&'a str, Option<&'a str>, bool) {
    (op.lock, op.member, *op.ask != crate::Ask::Read)
}
