//! The servers of one Redlock, and what foreign clients do there.

use std::time::Duration;

use taketurns::{Guard, Locks};
use taketurns_core::wire::Head;
use taketurns_servers::{Flavor, Server, eventually};

use crate::support::patience::soon;
use crate::support::reach::{quorum_url, reaches_all};

/// So long that a lock that was left behind is still held when a test gives up. So cleaning up can't be left to time.
pub(crate) const LONG_LEASE: Duration = Duration::from_secs(600);

/// What a foreign client's key holds.
const FOREIGN: &str = "a foreign client's";

/// The nodes.
pub(crate) struct Nodes {
    pub(crate) servers: Vec<Server>,
    max_lease: Duration,
}

impl Nodes {
    pub(crate) fn start(count: usize) -> Self {
        Self::with_max_lease(count, LONG_LEASE)
    }

    /// With leases of at most this, which is for how long a server that has forgotten is kept out.
    pub(crate) fn with_max_lease(count: usize, max_lease: Duration) -> Self {
        let flavors = [Flavor::Redis, Flavor::Valkey].into_iter().cycle().take(count);
        let servers = flavors.map(|flavor| Server::start(flavor).expect("a server")).collect();
        Self { servers, max_lease }
    }

    /// The nodes at these addresses.
    pub(crate) fn url_of<A: AsRef<str>>(&self, addresses: impl IntoIterator<Item = A>) -> String {
        let seconds = self.max_lease.as_secs();
        quorum_url(addresses, &format!("protocol=plain&unfenced=ok&max_lease={seconds}"))
    }

    pub(crate) fn url(&self) -> String {
        self.url_of(self.servers.iter().map(Server::url))
    }

    /// A client that reaches all of them.
    pub(crate) async fn connect(&self) -> Locks {
        let locks = connect(&self.url()).await;
        reaches_all(&locks, &self.servers).await;
        locks
    }

    /// A foreign client takes the lock on one node.
    pub(crate) fn takes(&self, node: usize, lock: &str) {
        let set = self.servers[node].cli(&["SET", lock, FOREIGN, "NX", "PX", "600000"]);
        assert!(set.is_ok(), "{lock} is free on node {node}");
    }

    pub(crate) fn gives_back(&self, node: usize, lock: &str) {
        assert_eq!(self.servers[node].cli(&["DEL", lock]).int(), Some(1), "{lock} on node {node}");
    }

    /// What stands at the key of a lock.
    pub(crate) fn value(&self, node: usize, lock: &str) -> Option<String> {
        self.servers[node].cli(&["GET", lock]).text().map(str::to_owned)
    }

    /// Has a foreign client the lock there?
    pub(crate) fn is_foreign(&self, node: usize, lock: &str) -> bool {
        self.value(node, lock).as_deref() == Some(FOREIGN)
    }

    /// A client that holds the lock on all of them.
    pub(crate) async fn held_by_all(&self, lock: &str, lease: Duration) -> (Locks, Guard) {
        let locks = self.connect().await;
        let acquire = locks.mutex(lock).acquire().lease(lease);
        let guard = soon("an acquire", acquire).await.expect("free");
        let all = self.servers.len();
        eventually("all have it", || (self.ours(lock) == all).then_some(())).expect("so");
        (locks, guard)
    }

    /// On how many nodes it is ours.
    pub(crate) fn ours(&self, lock: &str) -> usize {
        let is_ours =
            |node: &usize| self.value(*node, lock).is_some() && !self.is_foreign(*node, lock);
        (0..self.servers.len()).filter(is_ours).count()
    }

    /// Nothing of ours is left there, neither at the foreign client's key nor in our own.
    #[track_caller]
    pub(crate) fn nothing_is_left_on(&self, node: usize, lock: &str) {
        let (server, key) = (&self.servers[node], format!("tt:{lock}"));
        let ours = || self.value(node, lock).filter(|_| !self.is_foreign(node, lock));
        let holders = || {
            let stored = server.cli(&["HGET", &key, Head::FIELD]);
            stored.bytes().map_or(0, |stored| Head::parse(stored).expect("a head").0.holders)
        };
        let is_clean = || ours().is_none() && holders() == 0;
        if eventually("nothing is left", || is_clean().then_some(())).is_err() {
            let all = server.cli(&["HGETALL", &key]);
            panic!("node {node} has {:?} at {lock} and {all:?}", ours());
        }
    }

    /// Nothing of ours is left on any node.
    #[track_caller]
    pub(crate) fn nothing_is_left(&self, lock: &str) {
        (0..self.servers.len()).for_each(|node| self.nothing_is_left_on(node, lock));
    }
}

pub(crate) async fn connect(url: &str) -> Locks {
    soon("connecting", taketurns::connect(url)).await.expect("a store")
}
