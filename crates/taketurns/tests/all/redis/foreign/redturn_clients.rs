//! Foreign clients of `protocol=redturn`, played by hand: so that they do just what a test says, and when.

use taketurns_servers::{Connection, Flavor, eventually};
use tokio::task::JoinHandle;

use super::*;

/// A server, and what a test wants to know of it.
pub(crate) struct Scene {
    pub(crate) server: Server,
}

/// In which words the next one is told.
#[derive(Clone, Copy)]
pub(crate) enum Words {
    /// `list:id`
    Old,
    /// `id:list`
    Late,
}

/// What redturn does to give back: nothing if the id is not the head's, or there is no list.
pub(crate) const SIGNAL: &str = "\
    local function parts() return (redis.call('LINDEX', KEYS[1], 0) or ''):match('^([^:]*):([^:]*)') end\n\
    if parts() ~= ARGV[1] then return 0 end\n\
    redis.call('LPOP', KEYS[1])\n\
    local id, channel = parts()\n\
    if id then\n\
    redis.call('PUBLISH', channel, ARGV[2] == 'old' and KEYS[1] .. ':' .. id or id .. ':' .. KEYS[1])\n\
    end\n\
    return 1";

impl Scene {
    pub(crate) fn new(flavor: Flavor) -> Self {
        Self { server: Server::start(flavor).expect("a server") }
    }

    pub(crate) async fn client(&self) -> Locks {
        speaks(&self.server, "redturn").await
    }

    /// A client that only a message wakes.
    pub(crate) async fn sleeper(&self) -> Locks {
        let url = format!("{}?protocol=redturn&unfenced=ok", self.server.url());
        sleeper(&url, AllowedLooks::AtForeignClients).await
    }

    /// What is in a list.
    pub(crate) fn list(&self, list: &str) -> Vec<String> {
        let reply = self.server.cli(&["LRANGE", list, "0", "-1"]);
        let entries = reply.array().expect("a list").iter().filter_map(|entry| entry.text());
        entries.map(str::to_owned).collect()
    }

    /// The parts of the list's head: id, channel, timeout.
    pub(crate) fn head(&self, list: &str) -> Option<[String; 3]> {
        let entries = self.list(list);
        let parts: Vec<String> = entries.first()?.split(':').map(str::to_owned).collect();
        Some(parts.try_into().expect("three parts"))
    }

    /// Waits until the list has `count` places.
    pub(crate) fn reaches(&self, list: &str, count: usize) {
        let has = || (self.list(list).len() == count).then_some(());
        eventually("the list has its places", has).expect("places");
    }

    /// A foreign client stands in line, which holds the lock if it is the first.
    pub(crate) fn stands(&self, list: &str, id: &str, timeout_ms: u32) {
        let entry = format!("{id}:{}:{timeout_ms}", channel_of(id));
        self.server.cli(&["RPUSH", list, &entry]).int().expect("a length");
    }

    /// A foreign client gives back, or sees out whose time is over. Was that the head?
    pub(crate) fn signals(&self, list: &str, id: &str, words: Words) -> bool {
        let words = if matches!(words, Words::Old) { "old" } else { "late" };
        self.server.cli(&["EVAL", SIGNAL, "1", list, id, words]).int().expect("a number") == 1
    }

    /// A foreign client that listens.
    pub(crate) fn listens(&self, id: &str) -> Connection {
        let mut ear = self.server.connect().expect("a connection");
        ear.command(&["SUBSCRIBE", &channel_of(id)]).expect("a confirmation");
        ear
    }

    /// Starts a task in which one of our clients waits, and returns when the list has `count` places.
    pub(crate) fn waits(&self, locks: &Locks, list: &str, count: usize) -> JoinHandle<Guard> {
        let waiting = begins(locks, list);
        self.reaches(list, count);
        waiting
    }
}

/// One of ours wants the lock, in a task.
pub(crate) fn begins(locks: &Locks, list: &str) -> JoinHandle<Guard> {
    let (locks, name) = (locks.clone(), list.to_owned());
    tokio::spawn(async move { acquires(&locks, &name).await })
}

fn channel_of(id: &str) -> String {
    format!("redturn-{id}")
}

/// What a foreign client is told next.
pub(crate) fn told(ear: &mut Connection) -> String {
    let message = ear.read().expect("a message");
    message.array().and_then(|parts| parts[2].text()).expect("a text").to_owned()
}

/// A task of ours comes to hold the lock.
pub(crate) async fn holds(waiting: JoinHandle<Guard>) -> Guard {
    soon("a turn", waiting).await.expect("no panic")
}
