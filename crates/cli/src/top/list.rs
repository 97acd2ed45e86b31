//! The locks in their order: which of them are shown, and which is chosen.
//!
//! A lock that is chosen stays so wherever it goes. As long as none is, the picture stays at its
//! beginning: a user who watches the busiest locks does not want to follow one of them down.

use std::collections::HashMap;
use std::time::Duration;

use taketurns::{Name, View};

use super::keys::ListMove;
use super::row::Row;
use crate::watch::order::{Filter, Sort};

/// All that the last look has seen.
#[derive(Debug, Default)]
pub(crate) struct LockList {
    rows: Vec<Row>,
    /// Which rows match the filter, in their order.
    shown: Vec<usize>,
    pub(crate) sort: Sort,
    pub(crate) filter: String,
    chosen: Option<Name>,
    /// Where among those shown the chosen one is, or was last; 0 if none is.
    cursor: usize,
    /// The first one on the screen.
    offset: usize,
    /// How many fit on the screen.
    page: usize,
}

/// The sums that the header shows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) locks: usize,
    pub(crate) held: usize,
    pub(crate) waiting: usize,
    /// For how long a lock is in quarantine, at most.
    pub(crate) quarantine_left: Option<Duration>,
}

impl LockList {
    /// A new picture.
    pub(crate) fn see(&mut self, listed: Vec<(Name, View)>) {
        let is_first = self.rows.is_empty();
        let old: HashMap<Name, Row> =
            self.rows.drain(..).map(|row| (row.name.clone(), row)).collect();
        self.rows.extend(listed.into_iter().map(|(name, view)| match old.get(&name) {
            Some(old) => Row::after(old, name, view),
            None => {
                let mut row = Row::new(name, view);
                row.changed = !is_first;
                row
            }
        }));
        self.sort();
    }

    pub(crate) fn sort_by(&mut self, sort: Sort) {
        self.sort = sort;
        self.sort();
    }

    pub(crate) fn filter(&mut self, filter: String) {
        self.filter = filter;
        self.show();
    }

    fn sort(&mut self) {
        let sort = self.sort;
        let compare = |a: &Row, b: &Row| sort.compare((&a.name, &a.view), (&b.name, &b.view));
        self.rows.sort_unstable_by(compare);
        self.show();
    }

    fn show(&mut self) {
        let filter = Filter::new(&self.filter);
        let rows = self.rows.iter().enumerate();
        let matching = rows.filter(|(_, row)| filter.matches(&row.name, &row.view));
        self.shown = matching.map(|(at, _)| at).collect();
        let chosen = self.chosen.take();
        let found = chosen.as_ref().and_then(|name| self.place_of(name));
        if let Some(place) = found {
            self.cursor = place;
            self.chosen = chosen;
        } else if chosen.is_some() {
            // Its neighbour instead.
            self.choose(self.cursor.min(self.last()));
        }
        self.follow();
    }

    fn place_of(&self, name: &Name) -> Option<usize> {
        self.shown.iter().position(|at| self.rows[*at].name == *name)
    }

    fn last(&self) -> usize {
        self.shown.len().saturating_sub(1)
    }

    fn choose(&mut self, place: usize) {
        self.cursor = place;
        self.chosen = self.shown.get(place).map(|at| self.rows[*at].name.clone());
    }

    /// Chooses another, or the first one on the screen if none was.
    pub(crate) fn go(&mut self, way: ListMove) {
        let place = match (&self.chosen, way) {
            (None, ListMove::On(_) | ListMove::Back(_)) => self.offset,
            _ => way.from(self.cursor, self.last()),
        };
        self.choose(place);
        self.follow();
    }

    /// Chooses none.
    pub(crate) fn let_go(&mut self) {
        self.chosen = None;
        self.cursor = 0;
        self.follow();
    }

    /// Sets the number of lines that fit on the screen.
    pub(crate) fn fit(&mut self, page: usize) {
        self.page = page;
        self.follow();
    }

    pub(crate) fn page(&self) -> usize {
        self.page
    }

    /// Moves the screen as little as shows the chosen one.
    fn follow(&mut self) {
        let first_at_end = self.shown.len().saturating_sub(self.page);
        let least = (self.cursor + 1).saturating_sub(self.page);
        self.offset = self.offset.clamp(least, self.cursor.max(least)).min(first_at_end);
    }

    pub(crate) fn chosen(&self) -> Option<&Row> {
        self.chosen.as_ref().and_then(|_| self.shown.get(self.cursor)).map(|at| &self.rows[*at])
    }

    /// The rows on the screen, and whether each is the chosen one.
    pub(crate) fn visible(&self) -> impl Iterator<Item = (&Row, bool)> {
        let cursor = self.chosen.as_ref().map(|_| self.cursor);
        let places = self.shown.iter().enumerate().skip(self.offset).take(self.page);
        places.map(move |(place, at)| (&self.rows[*at], cursor == Some(place)))
    }

    /// How many match the filter.
    pub(crate) fn matching(&self) -> usize {
        self.shown.len()
    }

    pub(crate) fn sums(&self) -> Sums {
        Sums {
            locks: self.rows.len(),
            held: self.rows.iter().filter(|row| !row.view.holders.is_empty()).count(),
            waiting: self.rows.iter().map(|row| row.view.waiting).sum(),
            quarantine_left: self.rows.iter().filter_map(|row| row.view.quarantine_left).max(),
        }
    }
}
