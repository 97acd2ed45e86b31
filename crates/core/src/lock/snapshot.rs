//! A lock as plain data, for storage. Indexes are not stored but rebuilt, and data that can't be a
//! lock is refused.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::holders::{Holder, Holders, LeaseBounds};
use super::members::{MemberState, Members};
use super::once::{WorkRecord, WorkState};
use super::queue::{ClockEra, WaitQueue, Waiter, WaitingClient};
use super::tombstones::Tombstones;
use super::{Kind, Lock};
use crate::{Ask, ClientId, Member, Owner, limits};

/// A lock as plain data. Its fields are the stored form: changing them needs a new version in every
/// store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    kind: Kind,
    last_token: u64,
    seen_ms: u64,
    quarantine_until_ms: u64,
    holders: Vec<Holder>,
    ends: LeaseBounds,
    places: Vec<(u64, Waiter)>,
    clients: Vec<(ClientId, WaitingClient)>,
    next_place: u64,
    sweep_at: Option<(u64, Owner)>,
    era: ClockEra,
    members: Vec<(Member, MemberState)>,
    next_free: u64,
    offered: u64,
    tombs: Vec<(Owner, u64)>,
    work: WorkRecord,
}

impl Snapshot {
    /// Returns the same lock on another clock, which shows `now_ms` now: the one of a promoted standby, for instance.
    /// A holder keeps the time that it had left at the last step. The time since that step is not known, so it is
    /// granted once more. Each waiting client gets a full waiter lease, because it may have been unable to refresh.
    #[must_use]
    pub fn on_another_clock(mut self, now_ms: u64) -> Self {
        let seen_ms = self.seen_ms;
        let moved = |time_ms: u64| match time_ms.checked_sub(seen_ms) {
            Some(ahead_ms) => now_ms.saturating_add(ahead_ms),
            None => now_ms.saturating_sub(seen_ms - time_ms),
        };
        for holder in &mut self.holders {
            holder.deadline_ms = moved(holder.deadline_ms);
            holder.since_ms = moved(holder.since_ms);
        }
        if !self.holders.is_empty() {
            self.ends.first_ms = moved(self.ends.first_ms);
            self.ends.last_ms = moved(self.ends.last_ms);
        }
        for (_, waiter) in &mut self.places {
            waiter.since_ms = moved(waiter.since_ms);
        }
        for (_, client) in &mut self.clients {
            client.era = self.era.number;
            client.deadline_ms = now_ms.saturating_add(client.waiter_lease_ms);
        }
        for (_, until_ms) in &mut self.tombs {
            *until_ms = moved(*until_ms);
        }
        if self.quarantine_until_ms > seen_ms {
            self.quarantine_until_ms = moved(self.quarantine_until_ms);
        }
        self.era.began_ms = moved(self.era.began_ms);
        // What a once remembers goes by the wall clock.
        if !self.work.is_blank() {
            self.work.kept_ms = 0;
            if let WorkState::Open { ended_ms, .. } = &mut self.work.state {
                *ended_ms = moved(*ended_ms);
            }
        }
        self.seen_ms = now_ms;
        self
    }
}

