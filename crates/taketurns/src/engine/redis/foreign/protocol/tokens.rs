//! A foreign protocol has no room for tokens. Our own state counts them all the same, for native clients; to
//! clients of the protocol they would mean nothing, since foreign clients have none.

use taketurns_core::{Grant, Reply, View, WakeEvent};

use crate::engine::EngineEvent;

/// A value that contains tokens and can be shown without them.
pub(crate) trait Tokens {
    fn without_tokens(self) -> Self;
}

impl Tokens for Grant {
    fn without_tokens(self) -> Self {
        Self { token: None, ..self }
    }
}

impl Tokens for Reply {
    fn without_tokens(self) -> Self {
        match self {
            Self::Granted(grant) => Self::Granted(grant.without_tokens()),
            Self::Renewed(grant) => Self::Renewed(grant.without_tokens()),
            Self::Refreshed { waiting, front, recheck_ms, quarantined_until_ms, granted } => {
                let bare = |(owner, grant): (_, Grant)| (owner, grant.without_tokens());
                let granted = granted.into_iter().map(bare).collect();
                Self::Refreshed { waiting, front, recheck_ms, quarantined_until_ms, granted }
            }
            other => other,
        }
    }
}

impl Tokens for EngineEvent {
    fn without_tokens(mut self) -> Self {
        if let Self::Wake { wake, .. } = &mut self {
            match &mut wake.event {
                WakeEvent::Granted(grant) => grant.token = None,
                WakeEvent::Revoked { token } => *token = None,
                _ => {}
            }
        }
        self
    }
}

impl Tokens for View {
    fn without_tokens(mut self) -> Self {
        self.last_token = None;
        self.holders.iter_mut().for_each(|holder| holder.token = None);
        self
    }
}
