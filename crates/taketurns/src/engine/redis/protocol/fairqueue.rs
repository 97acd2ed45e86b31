//! `lock:`, `lock-queue:` and `lock-notify:`, the fair queue mutex: who lets go calls the head of a queue.

use taketurns_core::{Kind, Name};

use super::{Form, MUTEX, VIEW};
use crate::engine::{Durability, Guarantees};

pub(super) const FORM: Form = Form {
    name: "fairqueue",
    kind: Kind::Mutex,
    keys: |lock: &Name| ["lock:", "lock-queue:"].map(|key| format!("{key}{lock}").into()).into(),
    gate: &[MUTEX, include_str!("../lua/gates/fairqueue.lua")],
    view: &[VIEW, include_str!("../lua/gates/fairqueue.view.lua")],
    guarantees: Guarantees {
        fair: true,
        fenced: false,
        event_driven: true,
        survives: Durability::AnyClient,
    },
    no_cluster: Some("its keys have no hash tag, so they are on different nodes"),
};

/// What the lists begin with that who waits is called by; its id follows.
pub(super) const CALLS: &str = "lock-notify:";
