//! G1: at no time do more hold than the kind of the lock allows.
//!
//! A holder is taken at its word: from when it had its guard until that said it would end, or until
//! it let go or heard that it is lost.

use super::{Findings, exclude_each_other};
use crate::{HistoryAsk, LockKind, Op, Ops};

pub(super) fn check(ops: &Ops<'_>, findings: &mut Findings) {
    for (lock, of_lock) in ops.by_lock() {
        let mut spans: Vec<(u64, u64, &Op<'_>)> = of_lock
            .into_iter()
            .filter_map(|op| op.span().map(|(from_us, until_us)| (from_us, until_us, op)))
            .collect();
        spans.sort_by_key(|&(from_us, _, op)| (from_us, op.op));
        let mut holding: Vec<(u64, &Op<'_>)> = Vec::new();
        for (from_us, until_us, op) in spans {
            holding.retain(|&(end_us, _)| end_us > from_us);
            for &(end_us, other) in &holding {
                if exclude_each_other(op, other) {
                    let both_us = end_us.min(until_us) - from_us;
                    let what = format!(
                        "{} holds while {} does, for {both_us} µs",
                        named(op),
                        named(other)
                    );
                    findings.add(from_us, lock, what);
                }
            }
            holding.push((until_us, op));
            let taken: u64 = holding.iter().map(|(_, op)| permits(op)).sum();
            if let Some(LockKind::Semaphore(permits)) = ops.kinds.get(lock)
                && taken > u64::from(*permits)
            {
                let what = format!("{taken} of {permits} permits are taken with {}", named(op));
                findings.add(from_us, lock, what);
            }
        }
    }
}

fn permits(op: &Op<'_>) -> u64 {
    match op.ask {
        HistoryAsk::Permits(permits) => u64::from(*permits),
        _ => 0,
    }
}

fn named(op: &Op<'_>) -> String {
    let token = op.token.map_or("no token".to_owned(), |token| format!("token {token}"));
    format!("operation {} of client {} with {token}", op.op, op.client)
}
