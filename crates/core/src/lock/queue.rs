//! The wait queue: one numbered place per waiter, in lines that are each first come, first served.
//!
//! All waiters of a mutex, a read-write lock or a semaphore stand in the common line. A pool also
//! has a line per member; the next waiter for a member is the smaller number of the two heads.
//!
//! A place lives as long as its *client* keeps refreshing: one refresh per client, however many
//! tasks wait.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::holders::Holder;
use super::lazy_box::StaticDefault;
use crate::{Ask, ClientId, Label, Member, Now, Owner};

/// The key of a place: its number, then its owner. Only tickets can have equal numbers.
pub(super) type PlaceKey = (u64, Owner);

/// One waiter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Waiter {
    pub(super) owner: Owner,
    pub(super) client: ClientId,
    pub(super) ask: Ask,
    pub(super) at_least_ms: u64,
    pub(super) lease_ms: u64,
    pub(super) since_ms: u64,
    /// The request had a ballot: the number of its place is its ticket.
    pub(super) ballot: bool,
    pub(super) label: Label,
}

/// What the lock knows of a client that waits, or that was handed the lock and has not answered
/// yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WaitingClient {
    pub(super) deadline_ms: u64,
    /// The era of that deadline: see [`ClockEra`].
    pub(super) era: u64,
    pub(super) waiter_lease_ms: u64,
    pub(super) waiting: u32,
    pub(super) handed: Vec<Owner>,
}

impl WaitingClient {
    /// Returns its waiter lease, if it waits.
    fn waits_for_ms(&self) -> Option<u64> {
        (self.waiting > 0).then_some(self.waiter_lease_ms)
    }
}

/// How often the clock was set back, and to what time most recently. A deadline of an earlier era
/// was for another clock, so its client counts as alive for at most one waiter lease from the start
/// of this era. A lapsed client may thus count as alive once more, and delay the waiters behind it
/// by that much. In return, setting the clock back costs a step nothing, however many wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClockEra {
    pub(super) number: u64,
    pub(super) began_ms: u64,
}

/// All waiters of one lock. Invariants: `by_owner` and `lines` name exactly the places in `places`;
/// each waiter has a client, whose `waiting` counts its places; a client with neither place nor
/// hand-over is forgotten; `leases` counts the clients with a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WaitQueue {
    places: BTreeMap<PlaceKey, Waiter>,
    by_owner: BTreeMap<Owner, u64>,
    lines: BTreeMap<Option<Member>, BTreeSet<PlaceKey>>,
    clients: BTreeMap<ClientId, WaitingClient>,
    /// How many of the clients that wait have each waiter lease.
    leases: BTreeMap<u64, u32>,
    next: u64,
    /// Where the sweep for dead waiters continues; at the front if `None`.
    sweep_at: Option<PlaceKey>,
    era: ClockEra,
}

impl StaticDefault for WaitQueue {
    fn static_default() -> &'static Self {
        static BLANK: WaitQueue = WaitQueue {
            places: BTreeMap::new(),
            by_owner: BTreeMap::new(),
            lines: BTreeMap::new(),
            clients: BTreeMap::new(),
            leases: BTreeMap::new(),
            next: 0,
            sweep_at: None,
            era: ClockEra { number: 0, began_ms: 0 },
        };
        &BLANK
    }
}

impl WaitQueue {
    pub(super) fn restore(
        places: Vec<(u64, Waiter)>,
        clients: Vec<(ClientId, WaitingClient)>,
        next: u64,
        sweep_at: Option<PlaceKey>,
        era: ClockEra,
    ) -> Self {
        let clients = clients.into_iter().collect();
        let mut queue = Self { next, sweep_at, era, clients, ..Self::default() };
        for lease_ms in queue.clients.values().filter_map(WaitingClient::waits_for_ms) {
            *queue.leases.entry(lease_ms).or_default() += 1;
        }
        for (number, waiter) in places {
            let key = (number, waiter.owner);
            queue.index(key, &waiter);
            queue.places.insert(key, waiter);
        }
        queue
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PlaceKey, &Waiter)> {
        self.places.iter().map(|(&key, waiter)| (key, waiter))
    }

