//! A master, its replicas and three sentinels that choose another master when it is gone.
//!
//! ```text
//!   sentinels[0..3]  ──watch──▶  servers[0] (master) ◀──replicate── servers[1..]
//! ```
//!
//! Replicas log in at the master as a user of their own. To cut them off, that user is locked out
//! at the master and its connections are closed there: no byte that is written afterwards reaches
//! them, while clients and sentinels notice nothing. A proxy between them would not do, since
//! Sentinel points a replica that follows an address it does not know back to the one it does.

use std::path::Path;

use crate::patience::{eventually, settled};
use crate::{Builder, Flavor, Server, ServerReply, SetupError};

/// The name by which sentinels know the master.
pub const MASTER_NAME: &str = "turns";

/// How many of them there are: two agree that the master is gone.
const SENTINELS: usize = 3;

/// The user that replicas log in as, and what it needs.
const REPLICATION_USER: &str = "follower on >follow +psync +replconf +ping";

/// Of the master.
const SENTINEL_SETTINGS: [&str; 2] =
    ["down-after-milliseconds turns 500", "failover-timeout turns 3000"];

/// Builds a [`ReplicaSet`] set.
#[derive(Clone, Debug)]
pub struct ReplicaSetBuilder {
    server: Builder,
    replicas: usize,
    min_replicas: bool,
}

impl ReplicaSetBuilder {
    /// How many replicas the master has. Default: 2.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Does a master refuse writes while no replica was heard of for a second? Default: no.
    /// (`min-replicas-to-write 1` and `min-replicas-max-lag 1`, on all servers.)
    pub fn min_replicas(mut self, min_replicas: bool) -> Self {
        self.min_replicas = min_replicas;
        self
    }

    /// Arguments for the command line of every server, but not of the sentinels.
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.server = self.server.args(args);
        self
    }

    /// A module for every server, but not for the sentinels: see [`Builder::module`].
    pub fn module(mut self, path: &Path, args: &[&str]) -> Self {
        self.server = self.server.module(path, args);
        self
    }

    /// Starts all of them, and returns when every sentinel knows every other and every replica, and
    /// all replicas follow the master.
    ///
    /// # Errors
    ///
    /// [`SetupError::Missing`] if the server is not installed.
    pub fn start(self) -> Result<ReplicaSet, SetupError> {
        let master = self.server().start()?;
        let mut servers = vec![master];
        for _ in 0..self.replicas {
            servers.push(self.server().replica_of(servers[0].port()).start()?);
        }
        let port = servers[0].port();
        let mut set = ReplicaSet { servers, sentinels: Vec::new() };
        // A sentinel asks only every ten seconds who the replicas are: let it find them at once.
        for replica in &set.servers[1..] {
            set.follows(replica, port)?;
        }
        for _ in 0..SENTINELS {
            set.sentinels.push(sentinel(self.server.flavor, port)?);
        }
        for sentinel in &set.sentinels {
            set.is_known_to(sentinel)?;
        }
        Ok(set)
    }

    fn server(&self) -> Builder {
        let mut builder = self
            .server
            .clone()
            .acl_user(REPLICATION_USER)
            .line("masteruser follower")
            .line("masterauth follow");
        if self.min_replicas {
            builder = builder.line("min-replicas-to-write 1").line("min-replicas-max-lag 1");
        }
        builder
    }
}

fn sentinel(flavor: Flavor, master: u16) -> Result<Server, SetupError> {
    // A new link is first asked for a sign of life after this period. With the usual second and
    // half a second to be taken for dead, every new master would be deposed at once. Much less, and
    // what is known of the replicas, asked for every second, would be too old to choose one.
    let ping = ["PING-PERIOD", "300"];
    // They find each other sooner, and a machine that stood still for two seconds does not make
    // them look on for thirty.
    let others = ["PUBLISH-PERIOD", "200", "INFO-PERIOD", "500", "TILT-TRIGGER", "600000"];
    Builder::sentinel(flavor, MASTER_NAME, master, &SENTINEL_SETTINGS)
        .at_start(&[&["SENTINEL", "DEBUG"][..], &ping, &others].concat())
        .start()
}

/// A running set. Dropping it ends all of it.
#[derive(Debug)]
pub struct ReplicaSet {
    /// The first was started as the master; who it is now, [`ReplicaSet::master`] knows.
    pub servers: Vec<Server>,
    /// Three of them.
    pub sentinels: Vec<Server>,
}

impl ReplicaSet {
    /// Starts a master with two replicas.
    ///
    /// # Errors
    ///
    /// [`SetupError::Missing`] if the server is not installed.
    pub fn start(flavor: Flavor) -> Result<Self, SetupError> {
        Self::builder(flavor).start()
    }

    /// Builds one to measure.
    pub fn builder(flavor: Flavor) -> ReplicaSetBuilder {
        let server = Server::builder(flavor);
        ReplicaSetBuilder { server, replicas: 2, min_replicas: false }
    }

