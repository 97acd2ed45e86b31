//! Which client waits on which connection, until when, and what ends with the connection.

use std::collections::{HashMap, HashSet};

use taketurns_core::{ClientId, Grant, Owner, WakeEvent};

use super::{BlockedWaiter, BoundHold, Chore, GrantedClient, ModuleState};
use crate::blocked::BlockedReply;
use crate::problem::Problem;
use crate::sys::BlockedClient;

/// How many ties a connection may have before released ones are removed.
const TIES: usize = 1_024;

impl ModuleState {
    /// Returns each client whose connection is open and who still wants its lock, with that lock.
    pub(crate) fn open_clients(&self) -> HashMap<ClientId, u64> {
        let tied = self
            .bound_holds
            .values()
            .flatten()
            .map(|bound_hold| (bound_hold.client, bound_hold.record));
        let waiting = self.waiters.iter().map(|(client, waiter)| (*client, waiter.record));
        // Polling clients are not included: a client whose place is gone takes another with its next poll.
        waiting.chain(tied).collect()
    }

    /// Is this the lock that the client asked for, and not a copy of it made by RESTORE? If the original is gone, this
    /// is the same lock, loaded again.
    pub(crate) fn claims(
        &mut self,
        open: &mut HashMap<ClientId, u64>,
        client: ClientId,
        record: u64,
    ) -> bool {
        let Some(of) = open.get_mut(&client) else { return false };
        if *of != record && !self.locations.contains_key(of) {
            *of = record;
            let bound_holds = self
                .bound_holds
                .values_mut()
                .flatten()
                .filter(|bound_hold| bound_hold.client == client);
            bound_holds.for_each(|bound_hold| bound_hold.record = record);
        }
        *of == record
    }

    pub(crate) fn wait(&mut self, client: ClientId, waiter: BlockedWaiter) {
        self.handles.insert(waiter.handle, client);
        self.ends.insert((waiter.until_ms, client));
        self.waiters.insert(client, waiter);
    }

    pub(super) fn take_waiter(&mut self, client: ClientId) -> Option<BlockedWaiter> {
        let waiter = self.waiters.remove(&client)?;
        self.ends.remove(&(waiter.until_ms, client));
        Some(waiter)
    }

    /// Takes the clients whose wait has timed out; the caller tells them.
    pub(crate) fn tired(&mut self, now_ms: u64) -> Vec<BlockedClient> {
        let mut handles = Vec::new();
        while let Some(&(_, client)) = self.ends.first().filter(|(until_ms, _)| *until_ms <= now_ms)
            && let Some(waiter) = self.take_waiter(client)
        {
            self.chores.push_back((waiter.record, Chore::Leave(waiter.owner)));
            handles.push(waiter.handle);
        }
        handles
    }

    /// Shortens waits after the clock was set back: from now on nobody waits longer than it asked to.
    pub(crate) fn pull_in_ends(&mut self, now_ms: u64) {
        self.ends.clear();
        for (client, waiter) in &mut self.waiters {
            waiter.until_ms = waiter.until_ms.min(now_ms.saturating_add(waiter.wait_ms));
            self.ends.insert((waiter.until_ms, *client));
        }
    }

    /// Handles a wake-up for a connection that waits for this lock. Returns the client to tell, and the reply. Returns
    /// `None` if no client waits any more, or if it waits for the lock that this one is a copy of.
    pub(crate) fn wake(
        &mut self,
        client: ClientId,
        record: u64,
        event: &WakeEvent,
        now_ms: u64,
    ) -> Option<(BlockedClient, BlockedReply)> {
        self.waiters.get(&client).filter(|waiter| waiter.record == record)?;
        let waiter = self.take_waiter(client)?;
        let outcome = match event {
            WakeEvent::Granted(Grant { token, member, .. }) => {
                let BlockedWaiter { connection, owner, .. } = waiter;
                self.told.insert(client, GrantedClient { connection, record, owner });
                if client.is_bound() {
                    self.bound_hold(connection, client, record, owner);
                }
                BlockedReply::Granted {
                    secret: waiter.secret,
                    token: token.map_or(0, |token| token.raw()),
                    member: member.clone(),
                }
            }
            WakeEvent::Refused(refusal) => {
                BlockedReply::Problem(Problem::refused(*refusal, now_ms, self.max_lease_ms()))
            }
            WakeEvent::DoneBefore(done) => BlockedReply::DoneBefore(done.clone()),
            // A place in the queue is never broken, and no connection asks for a quorum or keeps a lock.
            WakeEvent::Revoked { .. } | WakeEvent::Inquired { .. } | WakeEvent::Wanted { .. } => {
                BlockedReply::Problem(Problem::REVOKED)
            }
        };
        Some((waiter.handle, outcome))
    }

