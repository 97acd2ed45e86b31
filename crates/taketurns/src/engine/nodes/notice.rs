//! What an engine over nodes has told its client about one owner, and what it tells next.

use taketurns_core::{ClientId, Name, Owner, Wake, WakeEvent};

use super::super::{EngineEvent, Origin};

/// What the client was told last about an owner, so that each change is told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportedState {
    Nothing,
    Waiting,
    Held,
    /// The lock was revoked or lost.
    Over,
}

/// A change to report to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnerNotice {
    Wake(WakeEvent),
    Lost,
}

impl OwnerNotice {
    pub(crate) fn into_event(self, lock: Name, client: ClientId, owner: Owner) -> EngineEvent {
        match self {
            Self::Wake(event) => {
                let wake = Wake { client, owner, event };
                EngineEvent::Wake { lock, wake, origin: Origin::default() }
            }
            Self::Lost => EngineEvent::Lost { owner },
        }
    }
}
