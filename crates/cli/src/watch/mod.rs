//! The history of locks, learnt by polling a store: who held what, and who waited for how long. `ls --watch`,
//! `top` and `serve` use it. Pure: the views, and when they were taken, are given.
//!
//! A store tells nobody what happens in it but those whom it concerns, so that a grant costs no more
//! when somebody looks. What is told here is therefore what looking can tell: a turn that begins and ends
//! between two looks is not seen, and a turn's end is known as exactly as the looks are close.

pub(crate) mod again;
pub(crate) mod order;
pub(crate) mod pace;
mod turns;
mod waits;

use std::collections::BTreeMap;

use serde::Serialize;
use taketurns::{HolderView, Name, View, WaiterView};

use crate::output::whole_millis;
use crate::work;
use order::{Filter, Sort};
pub(crate) use turns::ObservedTurn;
use turns::PastTurns;
pub(crate) use waits::{BOUNDS_MS, WaitHistogram};

/// How many waiters of each lock are looked at: enough to know how long those waited who are next.
pub(crate) const WAITERS: usize = 16;

/// What polling has shown of all locks.
#[derive(Debug, Default)]
pub(crate) struct LockHistory {
    /// As of the last look.
    locks: BTreeMap<Name, LockRecord>,
    past: PastTurns,
    waits: WaitHistogram,
    /// When it was looked at last, in Unix milliseconds; `None` before the first look.
    seen_ms: Option<u64>,
    /// How many looks there were: the clock may be set back.
    looks: u64,
    /// How many turns were seen to begin since the first look.
    grants: u64,
    next_id: u64,
}

#[derive(Debug)]
struct LockRecord {
    view: View,
    /// One for each of its holders.
    turns: Vec<ObservedTurn>,
}

/// All locks in a few numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    pub(crate) locks: usize,
    pub(crate) held: usize,
    pub(crate) waiting: usize,
    pub(crate) quarantined: usize,
    /// Work that is done, and remembered.
    pub(crate) done: usize,
    /// Work that is not done, though somebody has tried.
    pub(crate) failed: usize,
    pub(crate) longest_wait_ms: u64,
    pub(crate) longest_hold_ms: u64,
}

impl LockHistory {
    /// Takes in what was seen of all locks, each with its first [`WAITERS`] waiters.
    pub(crate) fn see(&mut self, now_ms: u64, listed: Vec<(Name, View)>) {
        let mut before = std::mem::take(&mut self.locks);
        self.looks += 1;
        for (name, view) in listed {
            let known = before.remove(&name);
            let turns = self.follow(&name, &view, known, now_ms);
            self.locks.insert(name, LockRecord { view, turns });
        }
        for seen in before.into_values() {
            self.end(seen.turns, now_ms);
        }
        self.past.trim(now_ms);
        self.seen_ms = Some(now_ms);
    }

    /// The turns of a lock's holders, of whom some were seen before.
    fn follow(
        &mut self,
        name: &Name,
        view: &View,
        known: Option<LockRecord>,
        now_ms: u64,
    ) -> Vec<ObservedTurn> {
        let (before, mut left) = match known {
            Some(LockRecord { view, turns }) => (Some(view), turns),
            None => (None, Vec::new()),
        };
        let mut waiters = before.as_ref().map_or(Vec::new(), |view| view.waiters.iter().collect());
        let mut turns = Vec::with_capacity(view.holders.len());
        let mut began_ms = now_ms;
        for holder in &view.holders {
            if let Some(place) = left.iter().position(|turn| is_of(turn, holder, now_ms)) {
                let mut turn = left.remove(place);
                if turn.broken != holder.revoked {
                    (turn.broken, turn.learnt) = (holder.revoked, self.looks);
                }
                turns.push(turn);
                continue;
            }
            let turn = ObservedTurn::began(self.next_id, name, holder, now_ms, self.looks);
            self.next_id += 1;
            if let Some(seen_ms) = self.seen_ms {
                self.grants += 1;
                began_ms = began_ms.min(turn.from_ms);
                if let Some(waited_ms) =
                    waited(&turn, holder, before.as_ref(), &mut waiters, seen_ms)
                {
                    self.waits.add(waited_ms);
                }
            }
            turns.push(turn);
        }
        // The earlier holder of a mutex was gone before the next one got it.
        self.end(left, began_ms);
        turns
    }

