//! Connections that poll: that ask for a lock, are refused, and ask again, instead of waiting.
//!
//! Beside clients that wait they would starve, since a release hands the lock to the next waiter and a
//! poll never finds it free. So a connection that polls becomes a waiter of the lock's own queue, with a
//! waiter lease that each poll renews:
//!
//! ```text
//!   refused ─► noted ── refused again within a second ─► a place in the queue ── its turn ─► an offer
//!                ▲                                            │ lapses                         │ │
//!                └────────────────────────────────────────────┴────────────── lapses ──────────┘ │
//!                                                                      the next poll: granted ◄──┘
//! ```
//!
//! What is kept here ends with the connection, or a second after its last poll. Everything is a function
//! of state, time and input: the queue itself is the lock's, and whether a place or an offer is still good
//! is for the lock to say.

use std::collections::HashMap;

use taketurns_core::{ClientId, Owner};

use crate::secret;
use crate::words::AcquireWords;

/// A client that asks again later than this does not poll.
pub(crate) const INTERVAL_MS_MAX: u64 = 1_000;
/// How many poll intervals a place lasts without a poll, so that one poll may be late. The longest interval seen
/// counts.
const INTERVALS: u64 = 3;
/// The shortest waiter lease. A client may be this late, however often it polls.
const WAITER_LEASE_MS_MIN: u64 = 50;
/// The longest waiter lease: a client that stops polling delays the others by this at most.
const WAITER_LEASE_MS_MAX: u64 = 1_000;
/// How many things one connection may poll for at a time. Any further `ACQUIRE` is a plain try.
const POLLS_MAX: usize = 8;

/// The lock and the arguments that a connection asks for.
#[derive(Clone, Copy)]
pub(crate) struct PollTarget<'a> {
    pub(crate) connection: u64,
    pub(crate) record: u64,
    pub(crate) words: &'a AcquireWords,
}

/// The identity under which a poll asks for its lock.
#[derive(Clone, Copy)]
pub(crate) struct PollAsker {
    pub(crate) client: ClientId,
    pub(crate) secret: u64,
    pub(crate) waiter_lease_ms: u64,
}

impl PollAsker {
    pub(crate) fn owner(self) -> Owner {
        secret::owner(self.secret)
    }
}

/// A request that one connection repeats.
struct ConnectionPoll {
    record: u64,
    words: AcquireWords,
    asked_ms: u64,
    place: Option<PollPlace>,
    /// Derived from the longest interval seen.
    waiter_lease_ms: u64,
}

/// A place in the lock's queue, or the offer that followed.
struct PollPlace {
    client: ClientId,
    secret: u64,
    lapses_ms: u64,
    is_offered: bool,
}

impl ConnectionPoll {
    fn is_for(&self, target: PollTarget<'_>) -> bool {
        self.record == target.record && self.words == *target.words
    }

    fn waiter_lease_ms_at(&self, now_ms: u64) -> u64 {
        let interval_ms = now_ms.saturating_sub(self.asked_ms);
        let wanted_ms = interval_ms.saturating_mul(INTERVALS);
        self.waiter_lease_ms.max(wanted_ms.clamp(WAITER_LEASE_MS_MIN, WAITER_LEASE_MS_MAX))
    }

    fn is_recent(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.asked_ms) <= INTERVAL_MS_MAX
    }
}

/// How many places and offers one lock has.
#[derive(Debug, Default, PartialEq, Eq)]
struct PollTally {
    queued: usize,
    offered: usize,
}

/// Invariant: `connections` names the connection of each place and offer, and `tallies` counts them per
/// lock.
#[derive(Default)]
pub(crate) struct Polls {
    by_connection: HashMap<u64, Vec<ConnectionPoll>>,
    connections: HashMap<ClientId, u64>,
    tallies: HashMap<u64, PollTally>,
}

impl Polls {
    /// Was anything refused to this connection recently?
    pub(crate) fn is_known(&self, connection: u64) -> bool {
        self.by_connection.contains_key(&connection)
    }

    /// Returns as whom to ask for a place in the queue, if this connection polls. It keeps the place that it has.
    /// Otherwise it takes one with the `fresh` id and secret if clients wait that would let it starve.
    pub(crate) fn ask(
        &self,
        target: PollTarget<'_>,
        now_ms: u64,
        somebody_waits: bool,
        fresh: impl FnOnce() -> (ClientId, u64),
    ) -> Option<PollAsker> {
        let polls = self.by_connection.get(&target.connection)?;
        let poll = polls.iter().find(|poll| poll.is_for(target))?;
        let waiter_lease_ms = poll.waiter_lease_ms_at(now_ms);
        if let Some(PollPlace { client, secret, .. }) = poll.place {
            return Some(PollAsker { client, secret, waiter_lease_ms });
        }
        (somebody_waits && poll.is_recent(now_ms)).then(|| {
            let (client, secret) = fresh();
            PollAsker { client, secret, waiter_lease_ms }
        })
    }

    /// Notes that a try was refused: the next one may be a poll.
    pub(crate) fn refused(&mut self, target: PollTarget<'_>, now_ms: u64) {
        let polls = self.by_connection.entry(target.connection).or_default();
        let (asked_ms, waiter_lease_ms) = (now_ms, WAITER_LEASE_MS_MIN);
        if let Some(poll) = polls.iter_mut().find(|poll| poll.is_for(target)) {
            (poll.asked_ms, poll.waiter_lease_ms) = (asked_ms, waiter_lease_ms);
        } else if polls.len() < POLLS_MAX {
            let (record, words) = (target.record, target.words.clone());
            polls.push(ConnectionPoll { record, words, asked_ms, place: None, waiter_lease_ms });
        }
    }

