//! The servers of one quorum, each also as a store of its own.

use std::time::Duration;

use taketurns::{Connect, Locks, View};
use taketurns_servers::{Builder, Flavor, PATIENCE, Server, module_path};

use crate::support::reach::{quorum_url, reaches_all};

/// So long that a lock that was left behind is still held when a test gives up. So cleaning up can't be left to time.
pub(crate) const LONG_LEASE: Duration = Duration::from_secs(600);
const LONG_WAITER_LEASE: Duration = Duration::from_secs(60);

/// What a node runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Our scripts.
    Scripts(Flavor),
    /// Our module.
    Module(Flavor),
}

/// One server after the other has the module, and every other pair is of another flavor.
pub(crate) const MIXED: [Kind; 4] = [
    Kind::Scripts(Flavor::Redis),
    Kind::Module(Flavor::Valkey),
    Kind::Scripts(Flavor::Valkey),
    Kind::Module(Flavor::Redis),
];

impl Kind {
    pub(crate) fn builder(self) -> Builder {
        match self {
            Kind::Scripts(flavor) => Server::builder(flavor),
            Kind::Module(flavor) => {
                Server::builder(flavor).module(&module_path().expect("the module was built"), &[])
            }
        }
    }
}

/// The nodes of one quorum.
pub(crate) struct Nodes {
    pub(crate) servers: Vec<Server>,
    max_lease: Duration,
}

impl Nodes {
    /// Starts this many servers, of all kinds by turns.
    pub(crate) fn start(count: usize) -> Self {
        Self::with(count, LONG_LEASE, Kind::builder)
    }

    /// With leases of at most this, which is for how long a server that has forgotten is kept out.
    pub(crate) fn with_max_lease(count: usize, max_lease: Duration) -> Self {
        Self::with(count, max_lease, Kind::builder)
    }

    pub(crate) fn with(
        count: usize,
        max_lease: Duration,
        mut builder: impl FnMut(Kind) -> Builder,
    ) -> Self {
        let kinds = MIXED.into_iter().cycle().take(count);
        let start = |kind| builder(kind).start().expect("a server");
        Self { servers: kinds.map(start).collect(), max_lease }
    }

    fn options(&self) -> String {
        format!("max_lease={}", self.max_lease.as_secs())
    }

    /// A server's URL as a node's, or by itself.
    pub(crate) fn node_url(&self, address: &str) -> String {
        format!("{address}?{}", self.options())
    }

    /// The quorum of the nodes at these addresses.
    pub(crate) fn url_of<A: AsRef<str>>(&self, addresses: impl IntoIterator<Item = A>) -> String {
        quorum_url(addresses, &self.options())
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

    /// A client whose places outlast every test.
    pub(crate) async fn connect_for_long(&self) -> Locks {
        let connect = Connect::new(&self.url()).waiter_lease(LONG_WAITER_LEASE);
        let locks = connect.open().await.expect("a store");
        reaches_all(&locks, &self.servers).await;
        locks
    }

    /// A client of one node alone.
    pub(crate) async fn direct(&self, node: usize) -> Locks {
        connect(&self.node_url(&self.servers[node].url())).await
    }

    /// Clients of each node alone.
    pub(crate) async fn each(&self) -> Vec<Locks> {
        let mut clients = Vec::new();
        for node in 0..self.servers.len() {
            clients.push(self.direct(node).await);
        }
        clients
    }
}

pub(crate) async fn connect(url: &str) -> Locks {
    taketurns::connect(url).await.expect("a store")
}

/// Asks about a lock until what is seen is as it should be.
pub(crate) async fn seen(
    what: &str,
    locks: &Locks,
    lock: &str,
    is_so: impl Fn(&View) -> bool,
) -> View {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let view = locks.inspect(lock).await.expect("the store answers").unwrap_or_default();
        if is_so(&view) {
            return view;
        }
        assert!(tokio::time::Instant::now() < deadline, "this never came: {what}, but {view:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Nobody holds it and nobody waits for it, on each of these nodes.
pub(crate) async fn nothing_is_left(nodes: &[Locks], lock: &str) {
    for node in nodes {
        seen("nothing is left", node, lock, |view| view.holders.is_empty() && view.waiting == 0)
            .await;
    }
}
