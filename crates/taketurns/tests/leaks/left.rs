//! What a server still knows of clients that are gone.

use std::collections::BTreeSet;

use taketurns::blocking::Wait;
use taketurns_core::wire::Head;
use taketurns_servers::others::Postgres;
use taketurns_servers::{Connection, Server, eventually};

use crate::uses::POOL;

/// Locks that stay, since they are pools with members.
const STAY: [&str; 2] = [POOL, "taketurns:quorum"];

/// Nothing is left on it but what may stay: the marker, pools with members, and idle locks that end by
/// themselves.
pub(crate) fn nothing_on(server: &Server) {
    nothing("a server", server, left_on);
}

/// The same of a Sentinel, which knows of connections alone.
pub(crate) fn nothing_on_sentinel(server: &Server) {
    nothing("a Sentinel", server, |server| connections(&mut connect(server)));
}

/// The same of a PostgreSQL: no connection, no message, no holder and no waiter.
pub(crate) fn nothing_on_postgres(server: &Postgres) {
    let clean = || left_in(server).is_empty().then_some(());
    if eventually("nothing is left", clean).is_err() {
        panic!("PostgreSQL at {} has {:#?}", server.port(), left_in(server));
    }
}

fn left_in(server: &Postgres) -> BTreeSet<String> {
    let connections = "SELECT 'the connection ' || query FROM pg_stat_activity WHERE application_name = 'taketurns'";
    let messages = "SELECT 'the message ' || message FROM taketurns.notice";
    let kept = "SELECT 'kept for ever: ' || name FROM taketurns.lock WHERE forget_at_ms IS NULL";
    let mut left = BTreeSet::new();
    for sql in [connections, messages, kept] {
        let rows = server.sql("postgres", sql).expect("an answer");
        left.extend(rows.lines().filter(|row| !row.ends_with(POOL)).map(str::to_owned));
    }
    if left.is_empty() {
        let locks = taketurns::connect(&server.url()).wait().expect("a client");
        for (name, view) in locks.list("*").wait().expect("a listing") {
            if !view.holders.is_empty() || view.waiting > 0 {
                left.insert(format!("{name} is in use: {view:?}"));
            }
        }
        locks.close().wait();
    }
    left
}

fn nothing(what: &str, server: &Server, left: impl Fn(&Server) -> BTreeSet<String>) {
    // It may not have noticed yet that a connection was closed.
    let clean = || left(server).is_empty().then_some(());
    if eventually("nothing is left", clean).is_err() {
        panic!("{what} at {} has {:#?}", server.port(), left(server));
    }
}

fn connect(server: &Server) -> Connection {
    server.connect().expect("a connection")
}

fn words(own: &mut Connection, command: &[&str]) -> Vec<String> {
    let reply = own.command(command).expect("an answer");
    let words = reply.array().into_iter().flatten();
    words.filter_map(|word| word.text().map(str::to_owned)).collect()
}

fn left_on(server: &Server) -> BTreeSet<String> {
    let mut own = connect(server);
    let mut left = connections(&mut own);
    for kind in ["CHANNELS", "SHARDCHANNELS"] {
        let channels = words(&mut own, &["PUBSUB", kind, "tt:*"]);
        left.extend(channels.into_iter().map(|name| format!("the channel {name}")));
    }
    let patterns = own.command(&["PUBSUB", "NUMPAT"]).expect("an answer").int();
    if patterns != Some(0) {
        left.insert(format!("{patterns:?} patterns of channels"));
    }
    for key in words(&mut own, &["KEYS", "*"]) {
        if !key.starts_with("tt:\u{1}run") {
            left.extend(used(&mut own, &key));
        }
    }
    left
}

fn connections(own: &mut Connection) -> BTreeSet<String> {
    let mut left = BTreeSet::new();
    let id = own.command(&["CLIENT", "ID"]).ok().and_then(|id| id.int()).unwrap_or(-1);
    let list = own.command(&["CLIENT", "LIST"]).expect("an answer");
    for line in list.text().unwrap_or_default().lines() {
        let field = |name: &str| line.split(' ').find_map(|pair| pair.strip_prefix(name));
        // Those of servers among each other are not ours.
        let is_servers = field("flags=").is_some_and(|flags| flags.contains(['S', 'M']))
            || field("name=").is_some_and(|name| name.starts_with("sentinel-"));
        // A Sentinel of Redis 7.0 does not say which connection asks.
        let is_own = field("id=") == Some(&id.to_string()) || field("cmd=") == Some("client|list");
        if !is_own && !is_servers {
            left.insert(format!("the connection {line}"));
        }
    }
    left
}

/// What there is of users in a lock's key. The module's keys show nothing to other commands: of those
/// it is known by who holds and who waits, and by when they end.
fn used(own: &mut Connection, key: &str) -> Vec<String> {
    let fields = match own.command(&["TYPE", key]).expect("an answer").text() {
        Some("hash") => words(own, &["HKEYS", key]),
        _ => Vec::new(),
    };
    // Holders, waiters, their clients and owners, and the lines that they stand in.
    let is_used = |field: &&String| {
        field.starts_with(['h', 'w', 'c', 'o', 'l'])
            || [">q", "<q", ">l", "<l"].iter().any(|link| field.starts_with(link))
    };
    let mut used: Vec<String> =
        fields.iter().filter(is_used).map(|field| format!("{key}: {field}")).collect();
    if fields.iter().any(|field| field == Head::FIELD) {
        let stored = own.command(&["HGET", key, Head::FIELD]).expect("an answer");
        let head = stored.bytes().and_then(Head::parse);
        if head.is_none_or(|(_, first_holder)| !first_holder.is_empty()) {
            used.push(format!("{key}: its first holder"));
        }
    }
    let ends = own.command(&["TTL", key]).expect("an answer").int();
    if ends == Some(-1) && !STAY.iter().any(|name| key.strip_prefix("tt:") == Some(name)) {
        used.push(format!("{key} for ever"));
    }
    used
}
