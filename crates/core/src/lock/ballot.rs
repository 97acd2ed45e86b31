//! A lock that is one node's part of a quorum: what it does besides, for a request with a
//! [`Ballot`].
//!
//! Those who wait stand in the order of their tickets, which is the same on all nodes. A node whose
//! vote went to one with a higher ticket than somebody who waits tells it so, and takes the vote back
//! if it is given up: so whoever has the lowest ticket comes to have the votes of all.

use super::grant::within_reach;
use super::holders::{Holder, HolderVote};
use super::queue::{PlaceKey, Waiter};
use super::{Lock, StepWork};
use crate::{AcquireRequest, Ballot, Now, Reply, Wake, WakeEvent, limits};

impl Lock {
    /// Does somebody wait with a lower ticket than this holder's? It may be dead by now: whoever gives
    /// way finds out.
    pub(super) fn is_inquired(&self, holder: &Holder) -> bool {
        let key = holder.vote.map(|vote| (vote.ticket, holder.owner));
        key.is_some_and(|key| self.queue.first().is_some_and(|first| first < key))
    }

    /// Tells the holder, if whoever has just come to stand here comes before it.
    pub(super) fn inquire(&self, key: PlaceKey, work: &mut StepWork) {
        if self.queue.first() != Some(key) {
            return;
        }
        for holder in self.holders.iter().filter(|holder| self.is_inquired(holder)) {
            let (client, owner) = (holder.client, holder.owner);
            let number = holder.vote.map_or(0, |vote| vote.number);
            work.wakes.push(Wake { client, owner, event: WakeEvent::Inquired { number } });
        }
    }

    /// The place that a newcomer with a ballot takes: behind all of whom the node knows.
    pub(super) fn ticket(&self, now: Now, ballot: Ballot) -> u64 {
        let assigned = || {
            let votes = self.holders.iter().filter_map(|holder| holder.vote);
            let held = votes.map(|vote| vote.ticket + 1).max().unwrap_or(0);
            let free = self.queue.next().max(self.last_token + 1).max(held);
            within_reach(ballot.hint, now).max(free)
        };
        ballot.ticket.map_or_else(assigned, |ticket| ticket.min(limits::AGREED_MAX))
    }

    /// Asked again by its holder: takes over the ticket, and gives up the vote if that is what is meant.
    /// Whoever is first in line then is handed it, and be it the same one.
    pub(super) fn vote_again(
        &mut self,
        now: Now,
        acquire: &AcquireRequest,
        ballot: Ballot,
    ) -> Reply {
        let owner = acquire.owner;
        if let Some(ticket) = ballot.ticket {
            let ticket = ticket.min(limits::AGREED_MAX);
            self.holders.update(owner, |holder| {
                holder.vote = holder.vote.map(|vote| HolderVote { ticket, ..vote });
            });
        }
        if let Some(key) = self.give_way(now, acquire, ballot) {
            return self.queued(now, key.0);
        }
        let granted = self.holders.get(owner).map(|holder| self.grant_of(holder));
        granted.map_or(Reply::NotHeld, Reply::Granted)
    }

    fn give_way(&mut self, now: Now, acquire: &AcquireRequest, ballot: Ballot) -> Option<PlaceKey> {
        let holder = self.holders.get(acquire.owner)?;
        let vote = holder.vote.filter(|vote| Some(vote.number) == ballot.yields)?;
        let waiter_lease_ms = acquire.waiter_lease_ms.filter(|ms| limits::is_lease(*ms))?;
        if self.queue.len() >= limits::QUEUE_MAX {
            return None;
        }
        let waiter = Waiter {
            owner: holder.owner,
            client: acquire.client,
            ask: holder.ask.clone(),
            lease_ms: holder.lease_ms,
            since_ms: holder.since_ms,
            ballot: true,
            label: holder.label.clone(),
        };
        self.drop_holder(acquire.owner);
        // What it is given next is to have a larger number than what it gave up, also if this node has
        // forgotten since how large that was.
        self.last_token = self.last_token.max(within_reach(ballot.hint, now));
        Some(self.queue.put(vote.ticket, waiter, waiter_lease_ms, now))
    }
}
