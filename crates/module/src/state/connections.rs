//! Who waits on which connection, until when, and what ends with one.

use std::collections::{HashMap, HashSet};

use taketurns_core::{ClientId, Grant, Owner, WakeEvent};

use super::{BlockedWaiter, BoundHold, Chore, GrantedClient, ModuleState};
use crate::blocked::BlockedReply;
use crate::problem::Problem;
use crate::sys::BlockedClient;

/// How many locks a connection is tied to before those that it let go of are looked for.
const TIES: usize = 1_024;

impl ModuleState {
    /// Everybody whose connection is open and who still wants what it asked for, and of which lock.
    pub(crate) fn open_clients(&self) -> HashMap<ClientId, u64> {
        let tied = self
            .bound_holds
            .values()
            .flatten()
            .map(|bound_hold| (bound_hold.client, bound_hold.record));
        let waiting = self.waiters.iter().map(|(client, waiter)| (*client, waiter.record));
        // Who polls is not among them: if its place goes, its next poll takes another.
        waiting.chain(tied).collect()
    }

    /// Is this lock the one that the client is here for, and not a double of it, made by RESTORE? If
    /// that one is no more, this is the same, loaded anew.
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

    /// Those who have waited for long enough, to be told so: they give up.
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

    /// The clock was set back: nobody waits for longer, from now on, than it asked to.
    pub(crate) fn pull_in_ends(&mut self, now_ms: u64) {
        self.ends.clear();
        for (client, waiter) in &mut self.waiters {
            waiter.until_ms = waiter.until_ms.min(now_ms.saturating_add(waiter.wait_ms));
            self.ends.insert((waiter.until_ms, *client));
        }
    }

    /// What happened to one who waits for this lock on a connection: whom to tell what. `None` if
    /// nobody does any more, or for the lock of which this one is a double.
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
            // Nobody breaks a place in the queue, and no connection asks on behalf of a quorum.
            WakeEvent::Revoked { .. } | WakeEvent::Inquired { .. } => {
                BlockedReply::Problem(Problem::REVOKED)
            }
        };
        Some((waiter.handle, outcome))
    }

    /// The client was told.
    pub(crate) fn answered(&mut self, handle: BlockedClient) {
        if let Some(client) = self.handles.remove(&handle) {
            self.told.remove(&client);
        }
    }

    /// The client is gone, or waits no more: what it asked for is given up, also if it was granted
    /// a moment ago and never told. True if it has yet to be unblocked.
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

    /// Is somebody about to be told that it was granted this lock, or will it hear when it polls again?
    /// It may be gone before that.
    pub(crate) fn is_telling(&self, record: u64) -> bool {
        self.told.values().any(|told| told.record == record) || self.polls.is_offering(record)
    }

    /// What is held ends with the connection.
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

    /// It was given back.
    pub(crate) fn untie(&mut self, connection: u64, owner: Owner) {
        if let Some(bound_holds) = self.bound_holds.get_mut(&connection) {
            bound_holds.retain(|bound_hold| bound_hold.owner != owner);
            if bound_holds.is_empty() {
                self.bound_holds.remove(&connection);
            }
        }
    }

    /// Of what ties a connection to a lock, only what is still held there is kept.
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

    /// A connection was closed. False if nothing ends with it.
    pub(crate) fn closed(&mut self, connection: u64) -> bool {
        let bound_holds = self.bound_holds.remove(&connection).into_iter().flatten();
        let mut ends: Vec<_> =
            bound_holds.map(|bound_hold| (bound_hold.record, bound_hold.owner)).collect();
        ends.extend(self.polls.close(connection));
        self.leave(ends)
    }

    /// Those who polled and have not come again give up what they had. False if nobody did.
    pub(crate) fn lapse_polls(&mut self, now_ms: u64) -> bool {
        let lapsed = self.polls.lapse(now_ms);
        self.leave(lapsed)
    }

    /// The clock was set back: who polls begins anew.
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
