//! The details of one lock: who holds it, and who waits in which order.

use std::collections::VecDeque;
use std::time::Instant;

use taketurns::{HolderView, Kind, Name, View, WaiterView, WorkView};

use super::keys::ListMove;
use super::row::Row;

/// For how many looks the number of those who wait is remembered.
const HISTORY_MAX: usize = 120;

/// The lock, what was seen of it last, and what is on the screen.
#[derive(Debug)]
pub(crate) struct LockDetails {
    pub(crate) row: Row,
    /// When that was.
    pub(crate) seen: Option<Instant>,
    /// How many waited in the last looks.
    pub(crate) history: VecDeque<usize>,
    offset: usize,
    page: usize,
}

/// A line of the screen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry<'a> {
    Work(&'a WorkView),
    Holders,
    Holder(&'a HolderView),
    Members,
    Waiters,
    Waiter(usize, &'a WaiterView),
    /// The number of waiters that the store does not list.
    More(usize),
    Blank,
}

impl LockDetails {
    /// With what the list knows of it.
    pub(crate) fn new(name: Name, view: View, seen: Option<Instant>) -> Self {
        let history = VecDeque::from([view.waiting]);
        Self { row: Row::new(name, view), seen, history, offset: 0, page: 0 }
    }

    /// What the store says now; nothing if it has forgotten the lock, since nobody used it.
    pub(crate) fn see(&mut self, view: Option<View>, now: Instant) {
        self.seen = Some(now);
        let view = view.unwrap_or_default();
        self.history.push_back(view.waiting);
        if self.history.len() > HISTORY_MAX {
            self.history.pop_front();
        }
        self.row = Row::after(&self.row, self.row.name.clone(), view);
        self.stay();
    }

    /// Sets the number of lines that fit on the screen.
    pub(crate) fn fit(&mut self, page: usize) {
        self.page = page;
        self.stay();
    }

    pub(crate) fn page(&self) -> usize {
        self.page
    }

    pub(crate) fn go(&mut self, way: ListMove) {
        self.offset = way.from(self.offset, self.last());
    }

    fn stay(&mut self) {
        self.offset = self.offset.min(self.last());
    }

    fn last(&self) -> usize {
        self.entries().len().saturating_sub(self.page)
    }

    /// The lines on the screen, and how many there are before and after them.
    pub(crate) fn visible(&self) -> (Vec<Entry<'_>>, usize, usize) {
        let entries = self.entries();
        let after = entries.len().saturating_sub(self.offset + self.page);
        let visible = entries.into_iter().skip(self.offset).take(self.page).collect();
        (visible, self.offset, after)
    }

    fn entries(&self) -> Vec<Entry<'_>> {
        let view = &self.row.view;
        let mut entries: Vec<_> = view.work.iter().map(Entry::Work).collect();
        entries.push(Entry::Holders);
        entries.extend(view.holders.iter().map(Entry::Holder));
        if view.kind == Kind::Pool {
            entries.push(Entry::Members);
        }
        entries.extend([Entry::Blank, Entry::Waiters]);
        let waiters = view.waiters.iter().enumerate();
        entries.extend(waiters.map(|(ahead, waiter)| Entry::Waiter(ahead + 1, waiter)));
        match view.waiting.saturating_sub(view.waiters.len()) {
            0 => {}
            more => entries.push(Entry::More(more)),
        }
        entries
    }
}
