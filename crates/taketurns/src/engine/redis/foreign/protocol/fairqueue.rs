//! `lock:`, `lock-queue:` and `lock-notify:`, the fair queue mutex: who lets go calls the head of a queue.

use taketurns_core::{Kind, Name};

use super::{COURTESY, MUTEX, ProtocolForm};
use crate::engine::{Durability, Guarantees};

pub(crate) const FORM: ProtocolForm = ProtocolForm {
    name: "fairqueue",
    kind: Kind::Mutex,
    keys: |lock: &Name| ["lock:", "lock-queue:"].map(|key| format!("{key}{lock}").into()).into(),
    adapter: &[COURTESY, MUTEX, include_str!("../lua/fairqueue.lua")],
    adapter_of: &[],
    adapter_of_view: &[include_str!("../lua/fairqueue.view.lua")],
    guarantees: Guarantees {
        fair: true,
        fenced: false,
        event_driven: true,
        survives: Durability::AnyClient,
    },
    no_cluster: Some("its keys have no hash tag, so they are on different nodes"),
};

/// The prefix of the lists that notify waiters; the waiter's id follows.
pub(crate) const CALLS: &str = "lock-notify:";
