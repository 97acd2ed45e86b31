//! A pool in one sorted set: its members are mutexes, and a member's score is the time at which it was last
//! taken or kept.

use taketurns_core::{Kind, Name};

use super::{Form, VIEW};
use crate::engine::{Durability, Guarantees};

/// Which members of the set are names.
const NAMES: &str = include_str!("../lua/gates/zmutex.names.lua");

pub(super) const FORM: Form = Form {
    name: "zmutex",
    kind: Kind::Pool,
    keys: |lock: &Name| vec![lock.as_str().into()],
    gate: &[NAMES, include_str!("../lua/gates/zmutex.lua")],
    view: &[VIEW, NAMES, include_str!("../lua/gates/zmutex.view.lua")],
    // Events are of use where the server has them on, and nothing depends on them.
    guarantees: Guarantees {
        fair: false,
        fenced: false,
        event_driven: false,
        survives: Durability::AnyClient,
    },
    no_cluster: None,
};
