//! [`Stage`]: a store with an agent of each language, and a client of our own that looks.

use std::sync::OnceLock;

use serde_json::{Value, json};
use taketurns::Locks;
use taketurns::blocking::Wait;
use taketurns_servers::others::Postgres;
use taketurns_servers::{Flavor, Server, eventually};
use tempfile::TempDir;

use crate::agent::Agent;
use crate::languages::{AgentLanguage, LANGUAGES};

/// A store, for all tests of this process. It ends with the process, and so do the agents, whose input ends.
pub(crate) struct Stage {
    pub(crate) url: String,
    pub(crate) folder: TempDir,
    /// One of each language.
    pub(crate) agents: Vec<Agent>,
    pub(crate) locks: Locks,
    _servers: Servers,
}

/// The servers of a store, which end with it.
#[derive(Default)]
struct Servers {
    _redis: Vec<Server>,
    _postgres: Option<Postgres>,
}

pub(crate) fn file() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("file:{}", folder.path().join("locks.db").display());
        Stage::new(url, folder, Servers::default())
    })
}

pub(crate) fn redis() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| {
        let server = Server::start(Flavor::Redis).expect("a server");
        let url = server.url();
        let servers = Servers { _redis: vec![server], ..Servers::default() };
        Stage::new(url, tempfile::tempdir().expect("a folder"), servers)
    })
}

pub(crate) fn postgres() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| {
        let server = Postgres::builder().quick().start().expect("a server");
        let url = server.url();
        let servers = Servers { _postgres: Some(server), ..Servers::default() };
        Stage::new(url, tempfile::tempdir().expect("a folder"), servers)
    })
}

pub(crate) fn quorum() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| {
        let nodes: Vec<Server> =
            (0..3).map(|_| Server::start(Flavor::Redis).expect("a server")).collect();
        let urls: Vec<String> = nodes.iter().map(Server::url).collect();
        let url = format!("quorum:{}", urls.join(","));
        let servers = Servers { _redis: nodes, ..Servers::default() };
        Stage::new(url, tempfile::tempdir().expect("a folder"), servers)
    })
}

impl Stage {
    fn new(url: String, folder: TempDir, servers: Servers) -> Self {
        let locks = taketurns::connect(&url).wait().expect("a store");
        let agents =
            LANGUAGES.map(|language| Agent::start(language, &url, json!({ "who": language.name })));
        Self { url, folder, agents: agents.into(), locks, _servers: servers }
    }

    /// Starts an agent that dies: its leases are short.
    pub(crate) fn mortal(&self, language: AgentLanguage) -> Agent {
        Agent::start(language, &self.url, json!({ "waiter_lease_ms": 500 }))
    }

    /// Waits until this number of clients wait for a lock.
    pub(crate) fn until_waiting(&self, lock: &str, count: usize) {
        eventually(&format!("{count} wait for {lock}"), || {
            let view = self.locks.inspect(lock).wait().expect("a store");
            (view.map_or(0, |view| view.waiting) == count).then_some(())
        })
        .expect("places in the queue");
    }

    /// Every ordered pair of different agents.
    pub(crate) fn pairs(&self) -> Vec<(&Agent, &Agent)> {
        let pairs =
            self.agents.iter().flat_map(|one| self.agents.iter().map(move |other| (one, other)));
        pairs.filter(|(one, other)| one.language != other.language).collect()
    }
}

/// A lock's or guard's name for one scenario and one language.
pub(crate) fn named(scenario: &str, agent: &Agent) -> String {
    format!("{scenario}/{}", agent.language)
}

/// The token in an answer.
pub(crate) fn token(answer: &Value) -> u64 {
    answer["token"].as_u64().unwrap_or_else(|| panic!("a token: {answer}"))
}
