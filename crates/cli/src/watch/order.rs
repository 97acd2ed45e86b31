//! In which order locks are shown: the busiest first, unless somebody wants another.

use std::cmp::{Ordering, Reverse};
use std::time::Duration;

use serde::Deserialize;
use taketurns::{Name, View};

/// By what locks are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sort {
    /// Most waiting first, then those who have had theirs for longest.
    #[default]
    Waiting,
    /// Held for longest first.
    Held,
    /// Least of the lease left first.
    Left,
    /// By name.
    Name,
}

impl Sort {
    /// Which of the two comes first. The name decides between equals, so that nothing jumps.
    pub(crate) fn compare(self, a: (&Name, &View), b: (&Name, &View)) -> Ordering {
        let ((a_name, a), (b_name, b)) = (a, b);
        let by = match self {
            Self::Waiting => (Reverse(a.waiting), Reverse(held_for(a)))
                .cmp(&(Reverse(b.waiting), Reverse(held_for(b)))),
            Self::Held => Reverse(held_for(a)).cmp(&Reverse(held_for(b))),
            Self::Left => left(a).cmp(&left(b)),
            Self::Name => Ordering::Equal,
        };
        by.then_with(|| a_name.cmp(b_name))
    }
}

/// Returns the longest time that a present holder has held the lock, or `None`, which sorts last, if nobody holds it.
pub(crate) fn held_for(view: &View) -> Option<Duration> {
    view.holders.iter().map(|holder| holder.held_for).max()
}

/// What is left of the lease that ends first. A lock that nobody has comes last.
fn left(view: &View) -> Duration {
    view.holders.iter().map(|holder| holder.left).min().unwrap_or(Duration::MAX)
}

/// A part of a lock's name, or of what those who have it or wait for it say of themselves. Letters of
/// either case are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Filter(String);

impl Filter {
    pub(crate) fn new(wanted: &str) -> Self {
        Self(wanted.to_lowercase())
    }

    pub(crate) fn matches(&self, name: &Name, view: &View) -> bool {
        let holders = view.holders.iter().map(|holder| &holder.label);
        let mut labels = holders.chain(view.waiters.iter().map(|waiter| &waiter.label));
        self.is_in([name.as_str()]) || labels.any(|label| self.is_in([label.who(), label.why()]))
    }

    /// Is it in one of these?
    pub(crate) fn is_in<const N: usize>(&self, texts: [&str; N]) -> bool {
        self.0.is_empty() || texts.iter().any(|text| text.to_lowercase().contains(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::tests::{held, name};

    fn sorted(sort: Sort, mut locks: Vec<(Name, View)>) -> Vec<String> {
        locks.sort_by(|(a_name, a), (b_name, b)| sort.compare((a_name, a), (b_name, b)));
        locks.iter().map(|(name, _)| name.to_string()).collect()
    }

    fn locks() -> Vec<(Name, View)> {
        let mut queued = held(1, 50);
        queued.waiting = 3;
        let mut ending = held(2, 900);
        ending.holders[0].left = Duration::from_millis(7);
        vec![
            (name("free"), View::default()),
            (name("old"), held(3, 5_000)),
            (name("ending"), ending),
            (name("queued"), queued),
        ]
    }

    #[test]
    fn the_busiest_come_first_and_what_is_free_comes_last() {
        assert_eq!(sorted(Sort::Waiting, locks()), ["queued", "old", "ending", "free"]);
        assert_eq!(sorted(Sort::Held, locks()), ["old", "ending", "queued", "free"]);
        assert_eq!(sorted(Sort::Left, locks()), ["ending", "old", "queued", "free"]);
        assert_eq!(sorted(Sort::Name, locks()), ["ending", "free", "old", "queued"]);
    }

    #[test]
    fn a_filter_looks_at_names_and_labels_in_either_case() {
        let (lock, view) = (name("orders/42"), held(1, 1));
        for wanted in ["", "ORDERS", "/4", "host", "Nightly"] {
            assert!(Filter::new(wanted).matches(&lock, &view), "{wanted}");
        }
        assert!(!Filter::new("backup").matches(&lock, &view));
    }
}
