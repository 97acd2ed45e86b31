//! G3: no live waiter is overtaken.
//!
//! The keeper's own order is that of `Placed`; a place ends when it is granted, given up, lapsed or
//! forgotten. Where that is not known, a `QueueKey` shows the order from outside: a waiter in it comes before the next
//! one in it, and before all clients that ask later. A waiter that a fault has hit since then may have lost its place, and so
//! may one whose client was not heard for a waiter lease: see [`PlaceRefreshes`]. A place that its client lost must have been
//! lost in one of these ways.
//!
//! A process that keeps a lock may give its tasks turns of one grant while others wait, for as long as a lease. Such a
//! turn has no place of its own; the grant that it is part of is judged.

use std::collections::{BTreeMap, BTreeSet};

use super::g3_lapses::{self, Disturbances};
use super::{Findings, PlaceRefreshes, exclude_each_other};
use crate::{EventKind, HistoryAsk, HistoryEvent, Op, Ops};

/// Says how many grants could be judged by what was seen from outside.
pub(crate) fn check(events: &[HistoryEvent], ops: &Ops<'_>, findings: &mut Findings) -> u64 {
    let known = as_placed(events, ops, findings);
    let refreshes = PlaceRefreshes::of(events, ops.waiter_lease_us);
    let disturbances = Disturbances::of(events, ops);
    g3_lapses::check(events, ops, &refreshes, &disturbances, findings);
    as_seen(events, ops, &known, &refreshes, &disturbances, findings)
}

/// Who waits for the same: for the lock, or for one member of a pool. `None` takes any.
type QueueKey<'a> = (&'a str, Option<&'a str>);

fn line<'a>(op: &Op<'a>) -> QueueKey<'a> {
    match op.ask {
        HistoryAsk::Member(member) => (op.lock, Some(member)),
        _ => (op.lock, None),
    }
}

/// Those who would have taken what was granted: who wants any, and who wants this member.
fn rivals<'a>(lock: &'a str, member: Option<&'a str>) -> impl Iterator<Item = QueueKey<'a>> {
    [(lock, None)].into_iter().chain(member.map(|member| (lock, Some(member))))
}

/// Returns the locks whose keeper's order is known.
fn as_placed<'a>(
    events: &'a [HistoryEvent],
    ops: &Ops<'a>,
    findings: &mut Findings,
) -> BTreeSet<&'a str> {
    let mut queues: BTreeMap<&str, KeeperQueue<'_>> = BTreeMap::new();
    for event in events {
        if event.what == EventKind::Forgot {
            queues.values_mut().for_each(KeeperQueue::forget);
            continue;
        }
        let Some(of) = event.what.op().and_then(|op| ops.all.get(&op)) else { continue };
        let mut wrong = |what: String| findings.add(event.at_us, of.lock, what);
        match &event.what {
            EventKind::Placed { number, .. } => {
                let queue = queues.entry(of.lock).or_default();
                // Who has a place keeps it, whatever it is told.
                if queue.place(of).is_some() {
                    continue;
                }
                if queue.numbers.insert(of.op, *number).is_none()
                    && !queue.unsure.remove(&of.op)
                    && let Some(other) = queue.behind(*number)
                {
                    wrong(format!("operation {} came after {other}, and stands before it", of.op));
                }
                queue.waiting.entry(line(of)).or_default().insert(*number, of.op);
            }
            EventKind::Minted { token, member, .. } => {
                let queue = queues.entry(of.lock).or_default();
                queue.leave(of);
                // Who asks again is told again what it was granted, and by a stale replica what it was granted
                // before its last grant.
                if !queue.minted.insert((of.op, *token)) {
                    continue;
                }
                let overtaken = queue.before(of, member.as_deref());
                match overtaken.as_slice() {
                    [] => {}
                    [(_, first)] => {
                        wrong(format!("operation {} was granted before {first}", of.op))
                    }
                    [(_, first), more @ ..] => wrong(format!(
                        "operation {} was granted before {first} and {} more",
                        of.op,
                        more.len()
                    )),
                }
            }
            // An old request of the owner that it was then may have been given a place since.
            EventKind::Again { was_granted: true, .. }
            | EventKind::Lapsed { .. }
            | EventKind::Told { .. }
            | EventKind::GivenUp { .. }
            | EventKind::Freed { .. } => {
                if let Some(queue) = queues.get_mut(of.lock) {
                    queue.leave(of);
                }
            }
            _ => {}
        }
    }
    queues.into_keys().collect()
}

