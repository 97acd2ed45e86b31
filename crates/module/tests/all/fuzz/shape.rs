//! The valid forms of a reply.

use taketurns_core::wire;
use taketurns_servers::ServerReply;

const SECRET_MAX: i64 = (1 << 53) - 1;

/// The error codes of the module's commands.
const OURS: [&str; 15] = [
    "ERR",
    "WRONGTYPE",
    "NOTHELD",
    "REVOKED",
    "KIND",
    "QUEUEFULL",
    "POOLFULL",
    "QUARANTINED",
    "STALE",
    "TRYAGAIN",
    "NOPERM",
    "OOM",
    "READONLY",
    "TTVERIFY",
    "UNBLOCKED",
];

/// Further codes of the server's own commands.
const THEIRS: [&str; 3] = ["BUSYKEY", "EXECABORT", "NOSCRIPT"];

/// Returns the first word of an error, or the form of another reply.
pub(crate) fn code(reply: &ServerReply) -> &str {
    match reply {
        ServerReply::Error(text) => text.split(' ').next().unwrap_or_default(),
        ServerReply::Nil => "nil",
        ServerReply::Simple(_) => "status",
        ServerReply::Int(_) => "number",
        ServerReply::Bulk(_) => "text",
        ServerReply::Array(_) => "array",
    }
}

pub(crate) fn is_ours(words: &[Vec<u8>]) -> bool {
    words.first().is_some_and(|name| name.to_ascii_uppercase().starts_with(b"FENCELOCK."))
}

/// Is this a valid reply to that command?
pub(crate) fn fits(words: &[Vec<u8>], reply: &ServerReply) -> bool {
    let name = words.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
    if let ServerReply::Error(text) = reply {
        let code = code(reply);
        let known = OURS.contains(&code) || !is_ours(words) && THEIRS.contains(&code);
        return known && !text.contains("bug in the module");
    }
    match name.as_slice() {
        b"FENCELOCK.ACQUIRE" => *reply == ServerReply::Nil || is_grant(reply),
        b"FENCELOCK.RELEASE" | b"FENCELOCK.RENEW" => *reply == ServerReply::Nil || reply.is_ok(),
        b"FENCELOCK.CHECK" => reply.is_ok(),
        b"FENCELOCK.SHOW" => *reply == ServerReply::Nil || is_shown(reply),
        b"FENCELOCK.LIST" => is_list(reply),
        b"FENCELOCK.BREAK" | b"FENCELOCK.POOL" => reply.int().is_some_and(|count| count >= 0),
        b"FENCELOCK.HELP" => reply.array().is_some_and(|lines| !lines.is_empty()),
        b"FENCELOCK.BIND" => reply.bytes().is_some_and(|id| id.len() == 16),
        b"FENCELOCK.DO" => is_done(words, reply),
        // APPLY is refused, and there are no others.
        _ => !is_ours(words),
    }
}

fn is_grant(reply: &ServerReply) -> bool {
    let number = |reply: &ServerReply| reply.int().is_some_and(|n| (1..=SECRET_MAX).contains(&n));
    match reply.array() {
        Some([secret, token]) => number(secret) && number(token),
        Some([secret, token, member]) => {
            number(secret) && number(token) && member.text().is_some_and(|name| !name.is_empty())
        }
        _ => false,
    }
}

fn is_shown(reply: &ServerReply) -> bool {
    let list = |name| reply.field(name).and_then(ServerReply::array).is_some();
    let number = |name| reply.field(name).and_then(ServerReply::int).is_some_and(|n| n >= 0);
    reply.array().is_some_and(|pairs| pairs.len() == 18)
        && ["holders", "waiters", "members", "work"].into_iter().all(list)
        && ["token", "admitted", "quarantine_ms", "waiting"].into_iter().all(number)
}

fn is_list(reply: &ServerReply) -> bool {
    let Some([next, ServerReply::Array(locks)]) = reply.array() else { return false };
    let is_lock = |lock: &ServerReply| lock.field("key").is_some_and(|key| key.bytes().is_some());
    next.text().is_some_and(|cursor| cursor.parse::<u64>().is_ok()) && locks.iter().all(is_lock)
}

fn is_done(words: &[Vec<u8>], reply: &ServerReply) -> bool {
    if words.get(3).is_some_and(|verb| verb == b"view") {
        return *reply == ServerReply::Nil
            || reply.text().is_some_and(|text| text.starts_with('{'));
    }
    reply.text().is_some_and(|text| wire::decode(text, |_| None).is_some())
}
