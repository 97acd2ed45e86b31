//! G8: the work of a once is done at most once between two times of being forgotten, nobody is granted the once in
//! between, and nobody is told that it is done who could do it.
//!
//! Only the keeper's own notes show when something was recorded and forgotten. A keeper that lost its state may have
//! lost that too, or remember something older.
//!
//! A history without such notes is of work that is never undone, and remembered for longer than the history lasts. Then
//! tokens show it: who was told that its work is recorded had the last one.

use std::collections::{BTreeMap, BTreeSet};

use super::{Findings, Guarantee, faults};
use crate::{EventKind, HistoryAsk, HistoryEvent, Ops};

/// What is known of one once.
#[derive(Default)]
struct WorkKnown {
    done_by: Option<u64>,
    /// The keeper lost its state since: whether the work is done is not known.
    is_unsure: bool,
}

pub(super) fn check(events: &[HistoryEvent], ops: &Ops<'_>, findings: &mut Findings) {
    let is_noted = |event: &HistoryEvent| {
        use EventKind::{Done, Freed, Minted, Told, Undone};
        matches!(
            event.what,
            Minted { .. } | Done { .. } | Told { .. } | Undone { .. } | Freed { .. }
        )
    };
    if events.iter().any(is_noted) {
        at_the_keeper(events, ops, findings);
    } else {
        from_outside(events, ops, findings);
    }
}

/// An attempt that was told that its work is recorded: its token, and since when that may be so.
struct RecordedWork {
    op: u64,
    token: u64,
    from_us: u64,
}

fn from_outside(events: &[HistoryEvent], ops: &Ops<'_>, findings: &mut Findings) {
    let faults = faults(events);
    let forgetful: Vec<_> =
        faults.iter().filter(|fault| fault.excuses.contains(&Guarantee::G8)).collect();
    let may_forget = |from_us: u64, until_us: u64| {
        forgetful.iter().any(|fault| fault.from_us <= until_us && fault.until_us >= from_us)
    };
    let mut recorded: BTreeMap<&str, Vec<RecordedWork>> = BTreeMap::new();
    let mut failed: BTreeSet<u64> = BTreeSet::new();
    for event in events {
        let Some(of) = event.what.op().and_then(|op| ops.all.get(&op)) else { continue };
        match event.what {
            EventKind::Finished { error: None, .. } => {
                let (op, token) = (of.op, of.token.unwrap_or(0));
                let from_us = of.ended_us.unwrap_or(event.at_us);
                recorded.entry(of.lock).or_default().push(RecordedWork { op, token, from_us });
            }
            EventKind::Released { error: None, .. } => {
                failed.insert(of.op);
            }
            _ => {}
        }
    }
    let mut ended: BTreeMap<&str, u64> = BTreeMap::new();
    for op in ops.all.values().filter(|op| *op.ask == HistoryAsk::Once) {
        let (Some(token), Some(granted_us)) = (op.token, op.granted_us) else { continue };
        for work in recorded.get(op.lock).into_iter().flatten() {
            if token > work.token && !may_forget(work.from_us, granted_us) {
                let what =
                    format!("operation {} was granted the work that {} had done", op.op, work.op);
                findings.add(granted_us, op.lock, what);
            }
        }
        if let Some(ended_us) = op.ended_us.filter(|_| !failed.contains(&op.op)) {
            let first_us = ended.entry(op.lock).or_insert(ended_us);
            *first_us = ended_us.min(*first_us);
        }
    }
    for event in events {
        let EventKind::DoneBefore { op } = &event.what else { continue };
        let Some(of) = ops.all.get(op) else { continue };
        if ended.get(of.lock).is_none_or(|ended_us| *ended_us > event.at_us) {
            let what =
                format!("operation {op} was told that the work is done, and nobody had said so");
            findings.add(event.at_us, of.lock, what);
        }
    }
}

