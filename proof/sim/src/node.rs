//! The keepers of locks: each a map of real [`Lock`]s with a clock of its own, which may stop, forget,
//! or be replaced by a copy that is behind. What only a node can know, it notes in a [`Register`].

use std::collections::{BTreeMap, VecDeque};

use taketurns::engine::{Answer, Now, Origin, Request, Stamp, Wake};
use taketurns::{Name, Token, View};
use taketurns_core::{Lock, limits};
use taketurns_history::EventKind;

use crate::machine::drifted;
use crate::plan::{Keepers, SimPlan};
use crate::register::Register;

/// When the clocks of all nodes would show the same if none were off.
const EPOCH_US: u64 = 1_790_000_000_000_000;

/// How many earlier states of itself a replica may be asked for.
const COPIES: usize = 12;

pub(crate) struct SimNode {
    locks: BTreeMap<Name, Lock>,
    /// Counts its starts.
    pub(crate) run: u64,
    offset_us: i64,
    drift: i64,
    pub(crate) down_until_us: u64,
    /// On its own clock. Nothing is granted before.
    quarantined_until_ms: u64,
    /// What a replica has: since when, and what.
    copies: VecDeque<(u64, BTreeMap<Name, Lock>)>,
    has_replica: bool,
    register: Register,
    pub(crate) steps: u64,
    /// The latest that its clock has shown. Tokens follow it, unless a quorum agrees on others.
    latest_us: Option<u64>,
}

/// What came of one request.
pub(crate) struct StepOutcome {
    pub(crate) answer: Answer,
    pub(crate) wakes: Vec<Wake>,
    pub(crate) noted: Vec<EventKind>,
}

impl SimNode {
    pub(crate) fn new(offset_us: i64, drift: i64, has_replica: bool, plan: &SimPlan) -> Self {
        Self {
            locks: BTreeMap::new(),
            run: 1,
            offset_us,
            drift,
            down_until_us: 0,
            quarantined_until_ms: 0,
            copies: VecDeque::new(),
            has_replica,
            register: Register::new(plan),
            steps: 0,
            latest_us: (!matches!(plan.keepers, Keepers::Quorum(_))).then_some(0),
        }
    }

    fn now(&self, true_us: u64) -> Now {
        let wall_us =
            (EPOCH_US + drifted(true_us, self.drift)).saturating_add_signed(self.offset_us);
        Now { ms: wall_us / 1_000, wall_us }
    }

    /// Its clock is set.
    pub(crate) fn jump(&mut self, by_us: i64) {
        self.offset_us += by_us;
    }

    pub(crate) fn stamp(&self, true_us: u64, connection: u64) -> Stamp {
        Stamp { now_ms: self.now(true_us).ms, origin: self.origin(connection), sent_us: None }
    }

    /// A new run of the server is more than a new connection to it.
    pub(crate) fn origin(&self, connection: u64) -> Origin {
        Origin { source: 0, epoch: self.run * 1_000_000 + connection }
    }

    pub(crate) fn view(&self, true_us: u64, name: &Name, waiters_max: usize) -> Option<View> {
        self.locks.get(name).map(|lock| lock.view(self.now(true_us), waiters_max))
    }

    pub(crate) fn step(
        &mut self,
        true_us: u64,
        connection: u64,
        name: &Name,
        request: &Request,
    ) -> Result<StepOutcome, String> {
        let now = self.now(true_us);
        self.steps += 1;
        let mut noted = Vec::new();
        self.register.lapse(name, now.ms, &mut noted);
        let quarantined_until_ms = self.quarantined_until_ms;
        let lock = self.locks.entry(name.clone()).or_insert_with(|| {
            let mut lock = Lock::new();
            lock.quarantine(quarantined_until_ms);
            lock
        });
        let step = lock.apply(now, request);
        let audit = lock.audit();
        audit.map_err(|corrupt| format!("{name} after {request:?}: {corrupt}"))?;
        let last_token = lock.last_token().map_or(0, Token::raw);
        if lock.is_blank() {
            self.locks.remove(name);
        }
        self.is_near_the_clock(now, last_token)
            .map_err(|ahead| format!("{name} after {request:?}: {ahead}"))?;
        self.register.note(name, now.ms, request, &step.reply, &step.wakes, &mut noted)?;
        if self.has_replica && step.changed {
            self.copies.push_back((true_us, self.locks.clone()));
            if self.copies.len() > COPIES {
                self.copies.pop_front();
            }
        }
        let stamp = step.timed.then(|| self.stamp(true_us, connection));
        let answer = Answer { reply: step.reply, stamp, more: step.more };
        Ok(StepOutcome { answer, wakes: step.wakes, noted })
    }

    /// A token that runs ahead of the clock would be larger than those after the lock was forgotten. Each
    /// grant has one more than the last, also while the clock stands still, and few steps make more than
    /// one grant.
    fn is_near_the_clock(&mut self, now: Now, last_token: u64) -> Result<(), String> {
        let Some(latest_us) = &mut self.latest_us else { return Ok(()) };
        *latest_us = now.wall_us.max(*latest_us);
        let ahead_us = last_token.saturating_sub(*latest_us);
        if ahead_us > limits::TOKENS_AHEAD_US + 2 * self.steps {
            return Err(format!("its last token is {ahead_us} µs ahead of the clock"));
        }
        Ok(())
    }

    /// Restarts with everything that it knew. The node itself can't be sure that it knows everything.
    pub(crate) fn restart(&mut self, true_us: u64, max_lease_ms: u64) {
        self.run += 1;
        self.quarantine(self.now(true_us).ms + max_lease_ms);
    }

    /// Starts anew, and knows nothing any more.
    pub(crate) fn forget(&mut self, true_us: u64, max_lease_ms: u64) {
        self.locks.clear();
        self.copies.clear();
        self.register = std::mem::take(&mut self.register).without_places();
        self.restart(true_us, max_lease_ms);
    }

    /// Another takes its place, with another clock and what it knew that long ago.
    pub(crate) fn fail_over(
        &mut self,
        true_us: u64,
        lag_us: u64,
        clock_us: i64,
        max_lease_ms: u64,
    ) {
        let behind_us = true_us.saturating_sub(lag_us);
        let copy = self.copies.iter().rev().find(|(at_us, _)| *at_us <= behind_us);
        let locks = copy.map(|(_, locks)| locks.clone()).unwrap_or_default();
        self.forget(true_us, max_lease_ms);
        self.locks = locks;
        self.offset_us += clock_us;
        self.quarantine(self.now(true_us).ms + max_lease_ms);
    }

    fn quarantine(&mut self, until_ms: u64) {
        self.quarantined_until_ms = until_ms;
        self.locks.values_mut().for_each(|lock| lock.quarantine(until_ms));
    }

    /// What is held and waited for now.
    pub(crate) fn left(&mut self, true_us: u64) -> Vec<String> {
        let now = self.now(true_us);
        let mut left = Vec::new();
        for (name, lock) in &mut self.locks {
            while lock.apply(now, &Request::Tick).more {}
            if lock.holding() + lock.waiting() > 0 {
                left.push(format!(
                    "{} holders and {} waiters of {name}",
                    lock.holding(),
                    lock.waiting()
                ));
            }
        }
        left
    }
}
