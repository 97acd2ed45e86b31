//! What a run takes place on: a store, what may go wrong with it, and what must not be left of it.
//!
//! | file | engine |
//! |---|---|
//! | [`alone`] | one server: Redis, Valkey, or Redis with the module |
//! | [`sentinel`] | a master, two replicas, three sentinels |
//! | [`cluster`] | three masters with a replica each |
//! | [`quorum`] | five servers that know nothing of each other |
//! | [`mod@file`] | a file |

mod alone;
mod cluster;
mod file;
mod proxied;
mod quorum;
mod sentinel;
mod served;

use std::path::Path;
use std::time::Duration;

use taketurns_servers::Flavor;

use crate::faults::{Fallible, Fault};

/// A store and what may happen to it.
pub(crate) trait Stage: Sync {
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

    /// The environment of the client in this slot.
    fn env(&self, _slot: usize) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// What may go wrong.
    fn faults(&self) -> Vec<Fault<'_>>;

    /// What is left behind by clients that have ended, so many of them by being killed.
    fn left(&self, killed: usize) -> Vec<String>;
}

/// On what a run takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    File,
    Redis,
    Valkey,
    Sentinel,
    Cluster,
    Module,
    Quorum,
}

impl Engine {
    pub(crate) const ALL: [Self; 7] = [
        Self::File,
        Self::Redis,
        Self::Valkey,
        Self::Sentinel,
        Self::Cluster,
        Self::Module,
        Self::Quorum,
    ];

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
        }
    }

    /// Sets it up. Files that it needs are in the folder of the run.
    pub(crate) fn stage(self, folder: &Path) -> Fallible<Box<dyn Stage>> {
        Ok(match self {
            Self::File => Box::new(file::InFile::start(folder)?),
            Self::Redis => Box::new(alone::Alone::start(Flavor::Redis, false)?),
            Self::Valkey => Box::new(alone::Alone::start(Flavor::Valkey, false)?),
            Self::Module => Box::new(alone::Alone::start(Flavor::Redis, true)?),
            Self::Sentinel => Box::new(sentinel::Watched::start(Flavor::Redis)?),
            Self::Cluster => Box::new(cluster::Sharded::start(Flavor::Redis)?),
            Self::Quorum => Box::new(quorum::Nodes::start()?),
        })
    }
}
