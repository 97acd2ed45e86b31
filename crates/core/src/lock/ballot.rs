//! The lock as one node of a quorum: what it does in addition for a request with a [`Ballot`].
//!
//! Waiters stand in the order of their tickets, which is the same on all nodes. If a node's vote
//! went to a higher ticket than a waiter's, the node tells the holder of the vote, and takes the
//! vote back when that holder gives it up. So the lowest ticket ends up with the votes of all
//! nodes.

use super::grant::within_reach;
use super::holders::{Holder, HolderVote};
use super::queue::{PlaceKey, Waiter};
use super::{Lock, StepWork};
use crate::{AcquireRequest, Ballot, Now, Reply, Wake, WakeEvent, limits};

impl Lock {
    /// Returns whether a waiter has a lower ticket than this holder. The waiter may be dead by now;
    /// that shows when the holder gives way.
    pub(super) fn is_inquired(&self, holder: &Holder) -> bool {
        let key = holder.vote.map(|vote| (vote.ticket, holder.owner));
        key.is_some_and(|key| self.queue.first().is_some_and(|first| first < key))
    }

    /// Tells the holder if the waiter that just arrived at this place comes before it.
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

    /// Returns the place for a newcomer with a ballot: behind everyone that the node knows of.
    pub(super) fn ticket(&self, now: Now, ballot: Ballot) -> u64 {
        let assigned = || {
            let votes = self.holders.iter().filter_map(|holder| holder.vote);
            let held = votes.map(|vote| vote.ticket + 1).max().unwrap_or(0);
            let free = self.queue.next().max(self.last_token + 1).max(held);
            within_reach(ballot.hint, now).max(free)
        };
        ballot.ticket.map_or_else(assigned, |ticket| ticket.min(limits::AGREED_MAX))
    }

    /// Handles a repeated acquire by the holder: adopts its ticket, and gives up the vote if the
    /// ballot says so. The vote then goes to the first in line, which may be the same client.
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
            at_least_ms: holder.at_least_ms,
            lease_ms: holder.lease_ms,
            since_ms: holder.since_ms,
            ballot: true,
            label: holder.label.clone(),
        };
        self.drop_holder(now, acquire.owner);
        // The next number must be larger than the one given up, even if this node has forgotten
        // since how large that was.
        self.last_token = self.last_token.max(within_reach(ballot.hint, now));
        Some(self.queue.put(vote.ticket, waiter, waiter_lease_ms, now))
    }
}
