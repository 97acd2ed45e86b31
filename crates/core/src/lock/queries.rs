//! Read-only queries for the engine that keeps the lock: how many hold and wait, when a tick is
//! due, how much memory the lock takes, when it may be forgotten.

use super::holders::Holder;
use super::once::WorkRecord;
use super::queue::{Waiter, WaitingClient};
use super::{Completion, Lock};
use crate::{Ask, ClientId, Kind, Now, Owner, limits};

impl Lock {
    /// Returns how many hold it, including those whose lease ended since the last step.
    pub fn holding(&self) -> usize {
        self.holders.len()
    }

    /// Returns the client that keeps what this owner holds.
    pub fn kept_by(&self, owner: Owner) -> Option<ClientId> {
        self.holders.get(owner).map(|holder| holder.client)
    }

    /// Returns how many wait, dead or alive.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Returns when time alone will change something for the waiters: a [`crate::Request::Tick`] is
    /// due then.
    pub fn due_ms(&self) -> Option<u64> {
        if self.queue.is_empty() {
            return None;
        }
        let quarantine = Some(self.quarantine_until_ms).filter(|until| *until > self.seen_ms);
        quarantine.or_else(|| {
            let ends = [self.holders.first_deadline_ms(), self.head_lapses_ms()];
            ends.into_iter().flatten().chain(self.pause_of_head_ms()).min()
        })
    }

    /// Returns when the head of the line lapses, if it asks for more than is free. Until then it
    /// blocks the waiters behind it.
    fn head_lapses_ms(&self) -> Option<u64> {
        if self.kind == Kind::Pool || self.holders.weight() >= self.kind.capacity() {
            return None;
        }
        let (_, waiter) = self.queue.head(None)?;
        self.queue.client_lapses_ms(waiter.client)
    }

    /// Returns whether any waiter is a program rather than a connection.
    pub fn is_waited_for_by_programs(&self) -> bool {
        self.queue.iter().any(|(_, waiter)| !waiter.client.is_connection())
    }

    /// Returns the owners that wait or hold only as long as their connection lasts, and whose
    /// connection has closed.
    pub fn cut_off(&self, mut is_open: impl FnMut(ClientId) -> bool) -> Vec<Owner> {
        let waiters = self.queue.iter().map(|(_, waiter)| (waiter.client, waiter.owner));
        let holders = self.holders.iter().filter(|holder| !holder.resting);
        let holders = holders.map(|holder| (holder.client, holder.owner));
        let waiting = waiters.filter(|(client, _)| client.is_connection());
        let bound = holders.filter(|(client, _)| client.is_bound());
        let gone = waiting.chain(bound).filter(|(client, _)| !is_open(*client));
        gone.map(|(_, owner)| owner).collect()
    }

    /// Estimates how many bytes it takes, from a sample of holders and waiters.
    pub fn memory(&self) -> usize {
        const LOOKS: usize = 64;
        const NUMBER: usize = size_of::<u64>();
        const OWNER: usize = size_of::<Owner>();
        let average = |total: usize, count: usize| total.checked_div(count).unwrap_or(0);
        let (holding, waiting) = (self.holders.len(), self.queue.len());
        let labels = self.holders.iter().take(LOOKS).map(|holder| holder.label.bytes()).sum();
        let holders = match holding {
            0 | 1 => holding * size_of::<Holder>(),
            _ => tree(OWNER + size_of::<Holder>(), holding),
        };
        let holders = holders + holding * average(labels, holding.min(LOOKS));
        let labels = self.queue.iter().take(LOOKS).map(|(_, waiter)| waiter.label.bytes()).sum();
        let places = tree(NUMBER + size_of::<Waiter>(), waiting);
        let places = places + waiting * average(labels, waiting.min(LOOKS));
        let by_owner = tree(OWNER + NUMBER, waiting);
        let lines = tree(NUMBER, waiting) + tree(6 * NUMBER, waiting.min(1));
        let clients = tree(NUMBER + size_of::<WaitingClient>(), self.queue.clients().count());
        let members = 2 * tree(4 * NUMBER, self.members.len());
        let tombs = tree(OWNER + NUMBER, self.tombs.iter().count());
        let work = if self.work.is_blank() { 0 } else { size_of::<WorkRecord>() };
        let done = self.work.done().map_or(0, |done| {
            size_of::<Completion>() + done.by.bytes() + done.result.as_str().len()
        });
        let queue = places + by_owner + lines + clients;
        size_of::<Self>() + holders + queue + members + tombs + work + done
    }

    /// Returns whether there is nothing to remember: the lock equals an unused one and need not be
    /// stored.
    pub fn is_blank(&self) -> bool {
        self.last_token == 0 && !self.in_use() && self.tombs.is_empty()
    }

    /// Records a refresh that was stored elsewhere: the client was there at `seen_ms`. As with all refreshes, this only
    /// extends the life of its places.
    pub fn record_refresh(&mut self, client: ClientId, waiter_lease_ms: u64, seen: Now) {
        self.queue.keep_alive(client, waiter_lease_ms, seen);
    }

    /// Returns whether this owner holds alone: a mutex, a once, as the writer of a read-write lock, or a member of a pool.
    pub fn is_held_alone_by(&self, owner: Owner) -> bool {
        self.holders.get(owner).is_some_and(|holder| match self.kind {
            Kind::Mutex | Kind::Once | Kind::Pool => true,
            Kind::RwLock => holder.ask == Ask::Write,
            // The tokens of its holders have no order in which a resource could compare them.
            Kind::Semaphore { .. } => false,
        })
    }

    /// Returns whether this owner has a place in the queue.
    pub fn is_waiting(&self, owner: Owner) -> bool {
        self.queue.place_of(owner).is_some()
    }

    /// Returns whether this client has a place in the queue.
    pub fn is_waited_for_by(&self, client: ClientId) -> bool {
        self.queue.client(client).is_some_and(|client| client.waiting > 0)
    }

    /// Returns whether the lock was handed to this client, which has not answered yet.
    pub fn has_handed_to(&self, client: ClientId) -> bool {
        self.queue.client(client).is_some_and(|client| !client.handed.is_empty())
    }

    /// Returns when, on the lease clock, the lock may be forgotten if nobody uses it until then.
    /// Never while a pool has members.
    pub fn forget_at_ms(&self) -> Option<u64> {
        if !self.members.is_empty() {
            return None;
        }
        // No waiter was seen later than the last step, so none outlives it by more than its waiter
        // lease.
        let waited_until = self.seen_ms.saturating_add(self.queue.patience_ms());
        let in_use_until = self.holders.ends().last_ms.max(waited_until);
        Some(in_use_until.saturating_add(limits::RETENTION_MS).max(self.work.kept_ms))
    }
}

/// Estimates how many bytes a tree of `count` entries takes: a node has room for eleven, and the
/// nodes of a large tree are a little more than half full.
fn tree(entry: usize, count: usize) -> usize {
    const ROOM: usize = 11;
    match count {
        0 => 0,
        1..=ROOM => ROOM * entry,
        _ => count * entry * 3 / 2,
    }
}
