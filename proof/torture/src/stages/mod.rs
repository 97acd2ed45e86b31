//! The stores that are tortured: how each is started, what may go wrong with it, and what must not be left of it.
//!
//! To add a fault, add an entry to a list of faults in one of these files: [`faults`](crate::faults) shows how.
//!
//! | file | store |
//! |---|---|
//! | [`single`] | one server: Redis, Valkey, or Redis with the module |
//! | [`sentinel`] | a master, two replicas, three sentinels |
//! | [`cluster`] | three masters with a replica each |
//! | [`quorum`] | five servers that know nothing of each other |
//! | [`postgres`] | one PostgreSQL |
//! | [`postgres_pair`] | a PostgreSQL with a synchronous standby |
//! | [`mod@file`] | a file |
//! | [`network`] | faults between clients and a server, for every store behind a proxy |
//! | [`servers`] | what the stores with servers share: commands, and what may be left on a server |
//! | [`postgres_faults`] | the same of PostgreSQL |

mod cluster;
mod file;
mod network;
mod postgres;
mod postgres_faults;
mod postgres_pair;
mod quorum;
mod sentinel;
mod servers;
mod single;

use std::path::Path;
use std::time::Duration;

use taketurns_servers::Flavor;

use crate::faults::{Fallible, StoreFault};

/// A store and what may happen to it.
pub(crate) trait TortureStage: Sync {
    /// What clients connect to.
    fn url(&self) -> String;

    /// Are there only mutexes?
    fn only_mutexes(&self) -> bool {
        false
    }

    /// For how long somebody has waited when its place is final.
    fn placed_after(&self) -> Duration {
        Duration::ZERO
    }

    /// May a client that is stopped in the middle of a step hold up the steps of all others?
    fn stopped_client_blocks(&self) -> bool {
        false
    }

    /// The environment of the client in this slot.
    fn env(&self, _slot: usize) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// What may go wrong.
    fn faults(&self) -> Vec<StoreFault<'_>>;

    /// Returns what clients left behind that have ended, `killed` of them by SIGKILL.
    fn left(&self, killed: usize) -> Vec<String>;
}

/// On what a run takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TortureEngine {
    File,
    Redis,
    Valkey,
    Sentinel,
    Cluster,
    Module,
    Quorum,
    Postgres,
    PostgresPair,
}

impl TortureEngine {
    pub(crate) const ALL: [Self; 9] = [
        Self::File,
        Self::Redis,
        Self::Valkey,
        Self::Sentinel,
        Self::Cluster,
        Self::Module,
        Self::Quorum,
        Self::Postgres,
        Self::PostgresPair,
    ];

    /// May a disk of its own be mounted for it?
    pub(crate) fn wants_disk(self) -> bool {
        matches!(self, Self::File | Self::Postgres)
    }

    /// What it is called on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Redis => "redis",
            Self::Valkey => "valkey",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
            Self::Module => "module",
            Self::Quorum => "quorum",
            Self::Postgres => "postgres",
            Self::PostgresPair => "postgres-pair",
        }
    }

    /// Sets it up. Files that it needs are in the folder of the run.
    pub(crate) fn stage(self, folder: &Path) -> Fallible<Box<dyn TortureStage>> {
        Ok(match self {
            Self::File => Box::new(file::FileStage::start(folder)?),
            Self::Redis => Box::new(single::SingleServerStage::start(Flavor::Redis, false)?),
            Self::Valkey => Box::new(single::SingleServerStage::start(Flavor::Valkey, false)?),
            Self::Module => Box::new(single::SingleServerStage::start(Flavor::Redis, true)?),
            Self::Sentinel => Box::new(sentinel::SentinelStage::start(Flavor::Redis)?),
            Self::Cluster => Box::new(cluster::ClusterStage::start(Flavor::Redis)?),
            Self::Quorum => Box::new(quorum::QuorumStage::start()?),
            Self::Postgres => Box::new(postgres::PostgresStage::start()?),
            Self::PostgresPair => Box::new(postgres_pair::PostgresPairStage::start()?),
        })
    }
}
