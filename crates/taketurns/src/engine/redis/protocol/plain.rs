//! `SET name value NX PX`, compare-and-delete, compare-and-expire: what most libraries speak, and what
//! Redlock is made of.

use taketurns_core::{Kind, Name};

use super::{Form, MUTEX, VIEW};
use crate::engine::{Durability, Guarantees};

pub(super) const FORM: Form = Form {
    name: "plain",
    kind: Kind::Mutex,
    keys: |lock: &Name| vec![lock.as_str().into()],
    gate: &[MUTEX, include_str!("../lua/gates/plain.lua")],
    view: &[VIEW, include_str!("../lua/gates/plain.view.lua")],
    // Strangers come and go as they like, and tell nobody.
    guarantees: Guarantees {
        fair: false,
        fenced: false,
        event_driven: false,
        survives: Durability::AnyClient,
    },
    no_cluster: None,
};