    /// Notes that the client got its reply.
    pub(crate) fn answered(&mut self, handle: BlockedClient) {
        if let Some(client) = self.handles.remove(&handle) {
            self.told.remove(&client);
        }
    }

    /// Gives up the request of a client that is gone or no longer waits, even if the lock was granted a moment ago and
    /// the client was not told. Returns true if the client must still be unblocked.
    pub(crate) fn left(&mut self, handle: BlockedClient) -> bool {
        let Some(client) = self.handles.remove(&handle) else { return false };
        let waiter = self.take_waiter(client);
        if let Some(BlockedWaiter { record, owner, .. }) = waiter {
            self.chores.push_back((record, Chore::Leave(owner)));
        }
        if let Some(GrantedClient { connection, record, owner }) = self.told.remove(&client) {
            self.untie(connection, owner);
            self.chores.push_back((record, Chore::Leave(owner)));
        }
        waiter.is_some()
    }

    /// Is a client about to learn that it was granted this lock, by a reply or by its next poll? It may be gone before
    /// that.
    pub(crate) fn is_telling(&self, record: u64) -> bool {
        self.told.values().any(|told| told.record == record) || self.polls.is_offering(record)
    }

    /// Notes a hold that ends with its connection.
    pub(crate) fn bound_hold(
        &mut self,
        connection: u64,
        client: ClientId,
        record: u64,
        owner: Owner,
    ) {
        let locations = &self.locations;
        let bound_holds = self.bound_holds.entry(connection).or_default();
        if bound_holds.len() >= TIES && bound_holds.len().is_power_of_two() {
            bound_holds.retain(|bound_hold| locations.contains_key(&bound_hold.record));
            let records: HashSet<u64> =
                bound_holds.iter().map(|bound_hold| bound_hold.record).collect();
            let chores = records.into_iter().map(|record| (record, Chore::Untie(connection)));
            self.chores.extend(chores);
        }
        bound_holds.push(BoundHold { client, record, owner });
    }

    /// Notes that a bound hold was released.
    pub(crate) fn untie(&mut self, connection: u64, owner: Owner) {
        if let Some(bound_holds) = self.bound_holds.get_mut(&connection) {
            bound_holds.retain(|bound_hold| bound_hold.owner != owner);
            if bound_holds.is_empty() {
                self.bound_holds.remove(&connection);
            }
        }
    }

    /// Keeps only the ties of a connection whose holds still exist.
    pub(crate) fn keep_ties(
        &mut self,
        connection: u64,
        record: u64,
        is_held: impl Fn(Owner) -> bool,
    ) {
        if let Some(bound_holds) = self.bound_holds.get_mut(&connection) {
            bound_holds
                .retain(|bound_hold| bound_hold.record != record || is_held(bound_hold.owner));
        }
    }

    /// Handles a closed connection. Returns false if nothing ends with it.
    pub(crate) fn closed(&mut self, connection: u64) -> bool {
        let bound_holds = self.bound_holds.remove(&connection).into_iter().flatten();
        let mut ends: Vec<_> =
            bound_holds.map(|bound_hold| (bound_hold.record, bound_hold.owner)).collect();
        ends.extend(self.polls.close(connection));
        self.leave(ends)
    }

    /// Gives up the places and offers of clients that stopped polling. Returns false if there were none.
    pub(crate) fn lapse_polls(&mut self, now_ms: u64) -> bool {
        let lapsed = self.polls.lapse(now_ms);
        self.leave(lapsed)
    }

    /// Forgets all polls after the clock was set back: polling clients start over.
    pub(crate) fn clear_polls(&mut self) {
        let all = self.polls.clear();
        self.leave(all);
    }

    fn leave(&mut self, owners: Vec<(u64, Owner)>) -> bool {
        let is_any = !owners.is_empty();
        self.chores.extend(owners.into_iter().map(|(record, owner)| (record, Chore::Leave(owner))));
        is_any
    }
}
