//! Three masters that share the slots, each with a replica if asked, put together command by
//! command.
//!
//! ```text
//!   nodes[0..3]   masters of   0..=5461   5462..=10923   10924..=16383
//!   nodes[3..6]   their replicas, in the same order, if asked
//!   the last      a master without slots, if asked
//! ```
//!
//! A slot moves to another master in three steps, and a test may do something between any two of
//! them: [`Cluster::begin_migration`], [`Cluster::move_keys`], [`Cluster::finish_migration`].

use std::path::Path;

use crate::patience::settled;
use crate::slots::{SLOTS, slot_of};
use crate::{Builder, Flavor, Server, ServerReply, SetupError};

const MASTERS: usize = 3;

/// Builds a [`Cluster`].
#[derive(Clone, Debug)]
pub struct ClusterBuilder {
    node: Builder,
    replicas: bool,
    spare: bool,
}

impl ClusterBuilder {
    /// Has every master a replica, which takes over when it is gone? Default: no.
    pub fn replicas(mut self, replicas: bool) -> Self {
        self.replicas = replicas;
        self
    }

    /// Is there a master more, the last of the nodes, which has no slots until one is moved to it?
    /// Default: no.
    pub fn spare(mut self, spare: bool) -> Self {
        self.spare = spare;
        self
    }

    /// Arguments for the command line of every node.
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.node = self.node.args(args);
        self
    }

    /// A module for every node, the spare one too: see [`Builder::module`].
    pub fn module(mut self, path: &Path, args: &[&str]) -> Self {
        self.node = self.node.module(path, args);
        self
    }

    /// Starts the nodes, puts them together, and returns when each says that the cluster is whole.
    ///
    /// # Errors
    ///
    /// [`SetupError::Missing`] if the server is not installed.
    pub fn start(self) -> Result<Cluster, SetupError> {
        let replicas = if self.replicas { MASTERS } else { 0 };
        let count = MASTERS + replicas + usize::from(self.spare);
        let start = |_| self.node.clone().start();
        let nodes: Vec<Server> = (0..count).map(start).collect::<Result<_, _>>()?;
        let cluster = Cluster { nodes };
        cluster.assemble(replicas)?;
        Ok(cluster)
    }
}

/// A running cluster. Dropping it ends all nodes.
#[derive(Debug)]
pub struct Cluster {
    /// The masters, then their replicas, then the spare one.
    pub nodes: Vec<Server>,
}

/// A slot on its way from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The slot.
    pub slot: u16,
    /// The index of the node that has it.
    pub from: usize,
    /// The index of the node that gets it.
    pub to: usize,
}

impl Cluster {
    /// Starts three masters without replicas.
    ///
    /// # Errors
    ///
    /// [`SetupError::Missing`] if the server is not installed.
    pub fn start(flavor: Flavor) -> Result<Self, SetupError> {
        Self::builder(flavor).start()
    }

    /// Builds one to measure.
    pub fn builder(flavor: Flavor) -> ClusterBuilder {
        let node = Server::builder(flavor).cluster();
        ClusterBuilder { node, replicas: false, spare: false }
    }

    /// `redis+cluster://` with the addresses of the first three nodes.
    pub fn url(&self) -> String {
        let nodes = self.nodes[..MASTERS].iter();
        let addresses: Vec<String> = nodes.map(|node| node.addr().to_string()).collect();
        format!("redis+cluster://{}", addresses.join(","))
    }

    /// The slot of a key: see [`slot_of`].
    pub fn slot_of(&self, key: impl AsRef<[u8]>) -> u16 {
        slot_of(key)
    }

    /// The index of the node that says the slot is its own. Of several, which happens when one came
    /// back and has not heard yet what went on, it is the one with the newest claim.
    ///
    /// # Errors
    ///
    /// [`SetupError::NoneAnswers`] if none says so.
    pub fn owner_of(&self, slot: u16) -> Result<usize, SetupError> {
        let claims = self.nodes.iter().enumerate().filter_map(|(index, node)| {
            let own = ClusterView::of(node)?.own()?;
            own.has(slot).then_some((own.epoch, index))
        });
        claims.max().map(|(_, index)| index).ok_or(SetupError::NoneAnswers("owner of the slot"))
    }

