//! Fuzzes the parsers of foreign messages and keys, which anybody with write access can send: a
//! text names a lock, or nothing.

use taketurns_core::Name;
use taketurns_servers::fuzz;

use crate::engine::redis::foreign::events::changed_key;
use crate::engine::redis::foreign::protocol::{
    ForeignProtocol, changed_lock, name_beside, tagged_name,
};
use crate::engine::redis::router::slots::slot;

#[test]
fn a_message_of_a_foreign_client_names_locks_or_nothing() {
    let genuine = ["stirred tt:\x02{orders}", "stirred tt:a{b}c", "orders:17x0a", "17x0a:a:b::c"];
    fuzz::rounds("foreign messages", 20_000, |dice| {
        let message = dice.damaged(&genuine);
        let heard = ForeignProtocol::Redturn.locks_in(&message);
        let whole = String::from_utf8_lossy(&message).into_owned();
        let named =
            heard.iter().chain(&changed_lock(&message, "tt:")).cloned().collect::<Vec<Name>>();
        assert!(named.iter().all(|name| whole.contains(name.as_str())), "{whole:?}: {named:?}");
        !named.is_empty()
    });
}

#[test]
fn a_channel_of_the_server_names_a_key_or_nothing() {
    let genuine = ["__keyspace@0__:orders", "__keyspace@15__:a b__:c"];
    fuzz::rounds("channels of the server", 20_000, |dice| {
        let channel = dice.damaged(&genuine);
        let whole = String::from_utf8_lossy(&channel).into_owned();
        let key = changed_key(&channel, b"zadd");
        assert!(key.is_none_or(|key| whole.contains(key)), "{whole:?}: {key:?}");
        key.is_some()
    });
}

#[test]
fn a_lock_is_known_by_its_key_beside_a_wire_which_is_in_its_slot() {
    let genuine = ["orders", "a{b}c", "}x", "{}x", "a}b", "{a", "a b__:c", "{}", "}{x}"];
    fuzz::rounds("keys beside a wire", 300, |dice| {
        let text = dice.damaged_text(&genuine);
        // A key that anybody may have made.
        assert!(text.contains(name_beside(&text)));
        let Ok(name) = Name::new(&text) else { return false };
        let key = tagged_name(&name);
        assert_eq!(name_beside(&key), name.as_str());
        assert_eq!(slot(format!("tt:{key}").as_bytes()), slot(text.as_bytes()), "{key:?}");
        true
    });
}
