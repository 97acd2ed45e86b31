//! A server with the module, and its commands with parsed replies.

use taketurns_servers::{
    Builder, Connection, Flavor, Server, ServerReply, eventually, module_path,
};

/// Prepares a server with the module.
pub(crate) fn builder(flavor: Flavor, args: &[&str]) -> Builder {
    Server::builder(flavor).module(&module_path().expect("the module was built"), args)
}

/// Starts a server with the module and without persistence.
pub(crate) fn server(flavor: Flavor) -> Server {
    builder(flavor, &[]).start().expect("a server")
}

/// Prepares a server that logs every step before it answers: an acknowledged step is never lost.
pub(crate) fn logging(flavor: Flavor, args: &[&str]) -> Builder {
    builder(flavor, args).appendonly(true).args(["--appendfsync", "always"])
}

/// Restarts a server; returns once it has read its files.
#[track_caller]
pub(crate) fn restart(server: &Server) {
    server.restart().expect("a restart");
}

/// A client of the server.
pub(crate) struct Client(pub(crate) Connection);

/// The reply to an ACQUIRE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldLock {
    pub(crate) secret: i64,
    pub(crate) token: i64,
    pub(crate) member: Option<String>,
}

impl HeldLock {
    /// `None` if the reply is no grant.
    pub(crate) fn of(reply: &ServerReply) -> Option<Self> {
        let parts = reply.array()?;
        let member = parts.get(2).and_then(ServerReply::text).map(str::to_owned);
        Some(Self { secret: parts.first()?.int()?, token: parts.get(1)?.int()?, member })
    }
}

impl Client {
    pub(crate) fn of(server: &Server) -> Self {
        Self(server.connect().expect("a connection"))
    }

    /// Runs one command, split at spaces.
    #[track_caller]
    pub(crate) fn say(&mut self, text: &str) -> ServerReply {
        let words: Vec<&str> = text.split(' ').collect();
        self.0.command(&words).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// Runs one command that must answer OK.
    #[track_caller]
    pub(crate) fn ok(&mut self, text: &str) {
        let reply = self.say(text);
        assert!(reply.is_ok(), "{text}: {reply}");
    }

    /// Runs one command that must answer a number.
    #[track_caller]
    pub(crate) fn int(&mut self, text: &str) -> i64 {
        let reply = self.say(text);
        reply.int().unwrap_or_else(|| panic!("{text}: {reply}"))
    }

    /// Takes a free lock: the key and the rest of the arguments.
    #[track_caller]
    pub(crate) fn take(&mut self, words: &str) -> HeldLock {
        let reply = self.say(&format!("FENCELOCK.ACQUIRE {words}"));
        HeldLock::of(&reply).unwrap_or_else(|| panic!("{words}: {reply}"))
    }

    #[track_caller]
    pub(crate) fn renew(&mut self, key: &str, held: &HeldLock) -> ServerReply {
        self.say(&format!("FENCELOCK.RENEW {key} {} 60", held.secret))
    }

    #[track_caller]
    pub(crate) fn release(&mut self, key: &str, held: &HeldLock) -> ServerReply {
        self.say(&format!("FENCELOCK.RELEASE {key} {}", held.secret))
    }

    /// Asks for a lock without reading the reply: it will block.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, words: &str) {
        let text = format!("FENCELOCK.ACQUIRE {words} WAIT 0");
        let words: Vec<&str> = text.split(' ').collect();
        self.0.send(&words).expect("sent");
    }

    /// Returns the reply to an earlier command.
    #[track_caller]
    pub(crate) fn reply(&mut self) -> ServerReply {
        self.0.read().expect("a reply")
    }

    /// Returns the grant that the client waited for.
    #[track_caller]
    pub(crate) fn granted(&mut self) -> HeldLock {
        let reply = self.reply();
        HeldLock::of(&reply).unwrap_or_else(|| panic!("no grant: {reply}"))
    }

    /// Asserts that the client was told to ask again.
    #[track_caller]
    pub(crate) fn is_told_to_try_again(&mut self) {
        let reply = self.reply();
        assert!(reply.error().is_some_and(|error| error.starts_with("TRYAGAIN ")), "{reply}");
    }

    #[track_caller]
    pub(crate) fn show(&mut self, key: &str) -> ServerReply {
        self.say(&format!("FENCELOCK.SHOW {key}"))
    }

    /// Returns the labels of the holders or the waiters, in order.
    #[track_caller]
    pub(crate) fn labels(&mut self, key: &str, list: &str) -> Vec<String> {
        let show = self.show(key);
        let list = show.field(list).and_then(ServerReply::array).unwrap_or_default();
        let label = |entry: &ServerReply| Some(entry.field("label")?.text()?.to_owned());
        list.iter().filter_map(label).collect()
    }

    /// Waits until exactly these clients hold it, without touching the lock.
    #[track_caller]
    pub(crate) fn is_held_by(&mut self, key: &str, labels: &[&str]) {
        self.has_labels(key, "holders", labels);
    }

    /// Waits until exactly these clients wait for it, without touching the lock.
    #[track_caller]
    pub(crate) fn is_waited_for_by(&mut self, key: &str, labels: &[&str]) {
        self.has_labels(key, "waiters", labels);
    }

    #[track_caller]
    fn has_labels(&mut self, key: &str, list: &str, labels: &[&str]) {
        let mut seen = Vec::new();
        let as_expected = eventually(list, || {
            seen = self.labels(key, list);
            (seen == labels).then_some(())
        });
        assert!(as_expected.is_ok(), "{key}: its {list} are {seen:?} and not {labels:?}");
    }

    /// Returns the whole lock as one word, with secrets and indexes.
    #[track_caller]
    pub(crate) fn digest(&mut self, key: &str) -> String {
        let reply = self.say(&format!("DEBUG DIGEST-VALUE {key}"));
        reply.array().and_then(|all| all[0].text()).expect("a digest").to_owned()
    }

    /// Returns the server's time.
    #[track_caller]
    pub(crate) fn time_us(&mut self) -> u64 {
        let reply = self.say("TIME");
        let parts = reply.array().expect("two numbers");
        let part = |at: usize| parts[at].text().and_then(|text| text.parse::<u64>().ok());
        part(0).zip(part(1)).map(|(s, us)| s * 1_000_000 + us).expect("a time")
    }
}

/// Starts a client that blocks, with a label that identifies it among the waiters. Returns once it
/// waits.
#[track_caller]
pub(crate) fn blocked(server: &Server, key: &str, words: &str, label: &str) -> Client {
    let mut client = Client::of(server);
    client.wait_for(&format!("{key} {words} LABEL {label}"));
    let mut looker = Client::of(server);
    let queued = eventually("a place in the queue", || {
        looker.labels(key, "waiters").contains(&label.to_owned()).then_some(())
    });
    assert!(queued.is_ok(), "{label} does not wait for {key}: {}", looker.show(key));
    client
}
