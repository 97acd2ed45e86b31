//! G8: the work of a once is done at most once between two times of being forgotten, nobody is granted the once in
//! between, and nobody is told that it is done who could do it.
//!
//! Only the keeper's own notes show when something was recorded and forgotten. A keeper that lost its state may have
//! lost that too, or remember something older.

use std::collections::{BTreeMap, BTreeSet};

use super::Findings;
use crate::{EventKind, HistoryEvent, Ops};

/// What is known of one once.
#[derive(Default)]
struct WorkKnown {
    done_by: Option<u64>,
    /// The keeper lost its state since: whether the work is done is not known.
    is_unsure: bool,
}

pub(super) fn check(events: &[HistoryEvent], ops: &Ops<'_>, findings: &mut Findings) {
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
    use crate::{EventKind, Guarantee};

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
}
