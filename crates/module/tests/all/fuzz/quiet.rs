//! What must hold whenever all connections are idle.

use std::collections::BTreeMap;

use taketurns_servers::{Connection, Server, ServerReply, eventually};

/// Observer at a server and its replica.
pub(crate) struct Observer<'a> {
    pub(crate) server: &'a Server,
    pub(crate) replica: &'a Server,
    /// Two bindings with different channels.
    pub(crate) bindings: [&'a [u8]; 2],
}

impl Observer<'_> {
    /// Fails unless the replica has the same state as the server.
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

    /// Describes a key on the server and on its replica.
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

    /// Returns the digest of every key.
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
                // A replica keeps expired keys until its master deletes them.
                if connection.command(&[&b"EXISTS"[..], &key]).ok()?.int() == Some(1) {
                    digests.insert((db, key), digest.to_string());
                }
            }
            // Everything must have arrived.
            if std::ptr::eq(server, self.server) {
                connection.command(&["WAIT", "1", "1000"]).ok()?;
            }
        }
        Some(digests)
    }

    /// Touches a key. The copies do not repeat a step that changes nothing, though the lock
    /// remembers its time. They do repeat a change of the channel.
    fn touch(&self, connection: &mut Connection, key: &[u8]) -> Option<()> {
        for binding in self.bindings {
            connection.command(&[&b"FENCELOCK.DO"[..], key, binding, b"tick"]).ok()?;
        }
        Some(())
    }

    /// Fails if a client waits for a free lock.
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

    /// Fails if a client is connected, waits or polls, or if a hold is bound to a closed
    /// connection.
    pub(crate) fn nobody_is_there(&self) -> Result<(), String> {
        let mut last = BTreeMap::new();
        let gone = eventually("nobody is there", || {
            last = self.server.info("fencelock");
            last.extend(self.server.info("clients"));
            let is = |name: &str, so_many: &str| last.get(name).is_some_and(|is| is == so_many);
            let none = ["blocked_clients", "bound_locks", "polling_clients"];
            let none = none.map(|name| format!("fencelock_{name}"));
            // The connection that asks.
            let alone = is("connected_clients", "1");
            (alone && none.iter().all(|name| is(name, "0"))).then_some(())
        });
        gone.map_err(|error| format!("{error}: {last:?}"))
    }

    /// Returns the tokens of all holders.
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

    /// Returns the memory that the server uses, without its clients' and its replica's buffers.
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
    // A client may wait for a member before the pool has it.
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
