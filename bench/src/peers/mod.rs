//! The lock libraries that ours is compared with: what they are, and the command lines that run them. Each is a process of its own,
//! in its own language, from `bench/peers`.
//!
//! ```text
//!   CMD pairs --url URL --tasks N --seconds S                   {"pairs": N, "seconds": S}
//!   CMD crowd --url URL --clients N --hold-ms MS --seconds S    turn CLIENT ASKED_US GOT_US RELEASED_US
//! ```
//!
//! Our own packages for other languages take the same loads, so they are in the list too. One that can't be installed
//! stays in the list, with the reason.

mod install;

use std::path::Path;

use taketurns_servers::others::{Etcd, Postgres};

/// A lock that is not ours, or ours in another language.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// What its users call it.
    pub(crate) name: &'static str,
    /// What its program is written in.
    pub(crate) language: Language,
    /// The program and its first arguments, or in one line why it is not run.
    pub(crate) command: Result<Vec<String>, String>,
    /// Where it keeps its locks.
    pub(crate) store: PeerStore,
    /// How it waits, and what is not at its default.
    pub(crate) note: &'static str,
    /// A package of this project.
    pub(crate) is_ours: bool,
}

/// What a program of `bench/peers` is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    Python,
    Node,
}

/// The server that a peer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerStore {
    /// The Redis that all share.
    Redis,
    /// An [`Etcd`].
    Etcd,
    /// A [`Postgres`].
    Postgres,
}

/// A row of the list: its name, its language, its store and its note.
type Row = (&'static str, Language, PeerStore, &'static str);

/// Those that are packages of this project.
const OURS: [&str; 2] = [OURS_IN_PYTHON, OURS_IN_NODE];
pub(crate) const OURS_IN_PYTHON: &str = "taketurns-python";
pub(crate) const OURS_IN_NODE: &str = "taketurns-node";

const ROWS: [Row; 14] = [
    (
        OURS_IN_PYTHON,
        Language::Python,
        PeerStore::Redis,
        "ours, as its users have it: without asyncio, a lease of 30 s by default",
    ),
    (
        OURS_IN_NODE,
        Language::Node,
        PeerStore::Redis,
        "ours, as its users have it: a lease of 30 s by default",
    ),
    (
        "rslock",
        Language::Rust,
        PeerStore::Redis,
        "polls: three attempts up to 200 ms apart, and again; a lease of 30 s, since it wants one",
    ),
    ("rlock", Language::Rust, PeerStore::Redis, "polls every 100 ms"),
    (
        "async-redis-lock",
        Language::Rust,
        PeerStore::Redis,
        "polls every 100 ms; told not to give up after 1 s",
    ),
    (
        "distributed-lock",
        Language::Rust,
        PeerStore::Redis,
        "never waits on one server, and has no option to; our loop around it polls every 100 ms",
    ),
    ("redis-py", Language::Python, PeerStore::Redis, "polls every 100 ms; no lease by default"),
    (
        "python-redis-lock",
        Language::Python,
        PeerStore::Redis,
        "BLPOP: one waiter is woken, and competes with newcomers; no lease by default",
    ),
    ("pottery", Language::Python, PeerStore::Redis, "polls, up to 200 ms apart"),
    (
        "redlock-py",
        Language::Python,
        PeerStore::Redis,
        "polls every 200 ms; told not to give up after three times; a lease of 30 s, since it wants one",
    ),
    (
        "redlock",
        Language::Node,
        PeerStore::Redis,
        "polls, 100 to 300 ms apart; told not to give up after ten times; a lease of 30 s, since it wants one",
    ),
    (
        "redis-semaphore",
        Language::Node,
        PeerStore::Redis,
        "its Mutex; polls every 10 ms; told not to give up after 10 s",
    ),
    (
        "etcd",
        Language::Rust,
        PeerStore::Etcd,
        "the server's own lock, which wakes the next in line; one node, which writes to disk before it answers",
    ),
    (
        "postgres",
        Language::Rust,
        PeerStore::Postgres,
        "advisory locks, which wake the next in line; no lease: held for as long as the session lives",
    ),
];

/// All of them. What is missing is installed into the target directory, or built there, which takes
/// minutes the first time and is told on stderr.
pub(crate) fn all(target: &Path) -> Vec<Peer> {
    let folder = target.join("peers");
    let rust = install::rust(&folder);
    let python = install::python(&folder);
    let ours_in_python = python.clone().and_then(install::with_our_package);
    let node = install::node(&folder);
    let ours_in_node = node.clone().and_then(|node| install::beside_our_package(node, &folder));
    let command = |(name, language, store, _): Row| {
        let program = match (language, store) {
            _ if name == OURS_IN_PYTHON => ours_in_python.clone(),
            _ if name == OURS_IN_NODE => ours_in_node.clone(),
            (_, PeerStore::Etcd) if !Etcd::is_installed() => Err(missing("etcd")),
            (_, PeerStore::Postgres) if !Postgres::is_installed() => Err(missing("postgres")),
            (_, PeerStore::Etcd) => rust.etcd.clone(),
            (Language::Rust, _) => rust.others.clone(),
            (Language::Python, _) => python.clone(),
            (Language::Node, _) => node.clone(),
        };
        program.map(|mut words| {
            words.push(name.to_owned());
            words
        })
    };
    ROWS.map(|row @ (name, language, store, note)| Peer {
        name,
        language,
        command: command(row),
        store,
        note,
        is_ours: OURS.contains(&name),
    })
    .into()
}

fn missing(program: &'static str) -> String {
    taketurns_servers::SetupError::NotInstalled(program).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_has_a_name_of_its_own_and_says_how_it_waits() {
        let mut names: Vec<&str> = ROWS.iter().map(|(name, ..)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
        assert!(ROWS.iter().all(|(.., note)| !note.is_empty()));
    }
}
