//! The operations of a history, each put together from its events.

use std::collections::{BTreeMap, BTreeSet};

use crate::{EventKind, HistoryAsk, HistoryEvent, LockKind};

/// One acquire and all that came of it.
#[derive(Clone, Debug)]
pub struct Op<'a> {
    /// Its number.
    pub op: u64,
    /// Whose.
    pub client: u32,
    /// The lock's name.
    pub lock: &'a str,
    /// What is wanted.
    pub ask: &'a HistoryAsk,
    /// Will it wait for as long as it takes?
    pub endless: bool,
    /// May it share a grant with other operations of its client?
    pub keeps: bool,
    /// When it was asked.
    pub asked_us: u64,
    /// When the guard was there.
    pub granted_us: Option<u64>,
    /// Its token, also if it never heard of it.
    pub token: Option<u64>,
    /// Its member.
    pub member: Option<&'a str>,
    /// What the guard said, when it was there and each time it was asked: when, and until when it
    /// holds.
    pub claims: Vec<(u64, u64)>,
    /// When it first said that it is lost.
    pub lost_us: Option<u64>,
    /// When the holder let go, or the acquire failed or was dropped, or its client died waiting.
    pub ended_us: Option<u64>,
    /// Did its client die waiting? When exactly, nobody knows.
    pub died: bool,
}

impl Op<'_> {
    /// The time in which it claims to hold: from when it had its guard until the end that the guard
    /// named last, or until it was lost or let go. A guard that is held has been so all the time,
    /// since lost is final. One that died holds until its time is over.
    pub fn span(&self) -> Option<(u64, u64)> {
        let (from_us, _) = *self.claims.first()?;
        let lost_us = self.lost_us.unwrap_or(u64::MAX);
        let told = |&&(told_us, _): &&(u64, u64)| told_us == from_us || told_us <= lost_us;
        let (_, until_us) = *self.claims.iter().rev().find(told)?;
        let until_us = until_us.min(lost_us).min(self.ended_us.unwrap_or(u64::MAX));
        (from_us < until_us).then_some((from_us, until_us))
    }

    /// Does it still wait at this time?
    pub fn waits_at(&self, at_us: u64) -> bool {
        let later = |end_us: Option<u64>| end_us.is_none_or(|end_us| end_us > at_us);
        self.asked_us <= at_us && later(self.granted_us) && later(self.ended_us)
    }
}

/// All operations, with the locks that they are about.
#[derive(Debug, Default)]
pub struct Ops<'a> {
    /// By number.
    pub all: BTreeMap<u64, Op<'a>>,
    /// By name.
    pub kinds: BTreeMap<&'a str, LockKind>,
    /// No lease is longer.
    pub max_lease_us: u64,
    /// For how long a place outlives its client.
    pub waiter_lease_us: u64,
    /// May a client that is stopped hold up all others?
    pub stopped_blocks: bool,
    /// What each client asked for and has no outcome of.
    waiting: BTreeMap<u32, BTreeSet<u64>>,
}

impl<'a> Ops<'a> {
    /// Puts them together.
    pub fn of(events: &'a [HistoryEvent]) -> Self {
        let mut ops = Self::default();
        for event in events {
            ops.add(event);
        }
        ops
    }

    fn add(&mut self, event: &'a HistoryEvent) {
        let at_us = event.at_us;
        match &event.what {
            EventKind::Begins { locks, waiter_lease_us, max_lease_us, stopped_blocks, .. } => {
                self.stopped_blocks |= stopped_blocks;
                self.kinds.extend(locks.iter().map(|lock| (lock.name.as_str(), lock.kind)));
                self.waiter_lease_us = self.waiter_lease_us.max(*waiter_lease_us);
                self.max_lease_us = self.max_lease_us.max(*max_lease_us);
            }
            EventKind::Asked { op, client, lock, ask, endless, keeps } => {
                let asked = Op {
                    op: *op,
                    client: *client,
                    lock,
                    ask,
                    endless: *endless,
                    keeps: *keeps,
                    asked_us: at_us,
                    granted_us: None,
                    token: None,
                    member: None,
                    claims: Vec::new(),
                    lost_us: None,
                    ended_us: None,
                    died: false,
                };
                self.all.entry(*op).or_insert(asked);
                self.waiting.entry(*client).or_default().insert(*op);
            }
            EventKind::Died { client } => {
                for op in self.waiting.remove(client).unwrap_or_default() {
                    if let Some(op) = self.all.get_mut(&op) {
                        op.ended_us.get_or_insert(at_us);
                        op.died = true;
                    }
                }
            }
            what => {
                let Some(op) = what.op().and_then(|op| self.all.get_mut(&op)) else { return };
                op.add(at_us, what);
                if (op.granted_us.is_some() || op.ended_us.is_some())
                    && let Some(waiting) = self.waiting.get_mut(&op.client)
                {
                    waiting.remove(&op.op);
                }
            }
        }
    }

    /// All of one lock, in the order of their numbers.
    pub fn by_lock(&self) -> BTreeMap<&'a str, Vec<&Op<'a>>> {
        let mut locks: BTreeMap<&str, Vec<&Op<'a>>> = BTreeMap::new();
        for op in self.all.values() {
            locks.entry(op.lock).or_default().push(op);
        }
        locks
    }
}

impl<'a> Op<'a> {
    fn add(&mut self, at_us: u64, what: &'a EventKind) {
        match what {
            EventKind::Granted { token, member, until_us, .. } => {
                self.granted_us.get_or_insert(at_us);
                self.token = token.or(self.token);
                self.member = member.as_deref().or(self.member);
                self.claims.push((at_us, *until_us));
            }
            EventKind::Minted { token, member, .. } if self.granted_us.is_none() => {
                self.token = Some(*token);
                self.member = member.as_deref();
            }
            EventKind::Checked { until_us: Some(until_us), .. } => {
                self.claims.push((at_us, *until_us))
            }
            EventKind::Checked { until_us: None, .. } | EventKind::Lost { .. } => {
                self.lost_us.get_or_insert(at_us);
            }
            EventKind::Releases { .. }
            | EventKind::Failed { .. }
            | EventKind::DoneBefore { .. }
            | EventKind::Cancelled { .. } => {
                self.ended_us.get_or_insert(at_us);
            }
            _ => {}
        }
    }
}