/// The queue of one lock, as its keeper numbers it.
#[derive(Default)]
struct KeeperQueue<'a> {
    waiting: BTreeMap<QueueKey<'a>, BTreeMap<u64, u64>>,
    /// The last place of each operation.
    numbers: BTreeMap<u64, u64>,
    /// What each operation was ever granted, by token.
    minted: BTreeSet<(u64, u64)>,
    /// Waiters for whom the keeper may remember an earlier place than the one that was seen.
    unsure: BTreeSet<u64>,
}

impl<'a> KeeperQueue<'a> {
    fn forget(&mut self) {
        self.waiting.clear();
        self.unsure.extend(std::mem::take(&mut self.numbers).into_keys());
    }

    /// Its number, while it waits.
    fn place(&self, op: &Op<'a>) -> Option<u64> {
        let number = self.numbers.get(&op.op).copied()?;
        let waiting = self.waiting.get(&line(op))?;
        (waiting.get(&number) == Some(&op.op)).then_some(number)
    }

    fn leave(&mut self, op: &Op<'a>) {
        if let Some(number) = self.place(op)
            && let Some(waiting) = self.waiting.get_mut(&line(op))
        {
            waiting.remove(&number);
        }
    }

    /// One who waits at this number or behind it.
    fn behind(&self, number: u64) -> Option<u64> {
        let mut lines = self.waiting.values();
        lines.find_map(|waiting| waiting.range(number..).next().map(|(_, op)| *op))
    }

    /// Who waits before this one for what it was granted. A place that lapsed is not lost until another
    /// is granted.
    fn before(&self, op: &Op<'a>, member: Option<&str>) -> Vec<(u64, u64)> {
        let unplaced = if self.unsure.contains(&op.op) { 0 } else { u64::MAX };
        let number = self.numbers.get(&op.op).copied().unwrap_or(unplaced);
        let waiting = rivals(op.lock, member).filter_map(|line| self.waiting.get(&line));
        let mut before: Vec<(u64, u64)> = waiting
            .flat_map(|waiting| waiting.range(..number))
            .map(|(number, op)| (*number, *op))
            .collect();
        before.sort_unstable();
        before
    }
}

/// Those seen in a line so far who may have been overtaken by one behind them.
#[derive(Default)]
struct EarlierWaiters<'a> {
    /// Of those who held in the end the last one.
    last: Option<&'a Op<'a>>,
    /// Of those who never held the one who waited for longest, and until when.
    patient: Option<(u64, &'a Op<'a>)>,
}