    pub(super) fn clients(&self) -> impl Iterator<Item = (ClientId, &WaitingClient)> {
        self.clients.iter().map(|(&id, client)| (id, client))
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = Owner> {
        self.by_owner.keys().copied()
    }

    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn sweep_at(&self) -> Option<PlaceKey> {
        self.sweep_at
    }

    pub(super) fn era(&self) -> ClockEra {
        self.era
    }

    pub(super) fn place_of(&self, owner: Owner) -> Option<PlaceKey> {
        self.by_owner.get(&owner).map(|&number| (number, owner))
    }

    pub(super) fn client(&self, id: ClientId) -> Option<&WaitingClient> {
        self.clients.get(&id)
    }

    pub(super) fn get(&self, key: PlaceKey) -> Option<&Waiter> {
        self.places.get(&key)
    }

    /// Returns whether the number of this place is a ticket.
    pub(super) fn is_ballot(&self, key: PlaceKey) -> bool {
        self.get(key).is_some_and(|waiter| waiter.ballot)
    }

    /// Returns the first place in a line, dead or alive.
    pub(super) fn head(&self, line: Option<&Member>) -> Option<(PlaceKey, &Waiter)> {
        let key = *self.lines.get(&line.cloned())?.first()?;
        Some((key, &self.places[&key]))
    }

    /// Returns the first place of all lines.
    pub(super) fn first(&self) -> Option<PlaceKey> {
        self.places.keys().next().copied()
    }

    /// Returns the longest waiter lease of any client that waits: without a step for that long, no
    /// waiter is left.
    pub(super) fn patience_ms(&self) -> u64 {
        self.leases.last_key_value().map_or(0, |(&lease_ms, _)| lease_ms)
    }

    /// Returns the number of the first place, or of the next place to be given if nobody waits.
    pub(super) fn front(&self) -> u64 {
        self.first().map_or(self.next, |(number, _)| number)
    }

    /// Returns whether the client of this waiter still keeps its places alive.
    pub(super) fn is_live(&self, waiter: &Waiter, now: Now) -> bool {
        self.clients.get(&waiter.client).is_some_and(|client| self.lapses_ms(client) > now.ms)
    }

    /// Returns until when this client's places stay alive, as far as is known.
    pub(super) fn client_lapses_ms(&self, id: ClientId) -> Option<u64> {
        self.clients.get(&id).map(|client| self.lapses_ms(client))
    }

    /// Adds a waiter at the end of its line, and keeps its client's places alive.
    pub(super) fn push(&mut self, waiter: Waiter, waiter_lease_ms: u64, now: Now) -> PlaceKey {
        self.put(self.next, waiter, waiter_lease_ms, now)
    }

    /// Adds a waiter at this number, and keeps its client's places alive.
    pub(super) fn put(
        &mut self,
        number: u64,
        waiter: Waiter,
        waiter_lease_ms: u64,
        now: Now,
    ) -> PlaceKey {
        let key = (number, waiter.owner);
        self.next = self.next.max(number + 1);
        self.clients.entry(waiter.client).or_insert_with(|| WaitingClient {
            deadline_ms: 0,
            era: self.era.number,
            waiter_lease_ms,
            waiting: 0,
            handed: Vec::new(),
        });
        self.update_client(waiter.client, |client| client.waiting += 1);
        self.keep_alive(waiter.client, waiter_lease_ms, now);
        self.index(key, &waiter);
        self.places.insert(key, waiter);
        key
    }

    pub(super) fn remove(&mut self, key: PlaceKey) -> Option<Waiter> {
        let waiter = self.take(key)?;
        self.update_client(waiter.client, |client| client.waiting -= 1);
        Some(waiter)
    }

    /// Moves a waiter to another number.
    pub(super) fn move_to(&mut self, key: PlaceKey, number: u64) -> PlaceKey {
        if number == key.0 {
            return key;
        }
        let Some(waiter) = self.take(key) else { return key };
        let key = (number, waiter.owner);
        self.next = self.next.max(number + 1);
        self.index(key, &waiter);
        self.places.insert(key, waiter);
        key
    }

    /// Removes a waiter, but leaves the record of its client.
    fn take(&mut self, key: PlaceKey) -> Option<Waiter> {
        let waiter = self.places.remove(&key)?;
        if self.sweep_at == Some(key) {
            self.sweep_at = self.after(key);
        }
        self.by_owner.remove(&waiter.owner);
        let line = waiter.ask.line().cloned();
        if let Some(keys) = self.lines.get_mut(&line) {
            keys.remove(&key);
            if keys.is_empty() {
                self.lines.remove(&line);
            }
        }
        Some(waiter)
    }

    /// Records a sign of life from the client. It only ever extends the life of its places: a
    /// client's id is no secret, so anybody may send this.
    pub(super) fn keep_alive(&mut self, id: ClientId, waiter_lease_ms: u64, now: Now) {
        let (until_ms, era) = (now.ms.saturating_add(waiter_lease_ms), self.era.number);
        self.update_client(id, |client| {
            let is_of_now = client.era == era;
            client.deadline_ms =
                if is_of_now { client.deadline_ms.max(until_ms) } else { until_ms };
            client.waiter_lease_ms = client.waiter_lease_ms.max(waiter_lease_ms);
            client.era = era;
        });
    }

    /// Starts a new era after the clock was set back: no client counts as alive for longer than its
    /// waiter lease.
    pub(super) fn begin_era(&mut self, now: Now) {
        self.era = ClockEra { number: self.era.number + 1, began_ms: now.ms };
    }

    /// Returns how long a holder may hold without renewal: its lease, all of its rest if it rests, but at most a waiter lease
    /// while its client has not answered the hand-over.
    pub(super) fn lease_of(&self, holder: &Holder) -> u64 {
        match self.clients.get(&holder.client) {
            _ if holder.resting => holder.at_least_ms,
            Some(client) if holder.handed => holder.lease_ms.min(client.waiter_lease_ms),
            _ => holder.lease_ms,
        }
    }

    /// Marks the client as dead: its places lapse now. Returns the owners that were handed the
    /// lock.
    pub(super) fn declare_dead(&mut self, id: ClientId, now: Now) -> Vec<Owner> {
        let Some(client) = self.clients.get_mut(&id) else { return Vec::new() };
        client.deadline_ms = client.deadline_ms.min(now.ms);
        client.handed.clone()
    }

    /// Turns the place into a hand-over that the client has yet to answer. Call it while the waiter
    /// still has its place.
    pub(super) fn hand_over(&mut self, id: ClientId, owner: Owner) {
        self.update_client(id, |client| client.handed.push(owner));
    }

    /// Removes a hand-over that the client answered or that is gone.
    pub(super) fn answered(&mut self, id: ClientId, owner: Owner) {
        self.update_client(id, |client| client.handed.retain(|&other| other != owner));
    }

    /// Checks the next few places and drops those of dead clients. Each enqueue pays for a few, so
    /// dead waiters in the middle of the queue can't pile up.
    pub(super) fn sweep(&mut self, now: Now, count: u32) {
        for _ in 0..count {
            let Some(key) = self.sweep_at.or_else(|| self.first()) else { return };
            let dead = !self.is_live(&self.places[&key], now);
            self.sweep_at = self.after(key);
            if dead {
                self.remove(key);
            }
        }
    }

    fn after(&self, key: PlaceKey) -> Option<PlaceKey> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.places.range((Excluded(key), Unbounded)).next().map(|(&key, _)| key)
    }

