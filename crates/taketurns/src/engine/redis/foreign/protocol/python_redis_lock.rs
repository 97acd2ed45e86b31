//! `lock:` as with `protocol=plain`, and `lock-signal:`, a list on which waiting clients block: each
//! release pushes to it.

use taketurns_core::{Kind, Name};

use super::{ProtocolForm, plain};
use crate::engine::{Durability, Guarantees};

pub(crate) const FORM: ProtocolForm = ProtocolForm {
    name: "python-redis-lock",
    kind: Kind::Mutex,
    keys: |lock: &Name| [SIGNALS, "lock:"].map(|key| format!("{key}{lock}").into()).into(),
    adapter: plain::FORM.adapter,
    adapter_of: plain::FORM.adapter_of,
    adapter_of_view: plain::FORM.adapter_of_view,
    // The server wakes those who block in order, but any newcomer may come before them.
    guarantees: Guarantees {
        fair: false,
        fenced: false,
        event_driven: true,
        survives: Durability::AnyClient,
    },
    no_cluster: Some("its keys have no hash tag, so they are on different nodes"),
};

/// The prefix of the lists that waiting clients block on; the lock's name follows.
pub(crate) const SIGNALS: &str = "lock-signal:";
