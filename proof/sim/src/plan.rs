//! What a seed means: who there is, what they do, and what goes wrong.

use taketurns_history::{Guarantee, HistoryLock, LockKind};

use crate::dice::SimDice;

/// Who keeps the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keepers {
    /// One node.
    Single,
    /// One node and its replica, which may be behind.
    Pair,
    /// A majority of this number of nodes.
    Quorum(usize),
}

impl Keepers {
    pub(crate) fn nodes(self) -> usize {
        match self {
            Self::Single | Self::Pair => 1,
            Self::Quorum(nodes) => nodes,
        }
    }
}

/// One life of the world. Everything in it comes from the seed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SimPlan {
    pub(crate) seed: u64,
    /// Nothing goes wrong.
    pub(crate) is_smooth: bool,
    pub(crate) keepers: Keepers,
    pub(crate) hosts: usize,
    pub(crate) tasks: usize,
    pub(crate) turns: usize,
    pub(crate) locks: Vec<HistoryLock>,
    pub(crate) max_lease_ms: u64,
    pub(crate) waiter_lease_ms: u64,
    pub(crate) hold_ms_max: u64,
    pub(crate) gap_ms_max: u64,
    /// After so long without an answer a client takes its request for lost.
    pub(crate) timeout_ms: u64,
    /// By so much the nodes' clocks are off, and all clocks run too fast or slow.
    pub(crate) offset_ms: u64,
    pub(crate) drift: u64,
    pub(crate) delay_us: u64,
    /// How many of a thousand messages are slow, and by how much.
    pub(crate) slow: u64,
    pub(crate) slow_us: u64,
    pub(crate) lost: u64,
    pub(crate) wakes_lost: u64,
    pub(crate) doubled: u64,
    pub(crate) cuts: usize,
    pub(crate) freezes: usize,
    pub(crate) restarts: usize,
    pub(crate) forgets: usize,
    pub(crate) failovers: usize,
    pub(crate) jumps_back: usize,
    pub(crate) jumps_forward: usize,
    pub(crate) pauses: usize,
    pub(crate) deaths: usize,
    /// How many of a thousand acquires are dropped, do not wait, or have a limit.
    pub(crate) cancels: u64,
    pub(crate) tries: u64,
    pub(crate) limits: u64,
    /// How many of a thousand turns end by a break, by dropping the guard, or become a handle first.
    pub(crate) breaks: u64,
    pub(crate) breaks_now: u64,
    pub(crate) drops: u64,
    pub(crate) handles: u64,
    /// The number of local turns in a row: all but the first are handed on without the store. 1 for none.
    pub(crate) local_turns: u32,
    /// How many of a thousand acquires of a mutex keep it until it is wanted.
    pub(crate) keeps: u64,
    /// How long the work of a once is remembered, and how many of a thousand attempts fail, or are undone before.
    pub(crate) remember_ms: u64,
    pub(crate) fails: u64,
    pub(crate) undos: u64,
    /// How many attempts of a once may fail, 0 for any number, and how long the pause after one is.
    pub(crate) attempts: u32,
    pub(crate) pause_ms: u64,
    /// How many of a thousand exclusive acquires are for a time at least, and for how long at most.
    pub(crate) at_leasts: u64,
    pub(crate) at_least_ms_max: u64,
    pub(crate) faults_until_us: u64,
}

