//! A client of a server with the module. It sends commands as lines, as people type them.

use taketurns_servers::{
    Builder, Connection, Flavor, Server, ServerReply, eventually, module_path,
};

/// Prepares a server that loads the module.
pub(crate) fn builder(flavor: Flavor, args: &[&str]) -> Builder {
    Server::builder(flavor).module(&module_path().expect("the module is built"), args)
}

/// Starts a server with the module and default settings.
pub(crate) fn server(flavor: Flavor) -> Server {
    builder(flavor, &[]).start().expect("a server")
}

/// Starts a replica with the module; returns once it follows the master.
#[track_caller]
pub(crate) fn replica_of(master: &Server) -> Server {
    let builder = builder(master.flavor(), &[]).replica_of(master.port());
    let replica = builder.start().expect("a replica");
    let linked = || (replica.info("replication").get("master_link_status")? == "up").then_some(());
    eventually("the replica follows", linked).expect("a link");
    replica
}

/// Restarts a server as after a crash; returns once it has read its log.
#[track_caller]
pub(crate) fn crash(server: &Server) {
    server.kill();
    server.restart().expect("it starts again");
    let loaded = || (server.cli(&["PING"]).text() == Some("PONG")).then_some(());
    eventually("the log is read", loaded).expect("a server");
}

/// The reply to an acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) secret: i64,
    pub(crate) token: i64,
    pub(crate) member: Option<String>,
}

impl Grant {
    #[track_caller]
    pub(crate) fn of(reply: &ServerReply) -> Self {
        match reply.array() {
            Some([ServerReply::Int(secret), ServerReply::Int(token), rest @ ..])
                if rest.len() < 2 =>
            {
                let member = rest.first().map(|member| member.text().expect("a name").to_owned());
                Self { secret: *secret, token: *token, member }
            }
            _ => panic!("not granted: {reply}"),
        }
    }
}

/// One connection.
pub(crate) struct Client(Connection);

impl Client {
    #[track_caller]
    pub(crate) fn of(server: &Server) -> Self {
        Self(server.connect().expect("a connection"))
    }

    /// Connects as a user with a password.
    #[track_caller]
    pub(crate) fn user(server: &Server, name: &str, password: &str) -> Self {
        let mut client = Self::of(server);
        assert!(client.words(&["AUTH", name, password]).is_ok(), "{name} may log in");
        client
    }

    /// Runs any command, given as words.
    #[track_caller]
    pub(crate) fn words(&mut self, words: &[impl AsRef<[u8]>]) -> ServerReply {
        self.0.command(words).expect("a reply")
    }

    /// Runs any command.
    #[track_caller]
    pub(crate) fn say(&mut self, line: &str) -> ServerReply {
        self.words(&line.split(' ').collect::<Vec<_>>())
    }

    /// Runs a command of the module.
    #[track_caller]
    pub(crate) fn lock(&mut self, line: &str) -> ServerReply {
        self.say(&format!("FENCELOCK.{line}"))
    }

    /// Runs a command of the module that must fail; returns the error.
    #[track_caller]
    pub(crate) fn error(&mut self, line: &str) -> String {
        let reply = self.lock(line);
        reply.error().unwrap_or_else(|| panic!("{line} is no error: {reply}")).to_owned()
    }

    /// Acquires a lock, which must succeed.
    #[track_caller]
    pub(crate) fn take(&mut self, line: &str) -> Grant {
        Grant::of(&self.lock(&format!("ACQUIRE {line}")))
    }

    /// Releases a lock, which must succeed.
    #[track_caller]
    pub(crate) fn give(&mut self, key: &str, grant: &Grant) {
        let reply = self.lock(&format!("RELEASE {key} {}", grant.secret));
        assert!(reply.is_ok(), "{key}: {reply}");
    }

    /// Renews for ten minutes.
    #[track_caller]
    pub(crate) fn renew(&mut self, key: &str, grant: &Grant) -> ServerReply {
        self.lock(&format!("RENEW {key} {} 600", grant.secret))
    }