    /// Notes that a poll was refused and has a place in the queue.
    pub(crate) fn queued(&mut self, target: PollTarget<'_>, asker: PollAsker, now_ms: u64) {
        self.lose_place(target);
        let Some(poll) = self.find_mut(target) else { return };
        let PollAsker { client, secret, waiter_lease_ms } = asker;
        let lapses_ms = now_ms.saturating_add(waiter_lease_ms);
        (poll.asked_ms, poll.waiter_lease_ms) = (now_ms, waiter_lease_ms);
        poll.place = Some(PollPlace { client, secret, lapses_ms, is_offered: false });
        self.connections.insert(client, target.connection);
        self.tallies.entry(target.record).or_default().queued += 1;
    }

    /// Forgets a poll that was granted its lock, or refused for good.
    pub(crate) fn forget(&mut self, target: PollTarget<'_>) {
        self.lose_place(target);
        if let Some(polls) = self.by_connection.get_mut(&target.connection) {
            polls.retain(|poll| !poll.is_for(target));
            if polls.is_empty() {
                self.by_connection.remove(&target.connection);
            }
        }
    }

    /// Notes that the lock was handed to this place. Returns false if there is no such place: the caller must
    /// release the lock.
    pub(crate) fn offer(&mut self, client: ClientId, record: u64, now_ms: u64) -> bool {
        let Some(poll) = self.by_client(client, record) else { return false };
        let waiter_lease_ms = poll.waiter_lease_ms;
        let Some(place) = &mut poll.place else { return false };
        place.lapses_ms = now_ms.saturating_add(waiter_lease_ms);
        if !std::mem::replace(&mut place.is_offered, true) {
            let tally = self.tallies.entry(record).or_default();
            (tally.queued, tally.offered) = (tally.queued - 1, tally.offered + 1);
        }
        true
    }

    /// Forgets a place that is gone, or whose offer was broken. Returns false if there is no such place.
    pub(crate) fn drop_place(&mut self, client: ClientId, record: u64) -> bool {
        let place = self.by_client(client, record).and_then(|poll| poll.place.take());
        place.map(|place| self.count_off(record, &place)).is_some()
    }

    /// Forgets all that has lapsed by now. Returns the lapsed places and offers, each as its lock and its owner:
    /// the caller must release them.
    pub(crate) fn lapse(&mut self, now_ms: u64) -> Vec<(u64, Owner)> {
        let has_lapsed = |place: &mut PollPlace| place.lapses_ms <= now_ms;
        let mut lapsed = Vec::new();
        self.by_connection.retain(|_, polls| {
            polls.retain_mut(|poll| {
                lapsed.extend(poll.place.take_if(has_lapsed).map(|place| (poll.record, place)));
                poll.place.is_some() || poll.is_recent(now_ms)
            });
            !polls.is_empty()
        });
        self.give_up(lapsed)
    }

    /// Forgets all places and offers of a closed connection, and returns them as [`Polls::lapse`] does.
    pub(crate) fn close(&mut self, connection: u64) -> Vec<(u64, Owner)> {
        let polls = self.by_connection.remove(&connection).unwrap_or_default();
        self.give_up(polls.into_iter().filter_map(|poll| Some((poll.record, poll.place?))))
    }

    /// Forgets everything, since the clock was set back. Returns it as [`Polls::lapse`] does.
    pub(crate) fn clear(&mut self) -> Vec<(u64, Owner)> {
        let polls = std::mem::take(&mut self.by_connection).into_values().flatten();
        self.give_up(polls.filter_map(|poll| Some((poll.record, poll.place?))))
    }

    /// Counts the places in this lock's queue that belong to polling connections.
    pub(crate) fn queued_in(&self, record: u64) -> usize {
        self.tallies.get(&record).map_or(0, |tally| tally.queued)
    }

    /// Is this lock offered to a polling connection?
    pub(crate) fn is_offering(&self, record: u64) -> bool {
        self.tallies.get(&record).is_some_and(|tally| tally.offered > 0)
    }

    /// Counts all places and offers.
    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }

    fn find_mut(&mut self, target: PollTarget<'_>) -> Option<&mut ConnectionPoll> {
        let polls = self.by_connection.get_mut(&target.connection)?;
        polls.iter_mut().find(|poll| poll.is_for(target))
    }

    fn by_client(&mut self, client: ClientId, record: u64) -> Option<&mut ConnectionPoll> {
        let polls = self.by_connection.get_mut(self.connections.get(&client)?)?;
        let is_its =
            |poll: &ConnectionPoll| poll.place.as_ref().is_some_and(|place| place.client == client);
        polls.iter_mut().find(|poll| poll.record == record && is_its(poll))
    }

    fn lose_place(&mut self, target: PollTarget<'_>) {
        if let Some(place) = self.find_mut(target).and_then(|poll| poll.place.take()) {
            self.count_off(target.record, &place);
        }
    }

    fn give_up(&mut self, places: impl IntoIterator<Item = (u64, PollPlace)>) -> Vec<(u64, Owner)> {
        let give_up = |(record, place): (u64, PollPlace)| {
            self.count_off(record, &place);
            (record, secret::owner(place.secret))
        };
        places.into_iter().map(give_up).collect()
    }

    fn count_off(&mut self, record: u64, place: &PollPlace) {
        self.connections.remove(&place.client);
        if let Some(tally) = self.tallies.get_mut(&record) {
            match place.is_offered {
                true => tally.offered -= 1,
                false => tally.queued -= 1,
            }
            if *tally == PollTally::default() {
                self.tallies.remove(&record);
            }
        }
    }
}

#[cfg(test)]
mod tests;