    /// Moves a slot and its keys to another master.
    ///
    /// # Errors
    ///
    /// If a node can't be reached.
    pub fn migrate(&self, slot: u16, to: usize) -> Result<(), SetupError> {
        let migration = self.begin_migration(slot, to)?;
        self.move_keys(migration)?;
        self.finish_migration(migration)
    }

    /// Tells both masters that the slot is to move. From now on the old one sends clients that ask
    /// for a key it does not have to the new one, with ASK.
    ///
    /// # Errors
    ///
    /// If a node can't be reached, or has the slot already.
    pub fn begin_migration(&self, slot: u16, to: usize) -> Result<Migration, SetupError> {
        let from = self.owner_of(slot)?;
        let number = slot.to_string();
        let setslot = ["CLUSTER", "SETSLOT", &number];
        let [source, target] = [self.id_of(from)?, self.id_of(to)?];
        // In this order, or a client might be sent to one that does not know of it.
        self.nodes[to].must(&[&setslot[..], &["IMPORTING", &source]].concat())?;
        self.nodes[from].must(&[&setslot[..], &["MIGRATING", &target]].concat())?;
        Ok(Migration { slot, from, to })
    }

    /// Moves the keys that are in the slot now, and says how many they were.
    ///
    /// # Errors
    ///
    /// If a node can't be reached.
    pub fn move_keys(&self, migration: Migration) -> Result<usize, SetupError> {
        let source = &self.nodes[migration.from];
        let slot = migration.slot.to_string();
        let port = self.nodes[migration.to].port().to_string();
        let mut moved = 0;
        loop {
            let reply = source.must(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"])?;
            let keys: Vec<&[u8]> =
                reply.array().unwrap_or_default().iter().filter_map(ServerReply::bytes).collect();
            if keys.is_empty() {
                return Ok(moved);
            }
            moved += keys.len();
            let words = ["MIGRATE", "127.0.0.1", &port, "", "0", "30000", "KEYS"];
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).chain(keys).collect();
            if let ServerReply::Error(reply) = source.connect()?.command(&words)? {
                return Err(SetupError::Refused { command: format!("MIGRATE {slot}"), reply });
            }
        }
    }

    /// Makes the slot the new master's, and waits until all nodes that run know it.
    ///
    /// # Errors
    ///
    /// If a node can't be reached, or keys are left at the old one.
    pub fn finish_migration(&self, migration: Migration) -> Result<(), SetupError> {
        let Migration { slot, from, to } = migration;
        let number = slot.to_string();
        let target = self.id_of(to)?;
        // The new owner first: if the old one gave it up before, it would be nobody's.
        for index in [to, from] {
            self.nodes[index].must(&["CLUSTER", "SETSLOT", &number, "NODE", &target])?;
        }
        self.all_agree("the new owner of a slot", |view| {
            view.0.iter().any(|node| node.id == target && node.has(slot))
        })
    }

