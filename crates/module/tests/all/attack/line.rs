//! A connection that speaks in lines, as people type them.

use taketurns_servers::{
    Builder, Connection, Flavor, Server, ServerReply, eventually, module_path,
};

/// A server that loads the module, about to be started.
pub(crate) fn builder(flavor: Flavor) -> Builder {
    Server::builder(flavor).module(&module_path().expect("the module is built"), &[])
}

/// A lease that is over when the server's clock is set forward by [`LATER_S`], and not before.
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

    /// An acquire that has to succeed.
    #[track_caller]
    pub(crate) fn take(&mut self, line: &str) {
        let reply = self.say(&format!("FENCELOCK.ACQUIRE {line}"));
        assert!(reply.array().is_some(), "{line}: {reply}");
    }

    /// Waits for a lock, and is in its queue when this returns.
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

    /// The answer to what was waited for.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> ServerReply {
        self.0.read().expect("an answer")
    }

    /// It was granted what it waited for.
    #[track_caller]
    pub(crate) fn is_granted(&mut self) {
        let reply = self.answer();
        assert!(reply.array().is_some(), "no grant: {reply}");
    }

    /// A number that SHOW has of a lock.
    pub(crate) fn number(&mut self, key: &str, field: &str) -> i64 {
        let shown = self.say(&format!("FENCELOCK.SHOW {key}"));
        shown.field(field).and_then(ServerReply::int).unwrap_or(0)
    }

    /// Is the lease of whoever holds a lock over, or has somebody else been granted it?
    pub(crate) fn is_over(&mut self, key: &str) -> bool {
        let shown = self.say(&format!("FENCELOCK.SHOW {key}"));
        let holders = shown.field("holders").and_then(ServerReply::array).unwrap_or_default();
        holders.is_empty() || self.number(key, "waiting") == 0
    }

    /// Binds a program that knows nothing of earlier runs.
    #[track_caller]
    pub(crate) fn bind(&mut self, server: &Server) -> String {
        self.bind_for(server, 60_000)
    }

    /// The same, for leases of so many milliseconds at most: 0 for no quarantine.
    #[track_caller]
    pub(crate) fn bind_for(&mut self, server: &Server, max_lease_ms: u64) -> String {
        let (run, max) = (server.info("server").remove("run_id"), max_lease_ms.to_string());
        let run = run.expect("a run");
        let reply = self.words(&["FENCELOCK.BIND", &run, "", "", "", "0", &max, "tt:wake:"]);
        reply.text().unwrap_or_else(|| panic!("no binding: {reply}")).to_owned()
    }

    /// A request of a program, and what the reply begins with after the time.
    #[track_caller]
    pub(crate) fn does(&mut self, key: &str, binding: &str, words: &str) -> String {
        let reply = self.say(&format!("FENCELOCK.DO {key} {binding} {words}"));
        reply.text().unwrap_or_else(|| panic!("{words}: {reply}")).to_owned()
    }
}

/// How a program asks for a lock: lease and waiter lease are in milliseconds.
pub(crate) fn asks(program: u64, ask: &str, lease_ms: u64, waiter_lease_ms: u64) -> String {
    let far = u64::MAX;
    format!("acquire {program:032x} {program:016x} {ask} {lease_ms} {waiter_lease_ms} {far} p\n")
}
