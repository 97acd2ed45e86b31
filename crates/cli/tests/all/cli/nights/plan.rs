//! Who starts on a night, and where each process is killed. Drawn from a seed; nothing is run here.

use taketurns_servers::fuzz::Dice;

/// By how many seconds the clock of each machine is ahead.
pub(super) const AHEAD: [i64; 5] = [60, 17, 0, -4, -60];

/// Where a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KillPoint {
    /// When it sends something for the n-th time, which the server never gets.
    Request(u64),
    /// When the server sends it something for the n-th time, which it never gets.
    Reply(u64),
    /// While its work goes on.
    InWork,
    /// When its work is over, before it knows.
    AfterWork,
}

/// How often a process that nobody disturbs sends and receives something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    pub(super) requests: u64,
    pub(super) replies: u64,
}

impl Steps {
    /// Every step of such a process.
    pub(super) fn points(self) -> impl Iterator<Item = KillPoint> {
        let requests = (1..=self.requests).map(KillPoint::Request);
        let replies = (1..=self.replies).map(KillPoint::Reply);
        [KillPoint::AfterWork, KillPoint::InWork].into_iter().chain(requests).chain(replies)
    }

    fn draw(self, dice: &mut Dice) -> KillPoint {
        match dice.below(6) {
            0 => KillPoint::InWork,
            1 => KillPoint::AfterWork,
            2 | 3 => KillPoint::Request(dice.between(1, self.requests)),
            _ => KillPoint::Reply(dice.between(1, self.replies)),
        }
    }
}

/// One machine that is up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// The number of the machine, in the order in which their clocks reach a time.
    pub(super) machine: usize,
    pub(super) kill: Option<KillPoint>,
}

#[derive(Debug)]
pub(super) struct Night {
    /// The first one is at work until all have started; otherwise each is through before the next one starts.
    pub(super) overlap: bool,
    pub(super) starts: Vec<Start>,
}

impl Night {
    /// Now and then a machine is down. The first one that is up comes to no harm every fourth night; on the others it
    /// is killed, step after step as the nights go by.
    pub(super) fn draw(number: u32, steps: Steps, dice: &mut Dice) -> Self {
        let up = (0..AHEAD.len()).filter(|_| !dice.percent(15)).collect::<Vec<_>>();
        let turn = number - number / 4;
        let all: Vec<KillPoint> = steps.points().collect();
        let first = (number % 4 != 3).then(|| all[turn as usize % all.len()]);
        let start = |(place, machine): (usize, usize)| {
            let kill = match place {
                0 => first,
                _ => dice.percent(35).then(|| steps.draw(dice)),
            };
            Start { machine, kill }
        };
        let starts = up.into_iter().enumerate().map(start).collect();
        Self { overlap: number % 2 == 1, starts }
    }
}