    fn end(&mut self, turns: Vec<ObservedTurn>, now_ms: u64) {
        for mut turn in turns {
            turn.to_ms = Some(now_ms.max(turn.from_ms));
            turn.learnt = self.looks;
            self.past.add(turn);
        }
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals { locks: self.locks.len(), ..Totals::default() };
        for LockRecord { view, .. } in self.locks.values() {
            totals.held += usize::from(!view.holders.is_empty());
            totals.waiting += view.waiting;
            totals.quarantined += usize::from(view.quarantine_left.is_some());
            if let Some(work) = &view.work {
                totals.done += usize::from(work.done.is_some());
                totals.failed += usize::from(work.done.is_none());
            }
            let waited = view.waiters.iter().map(|waiter| whole_millis(waiter.waited_for)).max();
            totals.longest_wait_ms = totals.longest_wait_ms.max(waited.unwrap_or(0));
            let held = order::held_for(view).map_or(0, whole_millis);
            totals.longest_hold_ms = totals.longest_hold_ms.max(held);
        }
        totals
    }

    /// Returns the work that is done, in the order of the names.
    pub(crate) fn done(&self) -> impl Iterator<Item = (&Name, &View)> {
        let all = self.locks.iter().map(|(name, seen)| (name, &seen.view));
        all.filter(|(_, view)| work::done_ago(view).is_some())
    }

    /// Returns the first locks that match, in order, up to a limit; and how many match.
    pub(crate) fn locks(
        &self,
        filter: &Filter,
        sort: Sort,
        max: usize,
    ) -> (Vec<(&Name, &View)>, usize) {
        let all = self.locks.iter().map(|(name, seen)| (name, &seen.view));
        let mut locks: Vec<_> = all.filter(|(name, view)| filter.matches(name, view)).collect();
        locks.sort_unstable_by(|a, b| sort.compare(*a, *b));
        let matching = locks.len();
        locks.truncate(max);
        (locks, matching)
    }

    /// Returns the turns that changed after that poll, up to a limit: first those that go on, then those that have
    /// ended, each group from the latest.
    pub(crate) fn turns(
        &self,
        filter: &Filter,
        after: Option<u64>,
        max: usize,
    ) -> Vec<&ObservedTurn> {
        let is_new = |turn: &&ObservedTurn| after.is_none_or(|after| turn.learnt > after);
        let is_wanted = |turn: &&ObservedTurn| {
            filter.is_in([turn.lock.as_str(), turn.who.as_str(), turn.why.as_str()])
        };
        let mut going: Vec<_> = self.locks.values().flat_map(|seen| &seen.turns).collect();
        going.sort_by_key(|turn| std::cmp::Reverse(turn.from_ms));
        going
            .into_iter()
            .chain(self.past.newest())
            .filter(is_new)
            .filter(is_wanted)
            .take(max)
            .collect()
    }

    pub(crate) fn waits(&self) -> &WaitHistogram {
        &self.waits
    }

    pub(crate) fn grants(&self) -> u64 {
        self.grants
    }

    pub(crate) fn looks(&self) -> u64 {
        self.looks
    }

    pub(crate) fn seen_ms(&self) -> Option<u64> {
        self.seen_ms
    }
}

/// Is this holder the one of that turn? By its token; on a wire without tokens, by who it is and since
/// when, as exactly as two looks tell.
fn is_of(turn: &ObservedTurn, holder: &HolderView, now_ms: u64) -> bool {
    const ABOUT_MS: u64 = 1_000;
    let about =
        now_ms.saturating_sub(whole_millis(holder.held_for)).abs_diff(turn.from_ms) < ABOUT_MS;
    turn.token == holder.token
        && turn.member == holder.member
        && (turn.token.is_some() || turn.who == holder.label.who() && about)
}

/// How long a new holder had waited, if that can be told. Who was not in line at the last look came
/// after it, and has waited for less than the time since then, unless the line was longer than what
/// was seen of it.
fn waited(
    turn: &ObservedTurn,
    holder: &HolderView,
    before: Option<&View>,
    waiters: &mut Vec<&WaiterView>,
    seen_ms: u64,
) -> Option<u64> {
    let is_it = |waiter: &&WaiterView| {
        (waiter.client, &waiter.label, &waiter.ask) == (holder.client, &holder.label, &holder.ask)
    };
    let since_look_ms = turn.from_ms.saturating_sub(seen_ms);
    if let Some(place) = waiters.iter().position(is_it) {
        // Of several that look alike the first is granted first.
        return Some(whole_millis(waiters.remove(place).waited_for) + since_look_ms);
    }
    let all_seen = before.is_none_or(|view| view.waiters.len() == view.waiting);
    // Somebody may have come, waited and been granted since: less than the least bound is no guess.
    (all_seen && since_look_ms <= BOUNDS_MS[0]).then_some(0)
}

#[cfg(test)]
pub(crate) mod tests;
