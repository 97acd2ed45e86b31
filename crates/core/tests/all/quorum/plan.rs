//! What a seed stands for: who takes part, and what goes wrong.

use taketurns_servers::fuzz::Dice;

/// The number, or 0, each as often as the other.
fn maybe(dice: &mut Dice, number: u64) -> u64 {
    if dice.any().is_multiple_of(2) { number } else { 0 }
}

/// What may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Nothing, and all is fast.
    Calm,
    /// Messages take long, each its own time.
    Slow,
    /// Anything.
    Storm,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) weather: Weather,
    pub(crate) nodes: usize,
    pub(crate) clients: usize,
    /// How many acquires there are in all, in how many crowds that come at once.
    pub(crate) attempts: usize,
    pub(crate) crowds: u64,
    pub(crate) max_lease_ms: u64,
    pub(crate) waiter_lease_ms: u64,
    pub(crate) hold_ms_max: u64,
    /// How long an acquire may be under way.
    pub(crate) arrives_within_ms: u64,
    /// After which a call has failed.
    pub(crate) timeout_us: u64,
    /// How far the clock of a node may be off.
    pub(crate) offset_ms: u64,
    /// How many millionths a clock may run too fast or too slow.
    pub(crate) drift: u64,
    /// The longest that a message takes, and a slow one, and how many in a thousand are slow.
    pub(crate) delay_us: u64,
    pub(crate) slow_us: u64,
    pub(crate) slow: u64,
    /// How many messages in a thousand are lost or come twice.
    pub(crate) lost: u64,
    pub(crate) wakes_lost: u64,
    pub(crate) doubled: u64,
    /// How often nothing gets through between one client and one node for a while.
    pub(crate) cuts: usize,
    /// How often nodes stop, and whether they forget; how often clients do.
    pub(crate) stops: usize,
    pub(crate) forgets: bool,
    pub(crate) pauses: usize,
    pub(crate) deaths: usize,
    /// How many in a thousand give up before they have it, or do not wait at all.
    pub(crate) cancels: u64,
    pub(crate) tries: u64,
    /// When all that ends.
    pub(crate) faults_until_us: u64,
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x7175_6f72_756d);
        let weather = match dice.between(0, 9) {
            0 => Weather::Calm,
            1 | 2 => Weather::Slow,
            _ => Weather::Storm,
        };
        let waiter_lease_ms = dice.between(150, 1_500);
        let mut plan = Self {
            seed,
            weather,
            nodes: if dice.chance(650) { 3 } else { 5 },
            clients: dice.between(2, 6) as usize,
            attempts: dice.between(2, 14) as usize,
            crowds: dice.between(1, 6),
            max_lease_ms: dice.between(300, 4_000),
            waiter_lease_ms,
            hold_ms_max: dice.between(1, 3_000),
            arrives_within_ms: dice.between(200, 3_000),
            timeout_us: 1_000 * dice.between(waiter_lease_ms / 6, 2 * waiter_lease_ms),
            offset_ms: [0, 5, 2_000, 600_000][dice.between(0, 3) as usize],
            drift: dice.between(0, 4_000),
            delay_us: dice.between(100, 20_000),
            slow_us: 0,
            slow: 0,
            lost: 0,
            wakes_lost: 0,
            doubled: 0,
            cuts: 0,
            stops: 0,
            forgets: false,
            pauses: 0,
            deaths: 0,
            cancels: dice.between(0, 300),
            tries: dice.between(0, 300),
            faults_until_us: 1_000 * waiter_lease_ms * dice.between(2, 12),
        };
        match weather {
            // A message and its answer must not take so long that a place lapses meanwhile.
            Weather::Calm | Weather::Slow => {
                let third_us = waiter_lease_ms * 1_000 / 3;
                let slow = weather == Weather::Slow;
                plan.delay_us = if slow { third_us / 4 } else { plan.delay_us.min(third_us / 8) };
                plan.timeout_us = 10 * third_us;
                plan.arrives_within_ms = 60_000;
                plan.max_lease_ms = plan.max_lease_ms.max(2 * waiter_lease_ms);
            }
            Weather::Storm => plan.storm(&mut dice),
        }
        plan
    }

    fn storm(&mut self, dice: &mut Dice) {
        let most = dice.between(20, 300);
        self.slow = maybe(dice, most);
        self.slow_us = 1_000 * dice.between(self.waiter_lease_ms / 4, 2 * self.waiter_lease_ms);
        let most = dice.between(10, 300);
        self.lost = maybe(dice, most);
        let most = dice.between(10, 1_000);
        self.wakes_lost = maybe(dice, most);
        let most = dice.between(10, 300);
        self.doubled = maybe(dice, most);
        let most = dice.between(1, 10);
        self.cuts = maybe(dice, most) as usize;
        let most = dice.between(1, 4);
        self.stops = maybe(dice, most) as usize;
        self.forgets = self.stops > 0 && dice.chance(500);
        let most = dice.between(1, 8);
        self.pauses = maybe(dice, most) as usize;
        let most = dice.between(1, 3);
        self.deaths = maybe(dice, most) as usize;
        if self.forgets {
            // A node that forgets its last token follows its clock. Tokens grow all the same only if
            // clocks differ by less than the time for which it grants nothing.
            self.offset_ms = self.offset_ms.min(5);
            self.max_lease_ms += 3_500;
        }
    }

    /// Plans like this one with less in them, the simplest first.
    pub(crate) fn simpler(&self) -> Vec<Self> {
        let mut plans = Vec::new();
        let mut less = |change: fn(&mut Self)| {
            let mut plan = self.clone();
            change(&mut plan);
            plans.push(plan);
        };
        less(|plan| plan.attempts = plan.attempts.min(2));
        less(|plan| plan.attempts -= usize::from(plan.attempts > 2));
        less(|plan| plan.nodes = 3);
        less(|plan| plan.clients = 2);
        less(|plan| plan.lost = 0);
        less(|plan| plan.wakes_lost = 0);
        less(|plan| plan.doubled = 0);
        less(|plan| plan.slow = 0);
        less(|plan| plan.cuts = 0);
        less(|plan| plan.stops = 0);
        less(|plan| plan.forgets = false);
        less(|plan| plan.pauses = 0);
        less(|plan| plan.deaths = 0);
        less(|plan| plan.cancels = 0);
        less(|plan| plan.tries = 0);
        less(|plan| plan.crowds = 1);
        less(|plan| plan.offset_ms = 0);
        less(|plan| plan.drift = 0);
        plans.retain(|plan| format!("{plan:?}") != format!("{self:?}"));
        plans
    }
}
