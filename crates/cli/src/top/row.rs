//! One lock in the table: its numbers, and the state that its colours show.

use std::time::Duration;

use taketurns::{Ask, HolderView, Kind, Name, Token, View};

use crate::watch::order;

/// A renewal is due after a third of the lease. It is late when less than 1/LATE of the lease is left.
const LATE: u32 = 3;

/// A lock as it was seen last, and what was new about it.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: Name,
    pub(crate) view: View,
    /// It is not as it was in the picture before.
    pub(crate) changed: bool,
    /// The most that was seen to be left of each holder's lease, which tells how long that is.
    longest: Vec<Duration>,
}

impl Row {
    /// A lock that is seen for the first time.
    pub(crate) fn new(name: Name, view: View) -> Self {
        let longest = view.holders.iter().map(|holder| holder.left).collect();
        Self { name, view, changed: false, longest }
    }

    /// A lock that was seen before.
    pub(crate) fn after(old: &Self, name: Name, view: View) -> Self {
        let mut row = Self::new(name, view);
        row.changed = essence(&old.view) != essence(&row.view);
        for (holder, longest) in row.view.holders.iter().zip(&mut row.longest) {
            *longest = old.longest_of(holder).max(*longest);
        }
        row
    }

    /// Holders are in the order of their tokens. Where there are none, any may be taken for this one.
    fn longest_of(&self, holder: &HolderView) -> Duration {
        let found = self.view.holders.binary_search_by_key(&holder.token, |holder| holder.token);
        found.ok().and_then(|at| self.longest.get(at)).copied().unwrap_or_default()
    }

    /// Returns the longest time that a present holder has held the lock.
    pub(crate) fn held_for(&self) -> Option<Duration> {
        order::held_for(&self.view)
    }

    /// How much is left of the lease that ends first.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.view.holders.iter().map(|holder| holder.left).min()
    }

    /// A holder has not renewed when it should have: it is stuck or gone, or never renews.
    pub(crate) fn is_late(&self) -> bool {
        self.view.holders.iter().any(|holder| self.is_late_of(holder))
    }

    /// The same of one of its holders.
    pub(crate) fn is_late_of(&self, holder: &HolderView) -> bool {
        !holder.resting && holder.left.saturating_mul(LATE) < self.longest_of(holder)
    }

    /// It was taken from a holder that has not let go of it yet.
    pub(crate) fn is_broken(&self) -> bool {
        self.view.holders.iter().any(|holder| holder.revoked)
    }
}

/// What has to change for a lock to be shown as changed.
#[derive(PartialEq)]
struct Essence {
    waiting: usize,
    /// Of each holder its token, and whether it is broken or rests.
    holders: Vec<(Option<Token>, bool, bool)>,
    is_quarantined: bool,
    /// How many attempts failed, and whether the work is done.
    work: Option<(u32, bool)>,
}

fn essence(view: &View) -> Essence {
    let holders = view.holders.iter();
    Essence {
        waiting: view.waiting,
        holders: holders.map(|holder| (holder.token, holder.revoked, holder.resting)).collect(),
        is_quarantined: view.quarantine_left.is_some(),
        work: view.work.as_ref().map(|work| (work.failed, work.done.is_some())),
    }
}

/// The kind in a few letters, with how much of it is taken: `mutex`, `sem 3/4`, `pool 1/3`.
pub(crate) fn kind(view: &View) -> String {
    match view.kind {
        Kind::Mutex => "mutex".to_owned(),
        Kind::Once => "once".to_owned(),
        Kind::RwLock if view.holders.is_empty() => "rwlock".to_owned(),
        Kind::RwLock => match view.holders[0].ask {
            Ask::Read => format!("read {}", view.holders.len()),
            _ => "write".to_owned(),
        },
        Kind::Semaphore { permits } => {
            let taken = view.holders.iter().map(|holder| match holder.ask {
                Ask::Permits { take, .. } => take,
                _ => 1,
            });
            format!("sem {}/{permits}", taken.sum::<u32>())
        }
        Kind::Pool => format!("pool {}/{}", view.holders.len(), view.members.len()),
    }
}