/// The stored data is not the state of a lock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored lock is corrupt: {0}")]
pub struct CorruptSnapshot(&'static str);

impl Lock {
    /// Returns the lock as plain data.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            kind: self.kind,
            last_token: self.last_token,
            seen_ms: self.seen_ms,
            quarantine_until_ms: self.quarantine_until_ms,
            holders: self.holders.iter().cloned().collect(),
            ends: self.holders.ends(),
            places: self.queue.iter().map(|(key, waiter)| (key.0, waiter.clone())).collect(),
            clients: self.queue.clients().map(|(id, client)| (id, client.clone())).collect(),
            next_place: self.queue.next(),
            sweep_at: self.queue.sweep_at(),
            era: self.queue.era(),
            members: self.members.iter().map(|(member, state)| (member.clone(), state)).collect(),
            next_free: self.members.next_free(),
            offered: self.members.offered(),
            tombs: self.tombs.iter().collect(),
            work: WorkRecord::clone(&self.work),
        }
    }

    /// Rebuilds the lock from a snapshot.
    ///
    /// # Errors
    /// [`CorruptSnapshot`] if the data can't be the state of a lock.
    pub fn restore(snapshot: Snapshot) -> Result<Self, CorruptSnapshot> {
        let holders = Holders::restore(snapshot.holders, snapshot.ends)
            .ok_or(CorruptSnapshot("one owner holds twice"))?;
        let places = snapshot.places.len();
        let queue = WaitQueue::restore(
            snapshot.places,
            snapshot.clients,
            snapshot.next_place,
            snapshot.sweep_at,
            snapshot.era,
        );
        if queue.len() != places {
            return Err(CorruptSnapshot("one place is taken twice"));
        }
        let count = snapshot.members.len();
        let members = Members::restore(snapshot.members, snapshot.next_free, snapshot.offered)
            .ok_or(CorruptSnapshot("two members are free since the same moment"))?;
        if members.len() != count {
            return Err(CorruptSnapshot("one member is there twice"));
        }
        let mut tombs = Tombstones::default();
        for (owner, until_ms) in snapshot.tombs {
            tombs.bury(owner, until_ms);
        }
        let lock = Self {
            kind: snapshot.kind,
            last_token: snapshot.last_token,
            seen_ms: snapshot.seen_ms,
            quarantine_until_ms: snapshot.quarantine_until_ms,
            holders,
            queue: queue.into(),
            members: members.into(),
            tombs: tombs.into(),
            work: snapshot.work.into(),
        };
        lock.audit()?;
        Ok(lock)
    }

    /// Checks the invariants that hold between any two steps. Takes time proportional to the size
    /// of the lock: for tests, and for state from outside.
    ///
    /// # Errors
    /// [`CorruptSnapshot`] names the first invariant that is broken.
    pub fn audit(&self) -> Result<(), CorruptSnapshot> {
        self.audit_holders()?;
        self.audit_queue()?;
        self.audit_members()?;
        self.audit_work()
    }

    fn audit_work(&self) -> Result<(), CorruptSnapshot> {
        let may_rest = |ask: &Ask, at_least_ms: u64| at_least_ms == 0 || ask.may_rest();
        let is_sound = |holder: &Holder| {
            let rests_well = holder.deadline_ms <= holder.rests_until_ms() && !holder.handed;
            may_rest(&holder.ask, holder.at_least_ms)
                && (holder.at_least_ms == 0 || !holder.revoked)
                && (!holder.resting || rests_well)
        };
        let mut waiters = self.queue.iter();
        if !self.holders.iter().all(is_sound)
            || !waiters.all(|(_, waiter)| may_rest(&waiter.ask, waiter.at_least_ms))
        {
            return Err(CorruptSnapshot("a holder rests that can't"));
        }
        if self.work.is_blank() {
            let is_default = *self.work == WorkRecord::default();
            return is_default.then_some(()).ok_or(CorruptSnapshot("nothing is remembered"));
        }
        if self.kind != Kind::Once {
            return Err(CorruptSnapshot("work is remembered, but it is no once"));
        }
        if let Some(done) = self.work.done() {
            if !self.holders.is_empty() {
                return Err(CorruptSnapshot("work is done and has a holder"));
            }
            if done.token.raw() > self.last_token {
                return Err(CorruptSnapshot("work was done with a token that was never given out"));
            }
        }
        Ok(())
    }

    fn audit_holders(&self) -> Result<(), CorruptSnapshot> {
        let tokens: BTreeSet<_> = self.holders.iter().map(|holder| holder.token.raw()).collect();
        if tokens.len() != self.holders.len() {
            return Err(CorruptSnapshot("two holders have one token"));
        }
        if tokens.last().is_some_and(|&newest| newest > self.last_token) {
            return Err(CorruptSnapshot("a holder's token was never given out"));
        }
        let minted_later =
            |holder: &Holder| holder.vote.is_some_and(|vote| vote.number > holder.token.raw());
        if self.holders.iter().any(minted_later) {
            return Err(CorruptSnapshot(
                "a vote's token is smaller than the one it was minted with",
            ));
        }
        let mut tickets = self.holders.iter().filter_map(|holder| Some(holder.vote?.ticket));
        if tickets.any(|ticket| ticket > limits::COUNTED_MAX) {
            return Err(CorruptSnapshot("a vote's ticket is past the largest"));
        }
        if self.last_token > limits::COUNTED_MAX {
            return Err(CorruptSnapshot("the last token is past the largest"));
        }
        if self.holders.len() > limits::HOLDERS_MAX {
            return Err(CorruptSnapshot("too many holders"));
        }
        let LeaseBounds { first_ms, last_ms } = self.holders.ends();
        let bounded = |holder: &Holder| (first_ms..=last_ms).contains(&holder.deadline_ms);
        if !self.holders.iter().all(bounded) {
            return Err(CorruptSnapshot("a lease ends outside the bounds of all"));
        }
        let together = |holder: &Holder| same_kind(holder.ask.kind(), self.kind);
        if !self.holders.iter().all(together) {
            return Err(CorruptSnapshot("a holder is of another kind than its lock"));
        }
        // A semaphore that was made smaller may exceed its capacity until holders leave.
        let may_exceed = matches!(self.kind, Kind::Semaphore { .. });
        if !may_exceed && self.holders.weight() > self.kind.capacity() {
            return Err(CorruptSnapshot("more is held than there is"));
        }
        Ok(())
    }

    fn audit_queue(&self) -> Result<(), CorruptSnapshot> {
        if self.queue.owners().any(|owner| self.holders.get(owner).is_some()) {
            return Err(CorruptSnapshot("one owner both holds and waits"));
        }
        if self.queue.owners().count() != self.queue.len() {
            return Err(CorruptSnapshot("one owner waits twice"));
        }
        if self.queue.len() > limits::QUEUE_MAX {
            return Err(CorruptSnapshot("too many waiters"));
        }
        if self.queue.next() > limits::COUNTED_MAX || self.queue.era().number > limits::COUNTED_MAX
        {
            return Err(CorruptSnapshot("a place or an era is past the largest"));
        }
        if self.queue.iter().any(|(key, _)| key.0 >= self.queue.next()) {
            return Err(CorruptSnapshot("a place was never given out"));
        }
        if self.queue.sweep_at().is_some_and(|place| self.queue.get(place).is_none()) {
            return Err(CorruptSnapshot("the sweep goes on at a place that is not there"));
        }
        if !self.queue.iter().all(|(_, waiter)| same_kind(waiter.ask.kind(), self.kind)) {
            return Err(CorruptSnapshot("a waiter is of another kind than its lock"));
        }
        let mut waiting: BTreeMap<ClientId, u32> = BTreeMap::new();
        for (_, waiter) in self.queue.iter() {
            *waiting.entry(waiter.client).or_default() += 1;
        }
        let mut handed = 0;
        for (id, client) in self.queue.clients() {
            if client.era > self.queue.era().number {
                return Err(CorruptSnapshot("a client is of an era to come"));
            }
            if client.waiting != waiting.remove(&id).unwrap_or(0) {
                return Err(CorruptSnapshot("a client's places are miscounted"));
            }
            if client.waiting == 0 && client.handed.is_empty() {
                return Err(CorruptSnapshot("a client is remembered for nothing"));
            }
            let is_handed = |owner: &Owner| {
                self.holders.get(*owner).is_some_and(|holder| holder.handed && holder.client == id)
            };
            if !client.handed.iter().all(is_handed) {
                return Err(CorruptSnapshot("a hand-over has no holder"));
            }
            handed += client.handed.len();
        }
        if !waiting.is_empty() {
            return Err(CorruptSnapshot("a waiter has no client"));
        }
        if handed != self.holders.iter().filter(|holder| holder.handed).count() {
            return Err(CorruptSnapshot("a hand-over has no client"));
        }
        Ok(())
    }

    fn audit_members(&self) -> Result<(), CorruptSnapshot> {
        if self.members.len() > limits::MEMBERS_MAX {
            return Err(CorruptSnapshot("too many members"));
        }
        if !self.members.is_empty() && self.kind != Kind::Pool {
            return Err(CorruptSnapshot("there are members, but it is no pool"));
        }
        let held: BTreeSet<_> =
            self.holders.iter().filter_map(|holder| holder.member.as_ref()).collect();
        if held.len() != self.holders.iter().filter(|holder| holder.member.is_some()).count() {
            return Err(CorruptSnapshot("one member has two holders"));
        }
        if self.kind == Kind::Pool && held.len() != self.holders.len() {
            return Err(CorruptSnapshot("a holder of the pool has no member"));
        }
        let in_state = |wanted: fn(MemberState) -> bool| {
            self.members.iter().filter(move |(_, state)| wanted(*state)).map(|(member, _)| member)
        };
        if !in_state(|state| matches!(state, MemberState::Held { .. })).eq(held) {
            return Err(CorruptSnapshot("a member's state is not that of its holder"));
        }
        if self.members.next_free() > limits::COUNTED_MAX {
            return Err(CorruptSnapshot("a member is freed past the largest moment"));
        }
        if self.members.offered() > self.members.next_free() {
            return Err(CorruptSnapshot("a member was offered before it was freed"));
        }
        for (member, state) in self.members.iter() {
            if let MemberState::Free(since) = state {
                if since >= self.members.next_free() {
                    return Err(CorruptSnapshot("a member is free since a moment to come"));
                }
                let wanted =
                    self.queue.head(Some(member)).is_some() || self.queue.head(None).is_some();
                if since < self.members.offered() && wanted {
                    return Err(CorruptSnapshot("a member is free while somebody waits for it"));
                }
            }
        }
        Ok(())
    }
}

/// Returns whether the kinds are the same, ignoring the size of a semaphore.
fn same_kind(one: Kind, other: Kind) -> bool {
    std::mem::discriminant(&one) == std::mem::discriminant(&other)
}

#[cfg(test)]
mod tests;
