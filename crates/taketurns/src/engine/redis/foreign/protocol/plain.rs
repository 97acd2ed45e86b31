//! `SET name value NX PX`, compare-and-delete, compare-and-expire: what most libraries speak, and what
//! Redlock is made of.

use taketurns_core::{Kind, Name};

use super::{COURTESY, MUTEX, ProtocolForm};
use crate::engine::{Durability, Guarantees};

pub(crate) const FORM: ProtocolForm = ProtocolForm {
    name: "plain",
    kind: Kind::Mutex,
    keys: |lock: &Name| vec![lock.as_str().into()],
    adapter: &[COURTESY, MUTEX, include_str!("../lua/plain.lua")],
    adapter_of: &[],
    adapter_of_view: &[include_str!("../lua/plain.view.lua")],
    // Foreign clients poll, and notify nobody.
    guarantees: Guarantees {
        fair: false,
        fenced: false,
        event_driven: false,
        survives: Durability::AnyClient,
    },
    no_cluster: None,
};