    fn assemble(&self, replicas: usize) -> Result<(), SetupError> {
        let share = SLOTS.div_ceil(MASTERS as u16);
        for (index, node) in self.nodes.iter().enumerate() {
            // Each its own, or they would have to find out who is the newest.
            node.must(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?;
            if index < MASTERS {
                let first = share * index as u16;
                let last = (first + share).min(SLOTS) - 1;
                let range = [first.to_string(), last.to_string()];
                node.must(&["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]])?;
            }
        }
        let count = self.nodes.len();
        self.introduce(count)?;
        self.all_agree("the nodes have met", |view| {
            view.0.len() == count && view.0.iter().all(|node| node.linked)
        })?;
        for (index, replica) in self.nodes.iter().enumerate().skip(MASTERS).take(replicas) {
            replica.must(&["CLUSTER", "REPLICATE", &self.id_of(index - MASTERS)?])?;
        }
        self.all_agree("all know who is who", |view| {
            let slots: u16 = view.0.iter().map(ClusterNode::count).sum();
            let masters = view.0.iter().filter(|node| node.master).count();
            slots == SLOTS && masters == count - replicas
        })?;
        for node in &self.nodes {
            settled("a node finds the cluster whole", || {
                let reply =
                    node.try_cli(&["CLUSTER", "INFO"]).map_err(|error| error.to_string())?;
                let info = crate::stats::info(reply.text().unwrap_or_default());
                let replication = node.info("replication");
                let linked = replication.get("master_link_status").is_none_or(|link| link == "up");
                let whole = info.get("cluster_state").is_some_and(|state| state == "ok");
                if whole && linked { Ok(()) } else { Err(format!("{info:?}, {replication:?}")) }
            })?;
        }
        Ok(())
    }

    fn id_of(&self, index: usize) -> Result<String, SetupError> {
        let reply = self.nodes[index].must(&["CLUSTER", "MYID"])?;
        Ok(reply.text().unwrap_or_default().to_owned())
    }

    /// Waits until what every node that runs sees of the cluster is as it should be.
    /// Introduces the nodes to each other. A node forgets a handshake that takes longer than the node timeout, a second, as
    /// it may on a busy machine. So each node that knows too few others is introduced again.
    fn introduce(&self, count: usize) -> Result<(), SetupError> {
        settled("all nodes have heard of each other", || {
            let mut alone = Vec::new();
            for node in &self.nodes {
                let view = ClusterView::of(node).ok_or("a node does not answer")?;
                if view.0.len() < count {
                    alone.push(node.port().to_string());
                }
            }
            for port in &alone {
                self.nodes[0]
                    .must(&["CLUSTER", "MEET", "127.0.0.1", port])
                    .map_err(|why| why.to_string())?;
            }
            if alone.is_empty() {
                Ok(())
            } else {
                Err(format!("the nodes at {alone:?} know too few"))
            }
        })
    }

    fn all_agree(
        &self,
        what: &str,
        is_so: impl Fn(&ClusterView) -> bool,
    ) -> Result<(), SetupError> {
        for node in self.nodes.iter().filter(|node| node.is_running()) {
            settled(what, || {
                let view = ClusterView::of(node).ok_or("a node does not answer")?;
                if is_so(&view) { Ok(()) } else { Err(format!("a node sees {view:?}")) }
            })?;
        }
        Ok(())
    }
}

/// The cluster as one node sees it.
#[derive(Debug)]
struct ClusterView(Vec<ClusterNode>);

/// A line of `CLUSTER NODES`.
#[derive(Debug)]
struct ClusterNode {
    id: String,
    myself: bool,
    master: bool,
    linked: bool,
    epoch: u64,
    ranges: Vec<(u16, u16)>,
}

impl ClusterView {
    fn of(node: &Server) -> Option<Self> {
        // A paused one takes the question and never answers.
        let reply = node.is_running().then(|| node.try_cli(&["CLUSTER", "NODES"]))?.ok()?;
        Some(Self(reply.text()?.lines().filter_map(ClusterNode::parse).collect()))
    }

    fn own(self) -> Option<ClusterNode> {
        self.0.into_iter().find(|node| node.myself)
    }
}

impl ClusterNode {
    /// `id address flags master ping pong epoch link slot...`; a slot on its way is in brackets.
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let flags: Vec<&str> = words.get(2)?.split(',').collect();
        let range = |word: &&str| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        Some(Self {
            id: (*words.first()?).to_owned(),
            myself: flags.contains(&"myself"),
            master: flags.contains(&"master"),
            linked: flags.contains(&"myself")
                || (words.get(7) == Some(&"connected") && !flags.contains(&"handshake")),
            epoch: words.get(6)?.parse().ok()?,
            ranges: words.iter().skip(8).filter_map(range).collect(),
        })
    }

    fn has(&self, slot: u16) -> bool {
        self.ranges.iter().any(|&(first, last)| (first..=last).contains(&slot))
    }

    fn count(&self) -> u16 {
        self.ranges.iter().map(|(first, last)| last - first + 1).sum()
    }
}
