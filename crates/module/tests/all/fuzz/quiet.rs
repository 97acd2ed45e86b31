//! What has to be so whenever nobody does anything.

use std::collections::BTreeMap;

use taketurns_servers::{Connection, Server, ServerReply, eventually};

/// What is looked at on a server and its replica.
pub(crate) struct Looks<'a> {
    pub(crate) server: &'a Server,
    pub(crate) replica: &'a Server,
    /// Two bindings with channels of their own.
    pub(crate) bindings: [&'a [u8]; 2],
}

impl Looks<'_> {
    /// The replica has what the server has.
    pub(crate) fn replica_agrees(&self) -> Result<(), String> {
        let mut last = String::new();
        let agreed = eventually("the replica agrees", || {
            let (here, there) = (self.digests(self.server)?, self.digests(self.replica)?);
            let differs = |key: &&(i32, Vec<u8>)| here.get(*key) != there.get(*key);
            let differing = here.keys().chain(there.keys()).filter(differs);
            last = differing.map(|(db, key)| self.both(*db, key)).collect();
            (here == there).then_some(())
        });
        agreed.map_err(|error| format!("{error}: {last}"))
    }

    /// A key on the server and on its replica, for people.
    fn both(&self, db: i32, key: &[u8]) -> String {
        let looks = |server: &Server| {
            let mut connection = server.connect().ok()?;
            connection.command(&["SELECT", &db.to_string()]).ok()?;
            let mut look = |command: &[u8]| connection.command(&[command, key]).ok();
            Some(format!("{} {} {}", look(b"TYPE")?, look(b"FENCELOCK.SHOW")?, look(b"DUMP")?))
        };
        let [here, there] =
            [self.server, self.replica].map(|server| looks(server).unwrap_or_default());
        format!("\n{db} {}:\n{here}\n{there}", key.escape_ascii())
    }

    /// The digest of every key that is there.
    fn digests(&self, server: &Server) -> Option<BTreeMap<(i32, Vec<u8>), String>> {
        let mut digests = BTreeMap::new();
        let mut connection = server.connect().ok()?;
        for db in 0..2 {
            connection.command(&["SELECT", &db.to_string()]).ok()?;
            for key in keys(&mut connection)? {
                if std::ptr::eq(server, self.server) {
                    self.touch(&mut connection, &key)?;
                }
                let digest = connection.command(&[&b"DEBUG"[..], b"DIGEST-VALUE", &key]).ok()?;
                // A replica keeps what is over until it is told to drop it.
                if connection.command(&[&b"EXISTS"[..], &key]).ok()?.int() == Some(1) {
                    digests.insert((db, key), digest.to_string());
                }
            }
            // All of it has to have arrived.
            if std::ptr::eq(server, self.server) {
                connection.command(&["WAIT", "1", "1000"]).ok()?;
            }
        }
        Some(digests)
    }

    /// A step that changes nothing is not repeated, though the lock remembers when it was. One that
    /// changes the channel is.
    fn touch(&self, connection: &mut Connection, key: &[u8]) -> Option<()> {
        for binding in self.bindings {
            connection.command(&[&b"FENCELOCK.DO"[..], key, binding, b"tick"]).ok()?;
        }
        Some(())
    }

    /// Nobody waits for a lock that nobody has.
    pub(crate) fn nobody_is_stuck(&self) -> Result<(), String> {
        let mut last = String::new();
        let moving = eventually("nobody is stuck", || {
            let mut connection = self.server.connect().ok()?;
            for db in 0..2 {
                connection.command(&["SELECT", &db.to_string()]).ok()?;
                for key in keys(&mut connection)? {
                    let shown = connection.command(&[&b"FENCELOCK.SHOW"[..], &key]).ok()?;
                    if is_stuck(&shown) {
                        last = format!("{}: {shown}", key.escape_ascii());
                        return None;
                    }
                }
            }
            Some(())
        });
        moving.map_err(|error| format!("{error}: {last}"))
    }

    /// Nobody is connected, waits or polls, and nothing is bound to a connection that is closed.
    pub(crate) fn nobody_is_there(&self) -> Result<(), String> {
        let mut last = BTreeMap::new();
        let gone = eventually("nobody is there", || {
            last = self.server.info("fencelock");
            last.extend(self.server.info("clients"));
            let is = |name: &str, so_many: &str| last.get(name).is_some_and(|is| is == so_many);
            let none = ["blocked_clients", "bound_locks", "polling_clients"];
            let none = none.map(|name| format!("fencelock_{name}"));
            // The one that asks.
            let alone = is("connected_clients", "1");
            (alone && none.iter().all(|name| is(name, "0"))).then_some(())
        });
        gone.map_err(|error| format!("{error}: {last:?}"))
    }

    /// The tokens of all who hold something.
    pub(crate) fn held(&self) -> Option<Vec<i64>> {
        let mut tokens = Vec::new();
        let mut connection = self.server.connect().ok()?;
        for key in keys(&mut connection)? {
            let shown = connection.command(&[&b"FENCELOCK.SHOW"[..], &key]).ok()?;
            let holders = shown.field("holders").and_then(ServerReply::array).unwrap_or_default();
            tokens.extend(holders.iter().filter_map(|holder| holder.field("token")?.int()));
        }
        Some(tokens)
    }

    /// The bytes that the server uses, but for what it has for its clients and its replica.
    pub(crate) fn used_memory(&self) -> Option<u64> {
        let mut connection = self.server.connect().ok()?;
        for words in [&["SLOWLOG", "RESET"][..], &["SCRIPT", "FLUSH", "SYNC"], &["MEMORY", "PURGE"]]
        {
            connection.command(words).ok()?;
        }
        drop(connection);
        let info = self.server.info("memory");
        let bytes = |name: &str| info.get(name).and_then(|text| text.parse::<u64>().ok());
        let others = ["mem_clients_normal", "mem_clients_slaves", "mem_aof_buffer"];
        let others: u64 = others.into_iter().filter_map(bytes).sum();
        let backlog = bytes("mem_total_replication_buffers").or(bytes("mem_replication_backlog"));
        Some(bytes("used_memory")?.saturating_sub(others + backlog.unwrap_or(0)))
    }
}

fn is_stuck(shown: &ServerReply) -> bool {
    let number = |name: &str| shown.field(name).and_then(ServerReply::int).unwrap_or(0);
    let holders = shown.field("holders").and_then(ServerReply::array);
    // A member may be waited for before it is there.
    let is_pool = shown.field("kind").and_then(ServerReply::text) == Some("pool");
    holders.is_some_and(<[ServerReply]>::is_empty)
        && number("waiting") > 0
        && number("quarantine_ms") == 0
        && !is_pool
}

fn keys(connection: &mut Connection) -> Option<Vec<Vec<u8>>> {
    let keys = connection.command(&["KEYS", "*"]).ok()?;
    let mut keys: Vec<Vec<u8>> =
        keys.array()?.iter().filter_map(|key| key.bytes().map(<[u8]>::to_vec)).collect();
    keys.sort();
    Some(keys)
}
