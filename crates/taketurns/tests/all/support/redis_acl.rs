//! The least that a user of the server needs, as SECURITY.md has it for the prefix `tt:`:
//!
//! ```text
//!   ACL SETUSER taketurns on >PASSWORD resetkeys ~tt:* resetchannels &tt:wake:* nocommands +…
//! ```

use taketurns_servers::Server;

/// All commands that clients send, and that scripts run inside: those are checked too. `HELLO` and
/// `AUTH` need no right. `select` is for a URL with a database, `cluster|slots` and `asking` are for a
/// Cluster, `config|get` is for Sentinel and may be missing.
pub(crate) const COMMANDS: [&str; 18] = [
    // To get to know the server, and to be woken.
    "info",
    "time",
    "subscribe",
    "publish",
    // The marker and the scripts.
    "get",
    "set",
    "eval",
    "evalsha",
    "script|load",
    // A lock.
    "hmget",
    "hget",
    "hlen",
    "hset",
    "hdel",
    "pexpireat",
    "persist",
    "del",
    // Listings.
    "scan",
];

const PASSWORD: &str = "secret";

/// Makes or replaces a user with just these rights on one prefix.
pub(crate) fn set_user(server: &Server, user: &str, prefix: &str, commands: &[&str]) {
    let (password, keys) = (format!(">{PASSWORD}"), format!("~{prefix}*"));
    let channels = format!("&{prefix}wake:*");
    let mut words = vec!["ACL", "SETUSER", user, "reset", "on", &password, &keys];
    words.extend(["resetchannels", &channels]);
    let rights: Vec<String> = commands.iter().map(|command| format!("+{command}")).collect();
    words.extend(rights.iter().map(String::as_str));
    let reply = server.cli(&words);
    assert!(reply.is_ok(), "{words:?}: {reply}");
}

/// The URL of that user.
pub(crate) fn url(server: &Server, user: &str) -> String {
    server.url().replacen("://", &format!("://{user}:{PASSWORD}@"), 1)
}
