//! `SET name value NX PX`, compare-and-delete, compare-and-expire: what most libraries speak, and what
//! Redlock is made of.

use taketurns_core::{Kind, Name};

use super::{COURTESY, Form, MUTEX};
use crate::engine::{Guarantees, Survives};

pub(crate) const FORM: Form = Form {
    name: "plain",
    kind: Kind::Mutex,
    keys: |lock: &Name| vec![lock.as_str().into()],
    adapter: &[COURTESY, MUTEX, include_str!("../lua/plain.lua")],
    adapter_of: &[],
    adapter_of_view: &[include_str!("../lua/plain.view.lua")],
    // Strangers come and go as they like, and tell nobody.
    guarantees: Guarantees {
        fair: false,
        fenced: false,
        event_driven: false,
        survives: Survives::AnyClient,
    },
    no_cluster: None,
};
