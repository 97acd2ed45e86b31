//! The names of all locks, found by SCAN: never by KEYS, which stops a server for as long as it
//! takes.
//!
//! SCAN has no order, and a listing is in the order of the names, page by page. So the names are
//! gathered once, for the first page, and kept for the pages that follow.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redis::{Value, cmd};
use taketurns_core::{Name, Pattern};

use super::foreign::protocol::name_beside;
use super::handshake::ServerSession;
use super::handshake::module;
use super::router::Router;
use crate::engine::EngineError;

/// How many keys are asked for at a time: replies of more than 32 MB would cost a connection that
/// listens.
const PAGE: usize = 500;
/// How many locks are looked at at a time. One that is crowded, with the longest names and labels,
/// is shown in 2 MB.
pub(super) const LOOK: usize = 12;

#[derive(Default)]
pub(super) struct Listing {
    /// Keys may have the names that they are for in a form that no pattern matches.
    are_tagged: bool,
    /// The pattern of the listing under way, and all its names.
    kept: Mutex<Option<(Pattern, Vec<Name>)>>,
}

impl Listing {
    pub(super) fn new(are_tagged: bool) -> Self {
        Self { are_tagged, kept: Mutex::default() }
    }

    /// The names after this one that match, in order.
    pub(super) async fn names(
        &self,
        router: &Router,
        prefix: &str,
        pattern: &Pattern,
        after: Option<&Name>,
    ) -> Result<Vec<Name>, EngineError> {
        if let Some(after) = after
            && let Some((kept, names)) = self.kept().as_ref()
            && kept == pattern
        {
            return Ok(following(names, Some(after)));
        }
        let all = Pattern::new("*");
        let asked = if self.are_tagged { &all } else { pattern };
        let mut names = scan(router, prefix, asked).await?;
        names.retain(|name| pattern.matches(name.as_str()));
        let following = following(&names, after);
        *self.kept() = Some((pattern.clone(), names));
        Ok(following)
    }

    /// The listing has come to its end.
    pub(super) fn forget(&self) {
        *self.kept() = None;
    }

    fn kept(&self) -> MutexGuard<'_, Option<(Pattern, Vec<Name>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn following(names: &[Name], after: Option<&Name>) -> Vec<Name> {
    let from = after.map_or(0, |after| names.partition_point(|name| name <= after));
    names[from..].to_vec()
}

/// Each name once, though SCAN may give one twice, and two nodes may while a slot moves, and the module
/// may take a lock over while we look.
async fn scan(router: &Router, prefix: &str, pattern: &Pattern) -> Result<Vec<Name>, EngineError> {
    let mut names = BTreeSet::new();
    for session in router.masters().await? {
        // What the module takes over meanwhile is found by the second.
        let native = session.backend.has_module().then_some(module::KEY_TYPE);
        for key_type in [Some("hash"), native].into_iter().flatten() {
            scan_one(&session, key_type, (prefix, pattern), &mut names).await?;
        }
    }
    Ok(names.into_iter().collect())
}

async fn scan_one(
    session: &ServerSession,
    key_type: &str,
    (prefix, pattern): (&str, &Pattern),
    names: &mut BTreeSet<Name>,
) -> Result<(), EngineError> {
    let matching = key_pattern(prefix, pattern);
    let mut cursor = String::from("0");
    loop {
        let mut command = cmd("SCAN");
        command.arg(&cursor).arg("MATCH").arg(&matching).arg("COUNT").arg(PAGE);
        command.arg("TYPE").arg(key_type);
        let reply = session.connection().send(&command).await?;
        let (next, keys) = page(session, reply)?;
        names.extend(keys.iter().filter_map(|key| {
            let name = std::str::from_utf8(key).ok()?.strip_prefix(prefix)?;
            Name::new(name_beside(name)).ok().filter(|name| pattern.matches(name.as_str()))
        }));
        if next == "0" {
            return Ok(());
        }
        cursor = next;
    }
}

fn page(session: &ServerSession, reply: Value) -> Result<(String, Vec<Vec<u8>>), EngineError> {
    redis::from_redis_value(reply).map_err(|_| super::malformed(session, "SCAN"))
}

/// What the server is to look for: the prefix and as much of the pattern as is plain. A `?` of ours
/// is a character, and of the server's a byte.
fn key_pattern(prefix: &str, pattern: &Pattern) -> String {
    let plain = pattern.as_str().split(['*', '?']).next().unwrap_or_default();
    let mut text = String::new();
    for c in prefix.chars().chain(plain.chars()) {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '^') {
            text.push('\\');
        }
        text.push(c);
    }
    if plain.len() < pattern.as_str().len() {
        text.push('*');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_plain_is_left_to_the_server() {
        let of = |prefix, pattern| key_pattern(prefix, &Pattern::new(pattern));
        assert_eq!(of("tt:", "*"), "tt:*");
        assert_eq!(of("tt:", "orders/*"), "tt:orders/*");
        assert_eq!(of("tt:", "a?c"), "tt:a*");
        assert_eq!(of("tt:", "exact"), "tt:exact");
        assert_eq!(of("[x]*", "a[b]"), "\\[x\\]\\*a\\[b\\]");
    }

    #[test]
    fn a_page_begins_after_a_name() {
        let names: Vec<Name> = ["a", "b", "c"].map(|name| Name::new(name).unwrap()).into();
        let after = |name: &str| following(&names, Some(&Name::new(name).unwrap())).len();
        assert_eq!(following(&names, None).len(), 3);
        assert_eq!((after("a"), after("bb"), after("c"), after("A")), (2, 1, 0, 3));
    }
}
