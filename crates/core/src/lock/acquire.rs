//! Acquire: gives the same answer however often it is sent, and grants only if nobody is overtaken.

use super::grant::GrantTerms;
use super::once::WorkBar;
use super::queue::Waiter;
use super::{Lock, StepWork};
use crate::{AcquireRequest, Ask, Ballot, Now, Place, Refusal, Reply, limits};

impl Lock {
    pub(super) fn acquire(
        &mut self,
        now: Now,
        acquire: &AcquireRequest,
        work: &mut StepWork,
    ) -> Reply {
        if let Some(holder) = self.holders.get(acquire.owner) {
            if holder.resting {
                return Reply::Refused(Refusal::Cancelled);
            }
            return match acquire.ballot().filter(|_| holder.vote.is_some()) {
                Some(ballot) => self.vote_again(now, acquire, ballot),
                None => Reply::Granted(self.grant_of(holder)),
            };
        }
        if let Some(mut key) = self.queue.place_of(acquire.owner) {
            if let Some(waiter_lease_ms) = acquire.waiter_lease_ms {
                if !limits::is_lease(waiter_lease_ms) {
                    return Reply::Refused(Refusal::InvalidLease);
                }
                self.queue.keep_alive(acquire.client, waiter_lease_ms, now);
            }
            let ticket = acquire.ballot().and_then(|ballot| ballot.ticket);
            if let Some(ticket) = ticket.filter(|_| self.queue.is_ballot(key)) {
                key = self.queue.move_to(key, ticket.min(limits::AGREED_MAX));
                self.inquire(key, work);
            }
            return self.queued(now, key.0);
        }
        match self.newcomer(now, acquire, work) {
            Ok(reply) => reply,
            Err(refusal) => Reply::Refused(refusal),
        }
    }

    fn newcomer(
        &mut self,
        now: Now,
        acquire: &AcquireRequest,
        work: &mut StepWork,
    ) -> Result<Reply, Refusal> {
        self.check(now, acquire)?;
        let bar = self.work_bar(now, &acquire.ask);
        match bar {
            Some(WorkBar::Done(done)) => return Ok(Reply::DoneBefore(done)),
            Some(WorkBar::Exhausted(failed)) => return Err(Refusal::Exhausted { failed }),
            Some(WorkBar::Paused) | None => {}
        }
        if !self.in_use() {
            self.kind = acquire.ask.kind();
        }
        let waiter = || Waiter {
            owner: acquire.owner,
            client: acquire.client,
            ask: acquire.ask.clone(),
            at_least_ms: acquire.at_least_ms,
            lease_ms: acquire.lease_ms,
            since_ms: now.ms,
            ballot: acquire.ballot().is_some(),
            label: acquire.label.clone(),
        };
        let quarantined = self.quarantined_until_ms(now);
        if quarantined.is_none()
            && bar.is_none()
            && let Some(free_slot) = self.free_slot(&acquire.ask)
        {
            let Ballot { hint, ticket, .. } = acquire.ballot().unwrap_or_default();
            let ticket = ticket.map(|ticket| ticket.min(limits::AGREED_MAX));
            let (member, lease_ms) = (free_slot.member, acquire.lease_ms);
            let terms = GrantTerms { member, lease_ms, handed: false, hint, ticket };
            let grant = self.grant(now, waiter(), terms);
            return Ok(Reply::Granted(grant));
        }
        let Some(waiter_lease_ms) = acquire.waiter_lease_ms else {
            return match quarantined {
                Some(until_ms) => Err(Refusal::Quarantined { until_ms }),
                None if self.queue.is_empty() && self.want(work) => Ok(Reply::Kept),
                None => Ok(Reply::Busy),
            };
        };
        if quarantined.is_none() {
            self.queue.sweep(now, limits::SWEEP_PER_ENQUEUE);
        }
        if self.queue.len() >= limits::QUEUE_MAX {
            return Err(Refusal::QueueFull);
        }
        if quarantined.is_some() {
            // Free members were passed by, though no waiter stands before the newcomer.
            self.members.offer_again();
        }
        let key = match acquire.ballot() {
            None => self.queue.push(waiter(), waiter_lease_ms, now),
            Some(ballot) => {
                let ticket = self.ticket(now, ballot);
                self.queue.put(ticket, waiter(), waiter_lease_ms, now)
            }
        };
        if self.queue.len() == 1 {
            self.want(work);
        }
        self.inquire(key, work);
        Ok(self.queued(now, key.0))
    }

    /// Returns the reason to refuse an acquire by an owner that the lock doesn't know yet.
    fn check(&self, now: Now, acquire: &AcquireRequest) -> Result<(), Refusal> {
        if now.ms >= acquire.not_after_ms {
            return Err(Refusal::TooLate);
        }
        if self.tombs.contains(acquire.owner, now.ms) {
            return Err(Refusal::Cancelled);
        }
        let leases = [Some(acquire.lease_ms), acquire.waiter_lease_ms];
        let rests = match acquire.at_least_ms {
            0 => true,
            at_least_ms => acquire.ask.may_rest() && limits::is_lease(at_least_ms),
        };
        if !(rests && leases.into_iter().flatten().all(limits::is_lease)) {
            return Err(Refusal::InvalidLease);
        }
        if !acquire.ask.is_possible() {
            return Err(match acquire.ask {
                Ask::Once(_) => Refusal::InvalidTerms,
                _ => Refusal::InvalidPermits,
            });
        }
        self.check_kind(acquire.ask.kind())
    }

    pub(super) fn queued(&self, now: Now, number: u64) -> Reply {
        Reply::Queued(Place {
            number,
            front: self.queue.front(),
            recheck_ms: self.recheck_ms(now),
            quarantined_until_ms: self.quarantined_until_ms(now),
        })
    }
}
