//! A list of `id:channel:timeout`, whose head holds the lock. Who gives it back tells the next on its
//! channel.

use taketurns_core::{Kind, Name};

use super::{MUTEX, ProtocolForm};
use crate::engine::{Durability, Guarantees};

pub(crate) const FORM: ProtocolForm = ProtocolForm {
    name: "redturn",
    kind: Kind::Mutex,
    keys: |lock: &Name| vec![lock.as_str().into()],
    adapter: &[MUTEX, include_str!("../lua/redturn.lua")],
    adapter_of: &[],
    adapter_of_view: &[include_str!("../lua/redturn.view.lua")],
    // Foreign clients stand in the same list, and publish to ours.
    guarantees: Guarantees {
        fair: true,
        fenced: false,
        event_driven: true,
        survives: Durability::AnyClient,
    },
    no_cluster: None,
};

/// The channel of a client, as it can stand in the list: that is parted at each colon. The adapter has
/// the same rule.
pub(crate) fn channel(channel: &str) -> String {
    channel.replace(':', ".")
}

/// A foreign client says that one of ours is the head: `list:id` of old, `id:list` of late. No id has a colon,
/// but names may: so it may be about either of two. Anybody may say so: it does no more than that we ask.
pub(crate) fn locks_in(message: &[u8]) -> Vec<Name> {
    let Ok(message) = std::str::from_utf8(message) else { return Vec::new() };
    let late = message.split_once(':').map(|(_, list)| list);
    let old = message.rsplit_once(':').map(|(list, _)| list);
    late.into_iter().chain(old).filter_map(|list| Name::new(list).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard_of(message: &str) -> Vec<String> {
        locks_in(message.as_bytes()).iter().map(Name::to_string).collect()
    }

    #[test]
    fn a_name_is_found_in_both_words_whatever_colons_it_has() {
        assert!(heard_of("orders:17x0a").contains(&"orders".to_owned()));
        assert!(heard_of("17x0a:orders").contains(&"orders".to_owned()));
        assert!(heard_of("a:b::c:17x0a").contains(&"a:b::c".to_owned()));
        assert!(heard_of("17x0a:a:b::c").contains(&"a:b::c".to_owned()));
    }

    #[test]
    fn what_names_no_lock_is_none() {
        for message in ["", "orders", ":", "\n:\n"] {
            assert_eq!(heard_of(message), [""; 0], "{message:?}");
        }
        assert_eq!(locks_in(b"\xff:\xfe"), []);
    }

    #[test]
    fn the_channel_for_foreign_clients_has_no_colon() {
        assert_eq!(channel("tt:wake:00ff"), "tt.wake.00ff");
    }
}