fn at_the_keeper(events: &[HistoryEvent], ops: &Ops<'_>, findings: &mut Findings) {
    let mut works: BTreeMap<&str, WorkKnown> = BTreeMap::new();
    let mut recorded: BTreeSet<u64> = BTreeSet::new();
    let mut minted: BTreeSet<(u64, u64)> = BTreeSet::new();
    for event in events {
        match &event.what {
            EventKind::Forgot => works.values_mut().for_each(|work| {
                *work = WorkKnown { done_by: None, is_unsure: true };
            }),
            EventKind::Undone { lock } => {
                works.insert(lock, WorkKnown::default());
            }
            _ => {}
        }
        let Some(of) = event.what.op().and_then(|op| ops.all.get(&op)) else { continue };
        let work = works.entry(of.lock).or_default();
        let mut wrong = |what: String| findings.add(event.at_us, of.lock, what);
        match &event.what {
            EventKind::Done { op } => {
                if let Some(other) = work.done_by.filter(|other| other != op) {
                    wrong(format!("operation {op} did the work that {other} had done"));
                }
                *work = WorkKnown { done_by: Some(*op), is_unsure: false };
                recorded.insert(*op);
            }
            // What was granted before may be told again, by a keeper that forgot how it ended.
            EventKind::Minted { op, token, .. } if minted.insert((*op, *token)) => {
                if let Some(other) = work.done_by {
                    wrong(format!("operation {op} was granted the work that {other} had done"));
                }
            }
            EventKind::Told { op } if work.done_by.is_none() && !work.is_unsure => {
                wrong(format!("operation {op} was told that the work is done, and it is not"));
            }
            EventKind::Finished { op, error: None } if !recorded.contains(op) => {
                wrong(format!("operation {op} did the work, and that was never recorded"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{asked, begins, found};
    use crate::{EventKind, Guarantee, HistoryAsk};

    fn minted(op: u64) -> EventKind {
        EventKind::Minted { op, token: op, member: None }
    }

    fn found_after(events: Vec<EventKind>) -> Vec<String> {
        let asks = [1, 2].map(asked).into_iter();
        let all = [begins()].into_iter().chain(asks).chain([minted(1)]).chain(events);
        let at = |(at, what): (usize, EventKind)| (10 * at as u64, what);
        found(Guarantee::G8, all.enumerate().map(at).collect())
    }

    #[test]
    fn work_is_done_once_until_it_is_undone() {
        let (done, undone) =
            (|op| EventKind::Done { op }, || EventKind::Undone { lock: "l".to_owned() });
        let told = || EventKind::Told { op: 2 };
        let finished = |op| EventKind::Finished { op, error: None };
        assert_eq!(found_after(vec![done(1), finished(1), done(1), told()]), [""; 0]);
        assert_eq!(found_after(vec![done(1), undone(), minted(2), done(2)]), [""; 0]);
        assert_eq!(found_after(vec![done(1), EventKind::Forgot, minted(2), done(2)]), [""; 0]);
        assert_eq!(found_after(vec![EventKind::Forgot, told()]), [""; 0], "by one who remembers");
        assert_eq!(found_after(vec![done(1), minted(2)]).len(), 1, "granted");
        assert_eq!(found_after(vec![done(1), done(2)]).len(), 1, "done again");
        assert_eq!(found_after(vec![told()]).len(), 1, "told of nothing");
        assert_eq!(
            found_after(vec![done(1), undone(), told()]).len(),
            1,
            "told of what was undone"
        );
        assert_eq!(found_after(vec![finished(1)]).len(), 1, "not recorded");
    }

    fn asks_once(op: u64) -> EventKind {
        let EventKind::Asked { op, client, lock, endless, keeps, .. } = asked(op) else {
            unreachable!("it asks")
        };
        EventKind::Asked { op, client, lock, ask: HistoryAsk::Once, endless, keeps }
    }

    /// Each attempt has its own number as token.
    fn found_outside(events: Vec<EventKind>) -> Vec<String> {
        let all = [begins()].into_iter().chain([1, 2].map(asks_once)).chain(events);
        let at = |(at, what): (usize, EventKind)| (10 * at as u64, what);
        found(Guarantee::G8, all.enumerate().map(at).collect())
    }

    #[test]
    fn from_outside_nobody_is_granted_work_after_it_was_recorded() {
        let granted =
            |op| EventKind::Granted { op, token: Some(op), member: None, until_us: 1_000 };
        let releases = |op| EventKind::Releases { op };
        let finished = |op| EventKind::Finished { op, error: None };
        let told = |op| EventKind::DoneBefore { op };
        let fault = |kind: &str, excuses: &[Guarantee]| EventKind::Fault {
            kind: kind.to_owned(),
            on: "the server".to_owned(),
            excuses: excuses.to_vec(),
        };
        let did = || vec![granted(1), releases(1), finished(1)];
        let and = |more: &[EventKind]| found_outside([did(), more.to_vec()].concat());
        assert_eq!(and(&[told(2)]), [""; 0]);
        assert_eq!(and(&[granted(2)]).len(), 1, "granted again");
        assert_eq!(and(&[fault("kill -9", &[]), granted(2)]).len(), 1, "it may not forget");
        assert_eq!(and(&[fault("FLUSHALL", &[Guarantee::G8]), granted(2)]), [""; 0]);
        let unheard = EventKind::Finished { op: 1, error: Some("Unreachable".to_owned()) };
        let unsure = vec![granted(1), releases(1), unheard, granted(2), releases(2), finished(2)];
        assert_eq!(found_outside(unsure), [""; 0], "it may not be recorded");
        let died = vec![granted(1), releases(1), EventKind::Died { client: 0 }, told(2)];
        assert_eq!(found_outside(died), [""; 0], "its word may have arrived");
        assert_eq!(found_outside(vec![granted(1), told(2)]).len(), 1, "nobody has said so");
        let failed = EventKind::Released { op: 1, error: None };
        assert_eq!(found_outside(vec![granted(1), releases(1), failed, told(2)]).len(), 1);
    }
}
