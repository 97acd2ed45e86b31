//! What a task acquires next, how long it waits and how long it holds: drawn anew for every turn.

use std::time::Duration;

use taketurns::{Acquire, Keep, Locks, Once};
use taketurns_history::{HistoryAsk, HistoryLock, LockKind};
use taketurns_servers::turns::now_us;

use crate::dice::RunDice;
use crate::plan::{CHORE_EVERY, LEASE, MAX_LEASE, MEMBERS};

/// How long a task waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitChoice {
    /// As long as it takes.
    Endless,
    /// So long, or not at all.
    Within(Duration),
    /// It is dropped then, wherever it is.
    Dropped(Duration),
}

/// One acquire and what is done under it.
#[derive(Clone, Debug)]
pub(super) struct AcquirePlan {
    pub(super) lock: String,
    pub(super) ask: HistoryAsk,
    pub(super) limit: WaitChoice,
    pub(super) lease: Duration,
    /// For how long it is held.
    pub(super) hold: Duration,
    /// How long the last look at the guard is old when the write goes out.
    pub(super) slow: Duration,
    /// Is the guard dropped, instead of given back?
    pub(super) dropped: bool,
    /// Does the attempt at work fail?
    pub(super) fails: bool,
    permits: u32,
    /// How long the process may keep the lock for its own use.
    keep: Keep,
}

/// The work of now, which all clients want to do.
fn chore(of: &str) -> String {
    format!("{of}/{}", now_us() / CHORE_EVERY.as_micros() as u64)
}

impl AcquirePlan {
    /// `may_keep` if the store lets a process keep a mutex.
    pub(super) fn new(locks: &[HistoryLock], may_keep: bool, dice: &mut RunDice) -> Self {
        let lock = dice.pick(locks);
        let ask = match lock.kind {
            LockKind::Mutex => HistoryAsk::Mutex,
            LockKind::Rwlock if dice.once_in(3) => HistoryAsk::Write,
            LockKind::Rwlock => HistoryAsk::Read,
            LockKind::Semaphore(permits) => {
                HistoryAsk::Permits(dice.between(1, u64::from(permits)) as u32)
            }
            LockKind::Pool if dice.once_in(3) => {
                HistoryAsk::Member((*dice.pick(&MEMBERS)).to_owned())
            }
            LockKind::Pool => HistoryAsk::Any,
            LockKind::Once => HistoryAsk::Once,
        };
        let limit = match dice.between(1, 10) {
            1..=5 => WaitChoice::Endless,
            6..=7 => WaitChoice::Within(dice.time(50, 2_000)),
            8 => WaitChoice::Within(Duration::ZERO),
            _ => WaitChoice::Dropped(dice.time(0, 500)),
        };
        // Most are short, so that much happens; some outlive their lease, and have to renew it.
        let hold = match dice.between(1, 100) {
            1..=80 => dice.time(0, 10),
            81..=98 => dice.time(10, 200),
            _ => dice.time(1_500, 4_000),
        };
        let keep = match dice.between(1, 8) {
            _ if !may_keep || ask != HistoryAsk::Mutex => Keep::default(),
            1..=4 => Keep::UntilWanted,
            5 => Keep::Turns(3),
            _ => Keep::default(),
        };
        let lease = if keep == Keep::default() && dice.once_in(4) {
            dice.time(1_000, 3_000)
        } else {
            LEASE
        }
        .min(MAX_LEASE);
        let slow = if dice.once_in(3) { dice.time(0, 60) } else { Duration::ZERO };
        let permits = if let LockKind::Semaphore(permits) = lock.kind { permits } else { 0 };
        let dropped = dice.once_in(8);
        let fails = dice.once_in(4);
        let lock = match ask {
            HistoryAsk::Once => chore(&lock.name),
            _ => lock.name.clone(),
        };
        Self { lock, ask, limit, lease, hold, slow, dropped, fails, permits, keep }
    }

    /// May its turn follow another one of its process, past the waiters of other processes?
    pub(super) fn keeps(&self) -> bool {
        self.keep != Keep::default()
    }

    /// The acquire. What people see of it is its number, by which an observer knows it.
    pub(super) fn acquire(&self, locks: &Locks, op: u64) -> Acquire {
        let name = &self.lock;
        let acquire = match &self.ask {
            HistoryAsk::Mutex => locks.mutex(name).acquire(),
            HistoryAsk::Read => locks.rwlock(name).read(),
            HistoryAsk::Write => locks.rwlock(name).write(),
            HistoryAsk::Permits(take) => locks.semaphore(name, self.permits).acquire_many(*take),
            HistoryAsk::Any => locks.pool(name).any(),
            HistoryAsk::Member(member) => locks.pool(name).member(member),
            HistoryAsk::Once => unreachable!("a once is no acquire"),
        };
        let acquire = acquire.lease(self.lease).why(op.to_string()).keep(self.keep);
        match self.limit {
            WaitChoice::Within(within) => acquire.within(within),
            WaitChoice::Endless | WaitChoice::Dropped(_) => acquire,
        }
    }

    /// The work that it wants to do. What people see of it is its number as well.
    pub(super) fn once(&self, locks: &Locks, op: u64) -> Once {
        let once = locks.once(&self.lock).lease(self.lease).why(op.to_string());
        match self.limit {
            WaitChoice::Within(within) => once.within(within),
            WaitChoice::Endless | WaitChoice::Dropped(_) => once,
        }
    }

    /// May it change what the lock guards? Who shares a lock may not.
    pub(super) fn writes(&self) -> bool {
        !matches!(self.ask, HistoryAsk::Read | HistoryAsk::Permits(_))
    }
}
