//! A pool in one sorted set: its members are mutexes, and a member's score is the time at which it was last
//! taken or kept.

use taketurns_core::wire::Verb;
use taketurns_core::{Kind, Name};

use super::{COURTESY, ProtocolForm};
use crate::engine::{Durability, Guarantees};

/// Which members of the set are names.
const NAMES: &str = include_str!("../lua/zmutex.names.lua");

pub(crate) const FORM: ProtocolForm = ProtocolForm {
    name: "zmutex",
    kind: Kind::Pool,
    keys: |lock: &Name| vec![lock.as_str().into()],
    adapter: &[COURTESY, NAMES, include_str!("../lua/zmutex.lua")],
    adapter_of: &[
        (Verb::PoolAdd, include_str!("../lua/zmutex.pool_add.lua")),
        (Verb::PoolRemove, include_str!("../lua/zmutex.pool_remove.lua")),
    ],
    adapter_of_view: &[NAMES, include_str!("../lua/zmutex.view.lua")],
    // Events are of use where the server has them on, and nothing depends on them.
    guarantees: Guarantees {
        fair: false,
        fenced: false,
        event_driven: false,
        survives: Durability::AnyClient,
    },
    no_cluster: None,
};