fn as_seen(
    events: &[HistoryEvent],
    ops: &Ops<'_>,
    known: &BTreeSet<&str>,
    refreshes: &PlaceRefreshes<'_>,
    disturbances: &Disturbances,
    findings: &mut Findings,
) -> u64 {
    let end_us = events.last().map_or(0, |event| event.at_us);
    let mut by_asking = ops.by_lock();
    by_asking.values_mut().for_each(|of_lock| of_lock.sort_by_key(|op| op.asked_us));
    let local_turns: BTreeSet<u64> = by_asking.values().flat_map(|ops| local_turns(ops)).collect();
    let mut judged: BTreeSet<(u64, u64)> = BTreeSet::new();
    for event in events {
        let EventKind::Line { lock, ops: line_of } = &event.what else { continue };
        if known.contains(lock.as_str()) {
            continue;
        }
        let line_of: Vec<&Op<'_>> = line_of.iter().filter_map(|op| ops.all.get(op)).collect();
        let of_lock = by_asking.get(lock.as_str()).map_or(&[][..], Vec::as_slice);
        let since = of_lock.partition_point(|op| op.asked_us <= event.at_us);
        let heard_us = line_of.iter().map(|op| op.granted_us.or(op.ended_us).unwrap_or(end_us));
        let until_us = heard_us.max().unwrap_or(0);
        let newcomers = of_lock[since..].iter().take_while(|op| op.asked_us < until_us);
        let mut ahead: BTreeMap<QueueKey<'_>, EarlierWaiters<'_>> = BTreeMap::new();
        let in_line = line_of.len();
        for (place, next) in line_of.iter().chain(newcomers).copied().enumerate() {
            let kept_until_us = event.at_us.saturating_add(ops.max_lease_us);
            let is_kept = |at_us: u64| local_turns.contains(&next.op) && at_us <= kept_until_us;
            let is_judged = |&at_us: &u64| at_us > event.at_us && !is_kept(at_us);
            if let Some(granted_us) = next.granted_us.filter(is_judged) {
                let rivals = rivals(next.lock, next.member).filter_map(|line| ahead.get(&line));
                for first in rivals.flat_map(|ahead| ahead.to_compare(next, ops.waiter_lease_us)) {
                    // A turn may be lost before its client hears of it. Who never held must have been well
                    // until it was sure that it still waits.
                    let sure_us = match first.granted_us {
                        Some(heard_us) => heard_us.max(granted_us),
                        None => granted_us.saturating_add(ops.waiter_lease_us),
                    };
                    if disturbances.met_alone(first.client, event.at_us, sure_us)
                        || refreshes.may_have_lapsed(first, event.at_us, granted_us)
                        || !judged.insert((first.op, next.op))
                    {
                        continue;
                    }
                    if came_later(first, next) {
                        let (first, next) = (first.op, next.op);
                        let what =
                            format!("operation {first} stood before {next}, which held first");
                        findings.add(granted_us, lock, what);
                    }
                }
            }
            // In which order newcomers stand among themselves is not known.
            if place < in_line {
                ahead.entry(line(next)).or_default().add(next, end_us);
            }
        }
    }
    judged.len() as u64
}

impl<'a> EarlierWaiters<'a> {
    fn add(&mut self, op: &'a Op<'a>, end_us: u64) {
        if op.granted_us.is_some() {
            if self.last.is_none_or(|last| came_later(op, last)) {
                self.last = Some(op);
            }
        } else if !op.died {
            let until_us = op.ended_us.unwrap_or(end_us);
            if self.patient.is_none_or(|(longest_us, _)| until_us > longest_us) {
                self.patient = Some((until_us, op));
            }
        }
    }

    /// With whom one that held can be compared. One that never held may have been granted it all the
    /// same, and not have heard of it; or it had given up, and was told later. So it must have waited
    /// for some time after. Without tokens the order of holders is known if they exclude each other.
    fn to_compare(&self, next: &Op<'_>, waiter_lease_us: u64) -> impl Iterator<Item = &'a Op<'a>> {
        let last = self.last.filter(|last| match (last.token, next.token) {
            (Some(_), Some(_)) => true,
            (None, None) => exclude_each_other(last, next) && last.span().is_some(),
            _ => false,
        });
        let held_us = next.granted_us.unwrap_or(u64::MAX);
        let still = |&(until_us, _): &(u64, _)| until_us > held_us.saturating_add(waiter_lease_us);
        let patient = self.patient.filter(still).map(|(_, op)| op);
        // Who never heard of a turn may have had it beside the other's, if those go together.
        let patient = patient.filter(|patient| exclude_each_other(patient, next));
        last.into_iter().chain(patient)
    }
}

/// How far the tokens of one grant may be apart: a store reserves none that lie further ahead of its clock, in µs.
const TOKENS_PER_GRANT_MAX: u64 = 10_000;

