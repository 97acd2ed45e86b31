//! How holds end: a release, a break, a lease that is over, a client that is gone. Whatever follows from an end, such as a
//! rest or an attempt that has failed, follows from all of them, and is decided here.

use super::holders::Holder;
use super::{Lock, StepWork};
use crate::{ClientId, Kind, Now, Owner, Reply, Token, Wake, WakeEvent, limits};

impl Lock {
    /// Carries out the most frequent release without catching up with time: that of the only holder,
    /// if nobody waits. It frees the lock and changes nothing else, so the time does not matter. If
    /// the lease has ended, nobody else has been granted the lock since. Returns false and does
    /// nothing in all other cases: a hand-over that was not answered leaves a record to clean up, a
    /// pool offers the member to its waiters, an attempt at work has failed, and after a long lease a server's key
    /// must expire sooner.
    pub(super) fn release_alone(&mut self, owner: Owner) -> bool {
        let is_alone = !matches!(self.kind, Kind::Pool | Kind::Once)
            && self.holders.len() == 1
            && self.queue.is_empty();
        let is_plain = |holder: &Holder| {
            !holder.handed && holder.at_least_ms == 0 && holder.lease_ms <= limits::EXPIRY_SLACK_MS
        };
        is_alone
            && self.holders.get(owner).is_some_and(is_plain)
            && self.holders.remove(owner).is_some()
    }

    /// Refuses an acquire by this owner until then.
    pub(super) fn bury(&mut self, now: Now, owner: Owner, until_ms: u64) {
        let until_ms = until_ms.min(now.ms.saturating_add(limits::RETENTION_MS));
        if until_ms > now.ms {
            self.tombs.bury(owner, until_ms);
        }
    }

    pub(super) fn release(
        &mut self,
        now: Now,
        owner: Owner,
        bury_until_ms: u64,
        last_used: Option<Token>,
    ) -> Reply {
        self.bury(now, owner, bury_until_ms);
        self.unreserve(owner, last_used);
        if self.holders.get(owner).is_some_and(|holder| holder.rests_until_ms() > now.ms) {
            self.rest(owner);
            return Reply::Released;
        }
        if self.drop_holder(now, owner) {
            return Reply::Released;
        }
        let left = self.queue.place_of(owner).and_then(|place| self.queue.remove(place));
        if left.is_some() { Reply::Left } else { Reply::NotHeld }
    }

    pub(super) fn break_(
        &mut self,
        now: Now,
        token: Option<Token>,
        at_once: bool,
        work: &mut StepWork,
    ) -> Reply {
        let broken: Vec<Holder> = self
            .holders
            .iter()
            .filter(|holder| token.is_none_or(|token| holder.has_token(token)))
            .cloned()
            .collect();
        for holder in &broken {
            let (client, owner) = (holder.client, holder.owner);
            if at_once || holder.resting {
                self.drop_holder(now, owner);
            } else {
                self.holders.update(owner, |holder| {
                    (holder.revoked, holder.at_least_ms) = (true, 0);
                });
            }
            if !holder.resting {
                let event = WakeEvent::Revoked { token: Some(holder.minted()) };
                work.wakes.push(Wake { client, owner, event });
            }
        }
        Reply::Broken(broken.len() as u32)
    }

    pub(super) fn client_gone(&mut self, now: Now, client: ClientId) -> Reply {
        for owner in self.queue.declare_dead(client, now) {
            self.drop_holder(now, owner);
        }
        Reply::Done
    }

    /// Ends the hold of an owner whose lease is not over yet: it stays a holder until its `at_least_ms` is over, and
    /// nobody can renew it.
    pub(super) fn rest(&mut self, owner: Owner) {
        if let Some(holder) = self.holders.get(owner)
            && holder.handed
        {
            self.queue.answered(holder.client, owner);
        }
        self.holders.update(owner, Holder::rest);
    }

    /// Ends a hold whose lease is over. One that was never answered rests no more than it works: its waiter may have
    /// died before it was handed the lock.
    pub(super) fn expire(&mut self, now: Now, mut holder: Holder) {
        if holder.is_told() && !holder.resting && holder.rests_until_ms() > now.ms {
            self.queue.answered(holder.client, holder.owner);
            holder.rest();
            self.holders.insert(holder);
        } else {
            self.after_hold(now, &holder);
        }
    }

    /// Removes a holder. Returns true if the owner was holding.
    pub(super) fn drop_holder(&mut self, now: Now, owner: Owner) -> bool {
        let holder = self.holders.remove(owner);
        if let Some(holder) = &holder {
            self.after_hold(now, holder);
        }
        holder.is_some()
    }

    /// Cleans up after a holder that is gone.
    pub(super) fn after_hold(&mut self, now: Now, holder: &Holder) {
        if holder.handed {
            self.queue.answered(holder.client, holder.owner);
        }
        if holder.is_told() {
            self.note_failure(now, holder);
        }
        if let Some(member) = &holder.member {
            self.members.give_back(member);
        }
    }
}