    fn lapses_ms(&self, client: &WaitingClient) -> u64 {
        if client.era == self.era.number {
            return client.deadline_ms;
        }
        client.deadline_ms.min(self.era.began_ms.saturating_add(client.waiter_lease_ms))
    }

    fn index(&mut self, key: PlaceKey, waiter: &Waiter) {
        self.by_owner.insert(waiter.owner, key.0);
        self.lines.entry(waiter.ask.line().cloned()).or_default().insert(key);
    }

    fn update_client(&mut self, id: ClientId, change: impl FnOnce(&mut WaitingClient)) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let before = client.waits_for_ms();
        change(client);
        let after = client.waits_for_ms();
        if client.waiting == 0 && client.handed.is_empty() {
            self.clients.remove(&id);
        }
        if before == after {
            return;
        }
        if let Some(lease_ms) = before
            && let Some(count) = self.leases.get_mut(&lease_ms)
        {
            *count -= 1;
            if *count == 0 {
                self.leases.remove(&lease_ms);
            }
        }
        if let Some(lease_ms) = after {
            *self.leases.entry(lease_ms).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Now {
        Now { ms, wall_us: ms * 1_000 }
    }

    #[test]
    fn a_sign_of_life_never_shortens_a_place() {
        let (mut queue, client) = (WaitQueue::default(), ClientId::from_bits(7));
        let waiter = Waiter {
            owner: Owner::from_bits(1),
            client,
            ask: Ask::Mutex,
            at_least_ms: 0,
            lease_ms: 30_000,
            since_ms: 1_000,
            ballot: false,
            label: Label::default(),
        };
        queue.push(waiter.clone(), 3_000, at(1_000));
        queue.keep_alive(client, 10, at(1_001));
        assert!(queue.is_live(&waiter, at(3_999)) && !queue.is_live(&waiter, at(4_000)));
        assert_eq!(queue.client(client).map(|client| client.waiter_lease_ms), Some(3_000));
        queue.keep_alive(client, 5_000, at(2_000));
        assert!(queue.is_live(&waiter, at(6_999)) && !queue.is_live(&waiter, at(7_000)));
    }

    #[test]
    fn a_sign_of_life_counts_from_a_clock_that_was_set_back() {
        let (mut queue, client) = (WaitQueue::default(), ClientId::from_bits(7));
        let (owner, ask, label) = (Owner::from_bits(1), Ask::Mutex, Label::default());
        let (at_least_ms, lease_ms, since_ms, ballot) = (0, 1, 0, false);
        let waiter = Waiter { owner, client, ask, at_least_ms, lease_ms, since_ms, ballot, label };
        queue.push(waiter.clone(), 3_000, at(100_000));
        queue.begin_era(at(1_000));
        queue.keep_alive(client, 3_000, at(1_000));
        assert!(queue.is_live(&waiter, at(3_999)) && !queue.is_live(&waiter, at(4_000)));
    }
}