/// The turns that a client gave itself: each follows another turn of a grant that both may share.
fn local_turns(of_lock: &[&Op<'_>]) -> BTreeSet<u64> {
    let held = of_lock.iter().filter(|op| op.granted_us.is_some());
    let mut by_token: Vec<_> = held.filter_map(|op| Some((op.token?, *op))).collect();
    by_token.sort_unstable_by_key(|(token, _)| *token);
    let pairs = by_token.iter().zip(by_token.iter().skip(1));
    let follows = |((before, first), (token, next)): &(&(u64, &Op<'_>), &(u64, &Op<'_>))| {
        let is_shared = first.client == next.client && first.keeps && next.keeps;
        is_shared && token - before <= TOKENS_PER_GRANT_MAX
    };
    pairs.filter(follows).map(|(_, (_, next))| next.op).collect()
}

/// Was the first granted it later than the second, or never?
fn came_later(first: &Op<'_>, second: &Op<'_>) -> bool {
    let order = |op: &Op<'_>| (op.token, op.granted_us);
    first.granted_us.is_none() || order(first) > order(second)
}

#[cfg(test)]
mod tests {
    use crate::{EventKind, Guarantee, HistoryAsk, HistoryEvent, HistoryLock, LockKind, check};

    /// Two are seen to wait, and the second holds first, at 30; then there is more.
    fn overtaken(more: impl IntoIterator<Item = (u64, EventKind)>) -> usize {
        overtaken_on(LockKind::Mutex, HistoryAsk::Mutex, more)
    }

    fn overtaken_on(
        kind: LockKind,
        ask: HistoryAsk,
        more: impl IntoIterator<Item = (u64, EventKind)>,
    ) -> usize {
        let lock = "till".to_owned();
        let asked = |op, client: u32| {
            let (lock, ask) = (lock.clone(), ask.clone());
            EventKind::Asked { op, client, lock, ask, endless: true, keeps: false }
        };
        let begins = EventKind::Begins {
            title: String::new(),
            locks: vec![HistoryLock { name: lock.clone(), kind }],
            waiter_lease_us: 5,
            max_lease_us: 100,
            stopped_blocks: false,
        };
        let line = EventKind::Line { lock: lock.clone(), ops: vec![1, 2] };
        let mut history = vec![
            (0, begins),
            (10, asked(1, 1)),
            (11, asked(2, 2)),
            (20, line),
            (30, granted(2, 7)),
        ];
        history.extend(more);
        let event = |(at_us, what)| HistoryEvent { at_us, what };
        let history: Vec<HistoryEvent> = history.into_iter().map(event).collect();
        check(&history).iter().filter(|found| found.guarantee == Guarantee::G3).count()
    }

    #[test]
    fn who_asks_after_somebody_was_seen_to_wait_does_not_hold_before_it() {
        let asked = |op, ask| {
            let lock = "till".to_owned();
            EventKind::Asked { op, client: 3, lock, ask, endless: true, keeps: false }
        };
        let newcomer =
            [(50, asked(3, HistoryAsk::Mutex)), (51, granted(3, 8)), (60, granted(1, 9))];
        assert_eq!(overtaken(newcomer.clone()), 2, "by the one behind it, and by the newcomer");
        let [asks, holds, _] = newcomer;
        assert_eq!(overtaken([(25, granted(1, 6)), asks, holds]), 0);
    }

    #[test]
    fn a_turn_of_a_grant_that_a_process_keeps_overtakes_nobody() {
        let asked = |at_us, op, client, keeps| {
            let (lock, ask) = ("till".to_owned(), HistoryAsk::Mutex);
            (at_us, EventKind::Asked { op, client, lock, ask, endless: true, keeps })
        };
        // While 1 waits, 4 asks; 3 holds, then 4, whose token is this much greater.
        let overtaken_by = |client, keeps, more: u64| {
            let begins = EventKind::Begins {
                title: String::new(),
                locks: vec![HistoryLock { name: "till".to_owned(), kind: LockKind::Mutex }],
                waiter_lease_us: 5,
                max_lease_us: 100,
                stopped_blocks: false,
            };
            let line = EventKind::Line { lock: "till".to_owned(), ops: vec![1] };
            let history = [
                (0, begins),
                asked(10, 1, 1, false),
                asked(21, 3, 3, true),
                (22, line),
                asked(23, 4, client, keeps),
                (24, granted(3, 7)),
                (30, granted(4, 7 + more)),
                (200, granted(1, 900_000)),
            ];
            let event = |(at_us, what)| HistoryEvent { at_us, what };
            let history: Vec<HistoryEvent> = history.into_iter().map(event).collect();
            check(&history).iter().filter(|found| found.guarantee == Guarantee::G3).count()
        };
        assert_eq!(overtaken_by(3, true, 1), 0);
        assert_eq!(overtaken_by(3, false, 1), 1, "it did not want to share");
        assert_eq!(overtaken_by(4, true, 1), 1, "it is of another client");
        assert_eq!(overtaken_by(3, true, 20_000), 1, "it is of another grant");
    }

    #[test]
    fn who_gives_up_a_permit_unheard_may_have_had_it_beside_the_other() {
        let gives_up = || [(40, EventKind::Cancelled { op: 1 })];
        assert_eq!(overtaken(gives_up()), 1);
        assert_eq!(overtaken_on(LockKind::Semaphore(3), HistoryAsk::Permits(1), gives_up()), 0);
        let holds = [(40, granted(1, 8))];
        assert_eq!(overtaken_on(LockKind::Semaphore(3), HistoryAsk::Permits(1), holds), 1);
    }

    #[test]
    fn who_gives_up_a_broken_grant_has_its_new_place_and_who_leaves_a_place_has_its_old_one() {
        let overtaken_after = |was_granted| {
            let asked = |op, client: u32| {
                let lock = "till".to_owned();
                EventKind::Asked {
                    op,
                    client,
                    lock,
                    ask: HistoryAsk::Mutex,
                    endless: true,
                    keeps: false,
                }
            };
            let placed = |op, number| EventKind::Placed { op, number, quarantined: false };
            let again = EventKind::Again { op: 1, was_granted };
            let minted = EventKind::Minted { op: 2, token: 7, member: None };
            let history =
                [asked(1, 1), asked(2, 2), placed(1, 1), placed(2, 2), again, placed(1, 3), minted];
            let event = |(at_us, what)| HistoryEvent { at_us, what };
            let history: Vec<HistoryEvent> = (0..).zip(history).map(event).collect();
            check(&history).iter().filter(|found| found.guarantee == Guarantee::G3).count()
        };
        assert_eq!(overtaken_after(true), 0);
        assert_eq!(overtaken_after(false), 1);
    }

    fn granted(op: u64, token: u64) -> EventKind {
        EventKind::Granted { op, token: Some(token), member: None, until_us: 0 }
    }

    #[test]
    fn who_stood_before_and_holds_later_was_overtaken_unless_its_token_is_older() {
        assert_eq!(overtaken([(40, granted(1, 8))]), 1);
        assert_eq!(overtaken([(40, granted(1, 6))]), 0);
    }

    #[test]
    fn a_turn_that_was_lost_before_its_client_heard_of_it_is_nobodys_fault() {
        let paused =
            [(35, EventKind::Paused { client: 1 }), (50, EventKind::Resumed { client: 1 })];
        assert_eq!(overtaken(paused.into_iter().chain([(60, granted(1, 8))])), 0);
        assert_eq!(overtaken([(35, EventKind::Died { client: 1 })]), 0);
        // What happens to it once it holds has nothing to do with that, nor what happens to others.
        assert_eq!(overtaken([(40, granted(1, 8)), (41, EventKind::Paused { client: 1 })]), 1);
        assert_eq!(overtaken([(35, EventKind::Paused { client: 3 }), (40, granted(1, 8))]), 1);
    }
}
