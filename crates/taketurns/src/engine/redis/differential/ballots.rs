//! What a life asks for besides if its lock is one node's part of a quorum: drawn around what the node
//! has said, so that tickets meet and the right grant is often meant.

use taketurns_core::{
    Ballot, Grant, Now, Owner, Reply, Request, Step, WakeEvent, WriteBack, limits,
};
use taketurns_servers::fuzz::Dice;

/// What was said of votes and tickets, the latest last.
pub(super) struct Ballots {
    /// How many acquires in a hundred have a ballot.
    percent: usize,
    votes: Vec<(Owner, u64)>,
    tickets: Vec<u64>,
}

impl Ballots {
    pub(super) fn new(percent: usize) -> Self {
        Self { percent, votes: Vec::new(), tickets: Vec::new() }
    }

    /// How many acquires in a hundred are of new owners: with ballots those that ask again matter more.
    pub(super) fn newcomers(&self) -> usize {
        70 - self.percent / 3
    }

    pub(super) fn follow(&mut self, request: &Request, step: &Step) {
        if let Request::Acquire(acquire) = request {
            match &step.reply {
                Reply::Granted(grant) => self.granted(acquire.owner, grant),
                Reply::Queued(place) => self.tickets.push(place.number),
                _ => {}
            }
        }
        for wake in &step.wakes {
            if let WakeEvent::Granted(grant) = &wake.event {
                self.granted(wake.owner, grant);
            }
        }
        self.votes.drain(..self.votes.len().saturating_sub(8));
        self.tickets.drain(..self.tickets.len().saturating_sub(6));
    }

    fn granted(&mut self, owner: Owner, grant: &Grant) {
        if let Some(vote) = grant.vote {
            self.votes.push((owner, vote.number));
            self.tickets.push(vote.number);
        }
    }

    pub(super) fn ballot(&self, dice: &mut Dice, now: Now, owner: Owner) -> Option<Ballot> {
        if !dice.percent(self.percent) {
            return None;
        }
        let near = now.wall_us + dice.roll(4_000) - 2_000;
        let edge = now.wall_us.min(limits::TOKEN_CLOCK_MAX) + limits::HINT_AHEAD_US;
        let hint = match dice.roll(40) {
            0..8 => 0,
            8 => edge + dice.roll(3) - 1,
            9 => u64::MAX - dice.roll(3_000),
            _ => near,
        };
        let ticket = match dice.roll(400) {
            0 => Some(u64::MAX - dice.roll(3)),
            1 => Some(limits::TOKEN_MAX + 2 - dice.roll(4)),
            2..180 if !self.tickets.is_empty() => {
                let ticket = dice.one_of(&self.tickets);
                Some((ticket + dice.roll(3)).saturating_sub(1))
            }
            180..190 => Some(dice.roll(10)),
            190..220 => Some(near),
            _ => None,
        };
        let yields = dice.percent(70).then(|| self.number(dice, owner));
        Some(Ballot { hint, ticket, yields })
    }

    /// Of a grant with a vote mostly the right number. The token that ends all tokens is sent with a
    /// wrong one only: a lock that took it has none left to give out.
    pub(super) fn write_back(&self, dice: &mut Dice, last: u64, owner: Owner) -> Option<WriteBack> {
        if !dice.percent(self.percent) {
            return None;
        }
        let number = self.number(dice, owner);
        let is_right = self.votes.contains(&(owner, number));
        let token = match dice.roll(5) {
            0 => 0,
            1 => last.saturating_sub(1),
            2 => last,
            3 if !is_right => u64::MAX,
            _ => last + dice.roll(1_000),
        };
        Some(WriteBack { number, token })
    }

    /// The number of this owner's last vote, mostly.
    fn number(&self, dice: &mut Dice, owner: Owner) -> u64 {
        let its_own = self.votes.iter().rev().find(|(voter, _)| *voter == owner);
        match (dice.roll(8), its_own) {
            (0, Some((_, number))) => number + 1,
            (1, _) => u64::MAX,
            (2, _) => 0,
            (_, Some((_, number))) => *number,
            _ => self.votes.last().map_or(7, |(_, number)| *number),
        }
    }
}