    /// `redis+sentinel://` with the addresses of the sentinels and the master's name.
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.sentinels.iter().map(|s| s.addr().to_string()).collect();
        format!("redis+sentinel://{}/{MASTER_NAME}", addresses.join(","))
    }

    /// Who is the master, according to the first sentinel that answers. During a fail-over they may
    /// disagree for a moment.
    ///
    /// # Errors
    ///
    /// [`SetupError::NoneAnswers`] if no sentinel does.
    pub fn master(&self) -> Result<&Server, SetupError> {
        self.sentinels
            .iter()
            .filter(|sentinel| sentinel.is_running())
            .find_map(|sentinel| self.master_by(sentinel))
            .ok_or(SetupError::NoneAnswers("sentinel"))
    }

    /// Who follows the master or should, in the order of [`ReplicaSet::servers`].
    ///
    /// # Errors
    ///
    /// [`SetupError::NoneAnswers`] if no sentinel does.
    pub fn replicas(&self) -> Result<Vec<&Server>, SetupError> {
        let master = self.master()?.port();
        Ok(self.servers.iter().filter(|server| server.port() != master).collect())
    }

    /// Cuts the replicas off from the master, with all that is written from now on. They stay stale
    /// until [`ReplicaSet::mend_replication`], or until one of them becomes the master.
    ///
    /// Sentinel promotes no replica that was cut off for five seconds more than the master is down:
    /// to see a fail-over, kill the master soon.
    ///
    /// # Errors
    ///
    /// If the master can't be reached.
    pub fn cut_replication(&self) -> Result<(), SetupError> {
        let master = self.master()?;
        master.must(&["ACL", "SETUSER", "follower", "off"])?;
        master.must(&["CLIENT", "KILL", "TYPE", "replica"])?;
        eventually("the master has no replica any more", || {
            (master.info("replication").get("connected_slaves")? == "0").then_some(())
        })?;
        for replica in self.replicas()?.into_iter().filter(|replica| replica.is_running()) {
            eventually("a replica notices that it is cut off", || {
                (replica.info("replication").get("master_link_status")? == "down").then_some(())
            })?;
        }
        Ok(())
    }

    /// Lets the replicas follow the master again, and waits until they do.
    ///
    /// # Errors
    ///
    /// If the master can't be reached.
    pub fn mend_replication(&self) -> Result<(), SetupError> {
        let master = self.master()?;
        master.must(&["ACL", "SETUSER", "follower", "on"])?;
        for replica in self.replicas()?.into_iter().filter(|replica| replica.is_running()) {
            self.follows(replica, master.port())?;
        }
        Ok(())
    }

    /// Waits until all sentinels that run name the same master, another than `old`, and it acts as
    /// one.
    ///
    /// # Errors
    ///
    /// [`SetupError::Patience`] if they do not.
    pub fn failed_over(&self, old: &Server) -> Result<&Server, SetupError> {
        settled("the sentinels agree on another master", || {
            let running = self.sentinels.iter().filter(|sentinel| sentinel.is_running());
            let named: Vec<Option<&Server>> = running.map(|s| self.master_by(s)).collect();
            let first = named.first().copied().flatten();
            let ports = || named.iter().map(|server| server.map(Server::port));
            let new = first
                .filter(|new| new.port() != old.port())
                .filter(|new| ports().all(|port| port == Some(new.port())))
                .ok_or_else(|| format!("they name {:?}", ports().collect::<Vec<_>>()))?;
            let role = new.info("replication").remove("role").unwrap_or_default();
            if role == "master" { Ok(new) } else { Err(format!("it is a {role}")) }
        })
    }

    fn master_by(&self, sentinel: &Server) -> Option<&Server> {
        let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER_NAME];
        let reply = sentinel.try_cli(&words).ok()?;
        let port = reply.array()?.get(1)?.text()?.parse::<u16>().ok()?;
        self.servers.iter().find(|server| server.port() == port)
    }

    fn follows(&self, replica: &Server, master: u16) -> Result<(), SetupError> {
        settled("a replica follows the master", || {
            let info = replica.info("replication");
            let is = |name: &str, value: &str| info.get(name).is_some_and(|is| is == value);
            let up = is("master_link_status", "up") && is("master_port", &master.to_string());
            if up { Ok(()) } else { Err(format!("{info:?}")) }
        })
    }

    fn is_known_to(&self, sentinel: &Server) -> Result<(), SetupError> {
        let replicas = (self.servers.len() - 1).to_string();
        let others = (SENTINELS - 1).to_string();
        settled("a sentinel knows all others", || {
            let master = sentinel.try_cli(&["SENTINEL", "MASTER", MASTER_NAME]);
            let master = master.map_err(|error| error.to_string())?;
            let field =
                |name: &str| master.field(name).and_then(ServerReply::text).unwrap_or_default();
            let all = field("flags") == "master"
                && field("num-slaves") == replicas
                && field("num-other-sentinels") == others;
            let list = sentinel.try_cli(&["SENTINEL", "REPLICAS", MASTER_NAME]);
            let list = list.map_err(|error| error.to_string())?;
            let linked = list.array().unwrap_or_default().iter().all(|replica| {
                let is = |name: &str, value: &str| {
                    replica.field(name).and_then(ServerReply::text) == Some(value)
                };
                is("flags", "slave") && is("master-link-status", "ok")
            });
            if all && linked { Ok(()) } else { Err(format!("it says {master}, {list}")) }
        })
    }
}
