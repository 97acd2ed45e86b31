//! Read-only questions about a lock, for the engine that keeps it: how many hold and wait, when a tick is due,
//! how much memory it takes, when it may be forgotten.

use super::Lock;
use super::holders::Holder;
use super::queue::{Waiter, WaitingClient};
use crate::{ClientId, Kind, Owner, limits};

impl Lock {
    /// How many hold it, also those whose lease is over since the last step.
    pub fn holding(&self) -> usize {
        self.holders.len()
    }

    /// Which client keeps what this owner holds.
    pub fn kept_by(&self, owner: Owner) -> Option<ClientId> {
        self.holders.get(owner).map(|holder| holder.client)
    }

    /// How many wait, dead or alive.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// When time alone will change something for those who wait: then a [`crate::Request::Tick`] is due.
    pub fn due_ms(&self) -> Option<u64> {
        if self.queue.is_empty() {
            return None;
        }
        let quarantine = Some(self.quarantine_until_ms).filter(|until| *until > self.seen_ms);
        quarantine.or_else(|| {
            self.holders.first_deadline_ms().into_iter().chain(self.head_lapses_ms()).min()
        })
    }

    /// When the head of the line lapses, if it asks for more than is free: until then it holds up
    /// those behind it.
    fn head_lapses_ms(&self) -> Option<u64> {
        if self.kind == Kind::Pool || self.holders.weight() >= self.kind.capacity() {
            return None;
        }
        let (_, waiter) = self.queue.head(None)?;
        self.queue.client_lapses_ms(waiter.client)
    }

    /// Does anybody wait who is no connection, but a program?
    pub fn is_waited_for_by_programs(&self) -> bool {
        self.queue.iter().any(|(_, waiter)| !waiter.client.is_connection())
    }

    /// Those who wait or hold for only as long as a connection lasts, and whose connection is not
    /// open any more.
    pub fn cut_off(&self, mut is_open: impl FnMut(ClientId) -> bool) -> Vec<Owner> {
        let waiters = self.queue.iter().map(|(_, waiter)| (waiter.client, waiter.owner));
        let holders = self.holders.iter().map(|holder| (holder.client, holder.owner));
        let waiting = waiters.filter(|(client, _)| client.is_connection());
        let bound = holders.filter(|(client, _)| client.is_bound());
        let gone = waiting.chain(bound).filter(|(client, _)| !is_open(*client));
        gone.map(|(_, owner)| owner).collect()
    }

    /// About how many bytes it takes, from a look at some of those who hold and wait.
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
        size_of::<Self>() + holders + places + by_owner + lines + clients + members + tombs
    }

    /// Is there nothing to remember? As good as a lock that nobody has used, and need not be stored.
    pub fn is_blank(&self) -> bool {
        self.last_token == 0 && !self.in_use() && self.tombs.is_empty()
    }

    /// Does this client have a place in the queue?
    pub fn is_waited_for_by(&self, client: ClientId) -> bool {
        self.queue.client(client).is_some_and(|client| client.waiting > 0)
    }

    /// Was the lock handed to this client, and has it not answered yet?
    pub fn has_handed_to(&self, client: ClientId) -> bool {
        self.queue.client(client).is_some_and(|client| !client.handed.is_empty())
    }

    /// When the lock may be forgotten if nobody touches it until then, on the lease clock. Never
    /// while a pool has members.
    pub fn forget_at_ms(&self) -> Option<u64> {
        if !self.members.is_empty() {
            return None;
        }
        // No waiter was seen later than the last step, and none has a longer lease than the longest.
        let patience_ms = if self.queue.is_empty() { 0 } else { limits::LEASE_MS_MAX };
        let waited_until = self.seen_ms.saturating_add(patience_ms);
        let in_use_until = self.holders.ends().last_ms.max(waited_until);
        Some(in_use_until.saturating_add(limits::RETENTION_MS))
    }
}

/// About how many bytes a tree of so many entries takes: its nodes have room for eleven, and those of
/// a large one are filled by little more than half.
fn tree(entry: usize, count: usize) -> usize {
    const ROOM: usize = 11;
    match count {
        0 => 0,
        1..=ROOM => ROOM * entry,
        _ => count * entry * 3 / 2,
    }
}