impl SimPlan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = SimDice::new(seed);
        let keepers = match dice.between(0, 9) {
            0..=3 => Keepers::Single,
            4..=6 => Keepers::Pair,
            7..=8 => Keepers::Quorum(3),
            _ => Keepers::Quorum(5),
        };
        let waiter_lease_ms = dice.between(150, 1_000);
        let mut plan = Self {
            seed,
            is_smooth: false,
            keepers,
            hosts: dice.between(2, 5) as usize,
            tasks: dice.between(1, 3) as usize,
            turns: dice.between(1, 5) as usize,
            locks: locks(keepers, &mut dice),
            max_lease_ms: dice.between(300, 4_000),
            waiter_lease_ms,
            hold_ms_max: dice.between(1, 3_000),
            gap_ms_max: dice.between(1, 1_000),
            timeout_ms: dice.between(waiter_lease_ms / 6, 2 * waiter_lease_ms),
            offset_ms: [0, 5, 2_000, 600_000][dice.index(4)],
            drift: dice.between(0, 4_000),
            delay_us: dice.between(100, 20_000),
            slow: 0,
            slow_us: 0,
            lost: 0,
            wakes_lost: 0,
            doubled: 0,
            cuts: 0,
            freezes: 0,
            restarts: 0,
            forgets: 0,
            failovers: 0,
            jumps_back: 0,
            jumps_forward: 0,
            pauses: 0,
            deaths: 0,
            cancels: dice.between(0, 300),
            tries: dice.between(0, 200),
            limits: dice.between(0, 200),
            breaks: dice.maybe(60),
            breaks_now: 0,
            drops: dice.between(0, 300),
            handles: dice.maybe(150),
            local_turns: 1,
            keeps: 0,
            remember_ms: dice.between(1_000, 4_000),
            fails: dice.between(0, 500),
            undos: dice.maybe(200),
            attempts: 0,
            pause_ms: 0,
            at_leasts: 0,
            at_least_ms_max: 0,
            faults_until_us: 1_000 * waiter_lease_ms * dice.between(2, 12),
        };
        if let Keepers::Quorum(_) = keepers {
            // It takes no other.
            plan.max_lease_ms = plan.max_lease_ms.max(waiter_lease_ms);
        }
        match dice.between(0, 9) {
            // Nothing goes wrong, and messages are quick: then nobody has to look whether it missed one.
            0..=1 => {
                plan.is_smooth = true;
                plan.delay_us = plan.delay_us.min(plan.third_us() / 60);
                plan.timeout_ms = 10 * waiter_lease_ms;
                if dice.chance(300) {
                    plan.crowd(&mut dice);
                }
            }
            _ => {
                plan.storm(&mut dice);
                if dice.chance(100) {
                    plan.old_news(&mut dice);
                }
            }
        }
        if !matches!(keepers, Keepers::Quorum(_)) && dice.chance(400) {
            plan.local_turns = dice.between(2, 5) as u32;
            plan.tasks += 2;
            if dice.chance(300) {
                // More than anybody uses, and often enough for their tokens to run ahead of the clock.
                plan.local_turns = [1_000, 10_000][dice.index(2)];
                plan.hold_ms_max = plan.hold_ms_max.min(20);
                plan.gap_ms_max = plan.gap_ms_max.min(20);
                plan.delay_us = plan.delay_us.min(1_000);
            }
        }
        if !matches!(keepers, Keepers::Quorum(_)) && dice.chance(400) {
            plan.keeps = [300, 800, 1_000][dice.index(3)];
            plan.turns += 3;
        }
        if !matches!(keepers, Keepers::Quorum(_)) {
            plan.terms(&mut dice);
        }
        plan
    }

    /// Places are refreshed that often.
    pub(crate) fn third_us(&self) -> u64 {
        self.waiter_lease_ms * 1_000 / 3
    }

    /// What is not promised when a lock is taken from a holder that does not know of it. Until it does, it
    /// hands on turns with the tokens that it has.
    pub(crate) fn not_promised_to_the_unaware(&self) -> Vec<Guarantee> {
        let mut not_promised = vec![Guarantee::G1, Guarantee::G5];
        if self.local_turns > 1 || self.keeps > 0 {
            not_promised.push(Guarantee::G2);
        }
        not_promised
    }

    /// Many who want little, and often think better of it.
    fn crowd(&mut self, dice: &mut SimDice) {
        self.tasks = dice.between(3, 8) as usize;
        self.turns = dice.between(5, 12) as usize;
        self.hold_ms_max = dice.between(1, 20);
        self.gap_ms_max = dice.between(1, 20);
        self.cancels = dice.between(200, 900);
    }

    /// Limits and pauses of attempts, and holders that have it for a time at least.
    fn terms(&mut self, dice: &mut SimDice) {
        if dice.chance(400) {
            self.attempts = dice.between(1, 3) as u32;
        }
        // Where nothing goes wrong, nobody waits for a lock that nobody holds.
        if !self.is_smooth && dice.chance(500) {
            self.pause_ms = dice.between(1, 1_000);
        }
        if !self.is_smooth && dice.chance(400) {
            self.at_leasts = dice.between(100, 1_000);
            self.at_least_ms_max = dice.between(10, self.max_lease_ms);
        }
    }

    fn storm(&mut self, dice: &mut SimDice) {
        let mut rate = |most: u64| {
            let most = dice.between(10, most);
            dice.maybe(most)
        };
        self.slow = rate(300);
        self.lost = rate(300);
        self.wakes_lost = rate(1_000);
        self.doubled = rate(300);
        self.slow_us = 1_000 * dice.between(self.waiter_lease_ms / 4, 2 * self.waiter_lease_ms);
        let mut some = |most: u64| {
            let most = dice.between(1, most);
            dice.maybe(most) as usize
        };
        self.cuts = some(8);
        self.freezes = some(3);
        self.restarts = some(2);
        self.pauses = some(6);
        self.deaths = some(2);
        match self.keepers {
            Keepers::Single | Keepers::Quorum(_) => self.forgets = some(2),
            Keepers::Pair => self.failovers = some(3),
        }
        if self.forgets + self.failovers == 0 {
            self.jumps_back = some(2);
            if self.keepers == Keepers::Single {
                self.jumps_forward = some(1);
                self.breaks_now = dice.maybe(30);
            }
        } else if self.keepers != Keepers::Single {
            // Who forgets its last token follows its clock. Tokens grow all the same only if clocks
            // differ by less than the time for which it grants nothing.
            self.offset_ms = self.offset_ms.min(5);
        }
        if self.forgets > 0 && matches!(self.keepers, Keepers::Quorum(_)) {
            self.max_lease_ms += 3_500;
        }
    }

    /// News of breaks that comes late, to clients that wait again on a server that has forgotten the broken grant.
    fn old_news(&mut self, dice: &mut SimDice) {
        match self.keepers {
            Keepers::Single => self.forgets = dice.between(1, 4) as usize,
            Keepers::Pair => self.failovers = dice.between(1, 5) as usize,
            Keepers::Quorum(_) => return,
        }
        // As in every storm in which something is forgotten.
        (self.jumps_back, self.jumps_forward, self.breaks_now) = (0, 0, 0);
        self.offset_ms = self.offset_ms.min(5);
        self.breaks = dice.between(100, 500);
        self.slow = dice.between(200, 600);
        self.tasks = dice.between(2, 4) as usize;
        self.turns = dice.between(4, 10) as usize;
        self.hold_ms_max = self.hold_ms_max.min(100);
        self.gap_ms_max = self.gap_ms_max.min(50);
    }

    /// Plans like this one with less in them, the simplest first.
    pub(crate) fn simpler(&self) -> Vec<Self> {
        let mut plans = Vec::new();
        let mut less = |change: fn(&mut Self)| {
            let mut plan = self.clone();
            change(&mut plan);
            plans.push(plan);
        };
        less(|plan| plan.turns = 1);
        less(|plan| plan.tasks = 1);
        less(|plan| plan.hosts = 2);
        less(|plan| plan.hosts -= usize::from(plan.hosts > 2));
        less(|plan| plan.tasks -= usize::from(plan.tasks > 1));
        less(|plan| plan.turns -= usize::from(plan.turns > 1));
        less(|plan| plan.locks.truncate(1));
        less(|plan| {
            if plan.locks.len() > 1 {
                plan.locks.remove(0);
            }
        });
        less(|plan| plan.lost = 0);
        less(|plan| plan.wakes_lost = 0);
        less(|plan| plan.doubled = 0);
        less(|plan| plan.slow = 0);
        less(|plan| plan.cuts = 0);
        less(|plan| plan.freezes = 0);
        less(|plan| plan.restarts = 0);
        less(|plan| plan.forgets = 0);
        less(|plan| plan.failovers = 0);
        less(|plan| plan.jumps_back = 0);
        less(|plan| plan.jumps_forward = 0);
        less(|plan| plan.pauses = 0);
        less(|plan| plan.deaths = 0);
        less(|plan| plan.cancels = 0);
        less(|plan| plan.tries = 0);
        less(|plan| plan.limits = 0);
        less(|plan| plan.breaks = 0);
        less(|plan| plan.breaks_now = 0);
        less(|plan| plan.drops = 0);
        less(|plan| plan.handles = 0);
        less(|plan| plan.local_turns = 1);
        less(|plan| plan.keeps = 0);
        less(|plan| plan.fails = 0);
        less(|plan| plan.undos = 0);
        less(|plan| plan.attempts = 0);
        less(|plan| plan.pause_ms = 0);
        less(|plan| plan.at_leasts = 0);
        less(|plan| plan.offset_ms = 0);
        less(|plan| plan.drift = 0);
        plans.retain(|plan| plan != self);
        plans
    }
}

fn locks(keepers: Keepers, dice: &mut SimDice) -> Vec<HistoryLock> {
    let mut kinds = vec![LockKind::Mutex];
    if matches!(keepers, Keepers::Quorum(_)) {
        if dice.chance(300) {
            kinds.push(LockKind::Mutex);
        }
    } else {
        let permits = dice.between(1, 4) as u32;
        let others = [
            LockKind::Mutex,
            LockKind::Rwlock,
            LockKind::Semaphore(permits),
            LockKind::Pool,
            LockKind::Once,
        ];
        if dice.chance(600) {
            kinds[0] = others[dice.index(others.len())];
        }
        if dice.chance(400) {
            kinds.push(others[dice.index(others.len())]);
        }
    }
    let name = |(index, kind)| HistoryLock { name: format!("lock{index}"), kind };
    kinds.into_iter().enumerate().map(name).collect()
}