    /// Sends any command; the answer comes later.
    #[track_caller]
    pub(crate) fn send(&mut self, words: &[impl AsRef<[u8]>]) {
        self.0.send(words).expect("it is sent");
    }

    /// Sends a command of the module; the answer comes later.
    #[track_caller]
    pub(crate) fn begin(&mut self, line: &str) {
        self.send(&format!("FENCELOCK.{line}").split(' ').collect::<Vec<_>>());
    }

    /// Returns the answer to a command that was sent.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> ServerReply {
        self.0.read().expect("an answer")
    }

    /// The same, if the server may close the connection instead.
    pub(crate) fn answer_or_end(&mut self) -> Option<ServerReply> {
        self.0.read().ok()
    }

    /// Runs several commands in one transaction; returns each reply.
    #[track_caller]
    pub(crate) fn multi(&mut self, lines: &[String]) -> Vec<ServerReply> {
        assert!(self.say("MULTI").is_ok());
        for line in lines {
            assert_eq!(self.say(line).text(), Some("QUEUED"), "{line}");
        }
        self.say("EXEC").array().expect("a transaction").to_vec()
    }

    /// Returns the server's id of this connection.
    pub(crate) fn id(&mut self) -> i64 {
        self.say("CLIENT ID").int().expect("a number")
    }

    /// Waits until `count` clients wait for a lock.
    #[track_caller]
    pub(crate) fn until_waiting(&mut self, key: &str, count: i64) {
        let what = format!("{count} wait for {key}");
        eventually(&what, || (self.waiting(key) == count).then_some(())).expect("a queue");
    }

    /// Waits until `count` clients hold a lock.
    #[track_caller]
    pub(crate) fn until_held(&mut self, key: &str, count: usize) {
        let what = format!("{count} hold {key}");
        eventually(&what, || (self.holders(key).len() == count).then_some(())).expect("holders");
    }

    pub(crate) fn waiting(&mut self, key: &str) -> i64 {
        let shown = self.lock(&format!("SHOW {key}"));
        shown.field("waiting").and_then(ServerReply::int).unwrap_or(0)
    }

    /// Returns the holders of a lock, as SHOW reports them.
    pub(crate) fn holders(&mut self, key: &str) -> Vec<ServerReply> {
        let shown = self.lock(&format!("SHOW {key}"));
        shown.field("holders").and_then(ServerReply::array).unwrap_or_default().to_vec()
    }

    /// Returns a number of the only holder.
    #[track_caller]
    pub(crate) fn of_holder(&mut self, key: &str, field: &str) -> i64 {
        let holders = self.holders(key);
        assert_eq!(holders.len(), 1, "{key} has one holder");
        holders[0].field(field).and_then(ServerReply::int).expect("a number")
    }
}

/// Starts a client that waits for a lock; returns once it is in the queue.
#[track_caller]
pub(crate) fn waiter(server: &Server, key: &str, words: &str) -> Client {
    let (mut client, mut looker) = (Client::of(server), Client::of(server));
    let before = looker.waiting(key);
    client.begin(&format!("ACQUIRE {key} {words}"));
    looker.until_waiting(key, before + 1);
    client
}

/// Returns the server's id of the connection at this place of a queue. While blocked, the
/// connection itself can't ask for it.
#[track_caller]
pub(crate) fn connection_at(client: &mut Client, key: &str, place: usize) -> i64 {
    let shown = client.lock(&format!("SHOW {key}"));
    let waiters = shown.field("waiters").and_then(ServerReply::array).expect("waiters");
    let label = waiters[place].field("label").and_then(ServerReply::text).expect("a label");
    label.trim_start_matches("client ").parse().expect("the server's number")
}

/// Is it an error with this code?
pub(crate) fn is_error(reply: &ServerReply, code: &str) -> bool {
    reply.error().is_some_and(|error| error.split(' ').next() == Some(code))
}

/// Returns a number of the module's INFO.
#[track_caller]
pub(crate) fn info(server: &Server, name: &str) -> u64 {
    let info = server.info("fencelock");
    let number =
        info.get(&format!("fencelock_{name}")).unwrap_or_else(|| panic!("{name}: {info:?}"));
    number.parse().expect("a number")
}
