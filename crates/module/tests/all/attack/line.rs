//! A connection that sends commands as lines, as people type them.

use crate::words;
use taketurns_servers::{
    Builder, Connection, Flavor, Server, ServerReply, eventually, module_path,
};

/// Prepares a server that loads the module.
pub(crate) fn builder(flavor: Flavor) -> Builder {
    Server::builder(flavor).module(&module_path().expect("the module is built"), &[])
}

/// A lease that ends when the server's clock is set forward by [`LATER_S`], and not before.
pub(crate) const LEASE_MS: u64 = 20_000;
pub(crate) const LATER_S: i64 = 25;

pub(crate) struct Line(Connection);

impl Line {
    #[track_caller]
    pub(crate) fn to(server: &Server) -> Self {
        Self(server.connect().expect("a connection"))
    }

    #[track_caller]
    pub(crate) fn words(&mut self, words: &[&str]) -> ServerReply {
        self.0.command(words).expect("a reply")
    }

    #[track_caller]
    pub(crate) fn say(&mut self, line: &str) -> ServerReply {
        self.words(&line.split(' ').collect::<Vec<_>>())
    }

    /// Acquires a lock, which must succeed.
    #[track_caller]
    pub(crate) fn take(&mut self, line: &str) {
        let reply = self.say(&format!("FENCELOCK.ACQUIRE {line}"));
        assert!(reply.array().is_some(), "{line}: {reply}");
    }

    /// Waits for a lock; returns once the client is in the queue.
    #[track_caller]
    pub(crate) fn waits(server: &Server, key: &str, words: &str) -> Self {
        let (mut line, mut looker) = (Self::to(server), Self::to(server));
        let before = looker.number(key, "waiting");
        let text = format!("FENCELOCK.ACQUIRE {key} {words}");
        line.0.send(&text.split(' ').collect::<Vec<_>>()).expect("it is sent");
        let queued = || (looker.number(key, "waiting") > before).then_some(());
        eventually("a place in the queue", queued).expect("a place");
        line
    }

    /// Returns the reply to the wait.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> ServerReply {
        self.0.read().expect("an answer")
    }

    /// Asserts that the wait ended with a grant.
    #[track_caller]
    pub(crate) fn is_granted(&mut self) {
        let reply = self.answer();
        assert!(reply.array().is_some(), "no grant: {reply}");
    }

    /// Returns a number that SHOW reports for a lock.
    pub(crate) fn number(&mut self, key: &str, field: &str) -> i64 {
        let shown = self.say(&format!("FENCELOCK.SHOW {key}"));
        shown.field(field).and_then(ServerReply::int).unwrap_or(0)
    }

    /// Is the holder's lease over, or was the lock granted to another client?
    pub(crate) fn is_over(&mut self, key: &str) -> bool {
        let shown = self.say(&format!("FENCELOCK.SHOW {key}"));
        let holders = shown.field("holders").and_then(ServerReply::array).unwrap_or_default();
        holders.is_empty() || self.number(key, "waiting") == 0
    }

    /// Binds a program that knows no earlier incarnations.
    #[track_caller]
    pub(crate) fn bind(&mut self, server: &Server) -> String {
        self.bind_for(server, 60_000)
    }

    /// The same, for leases of at most `max_lease_ms`: 0 for no quarantine.
    #[track_caller]
    pub(crate) fn bind_for(&mut self, server: &Server, max_lease_ms: u64) -> String {
        let (run, max) = (server.info("server").remove("run_id"), max_lease_ms.to_string());
        let run = run.expect("a run");
        let reply = self.words(&["FENCELOCK.BIND", &run, "", "", "", "0", &max, "tt:wake:"]);
        reply.text().unwrap_or_else(|| panic!("no binding: {reply}")).to_owned()
    }

    /// Sends a program's request. Returns the beginning of the reply, after the time.
    #[track_caller]
    pub(crate) fn does(&mut self, key: &str, binding: &str, words: &str) -> String {
        let reply = self.say(&format!("FENCELOCK.DO {key} {binding} {words}"));
        reply.text().unwrap_or_else(|| panic!("{words}: {reply}")).to_owned()
    }
}

/// Builds a program's acquire: lease and waiter lease are in milliseconds.
pub(crate) fn asks(program: u64, ask: &str, lease_ms: u64, waiter_lease_ms: u64) -> String {
    let (owner, client) = (format!("{program:032x}"), format!("{program:016x}"));
    words::acquire((&owner, &client), ask, lease_ms, &waiter_lease_ms.to_string(), "p")
}
