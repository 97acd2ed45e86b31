//! Wake-ups: messages that servers publish to this client. Which owner one is for, and whether it is genuine.
//!
//! A wake-up names its owner by a hash and is sealed with the owner's secret, so that nobody who may
//! publish can forge a grant. A message for nobody is dropped.

use std::sync::{Arc, OnceLock, Weak};

use taketurns_core::wire::SealedWake;
use taketurns_core::{ClientId, Wake};

use super::router::Router;
use crate::engine::{EngineEvent, Origin, Wakes};
use crate::telling::target;

/// Reads the wake-ups of one client, and pushes them.
pub(super) struct WakeUpReader {
    client: ClientId,
    pub(super) wakes: Wakes,
    /// It knows on which connection a server's clock is read. Empty while it connects.
    router: OnceLock<Weak<Router>>,
}

impl WakeUpReader {
    pub(super) fn new(client: ClientId, wakes: Wakes) -> Self {
        Self { client, wakes, router: OnceLock::new() }
    }

    pub(super) fn set_router(&self, router: &Arc<Router>) {
        let _ = self.router.set(Arc::downgrade(router));
    }

    /// Pushes what a message says.
    pub(super) fn handle_message(&self, message: &[u8]) {
        self.read(message).into_iter().for_each(|event| self.wakes.push(event));
    }

    /// What a message says, if it is genuine and for somebody.
    pub(super) fn read(&self, message: &[u8]) -> Option<EngineEvent> {
        let sealed = SealedWake::parse(message)?;
        let (owner, lock) = self.wakes.find_owner(sealed.id)?;
        let Some(event) = sealed.open(owner) else {
            tracing::warn!(target: target::REDIS, %lock, "a wake-up that its owner's server did not make was ignored");
            return None;
        };
        let wake = Wake { client: self.client, owner, event };
        let router = self.router.get().and_then(Weak::upgrade);
        let origin = router.and_then(|router| router.origin_of_run(sealed.run));
        Some(EngineEvent::Wake { lock, wake, origin: origin.unwrap_or(Origin::UNKNOWN) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taketurns_core::wire::{owner_text, public_id, sha1_hex};
    use taketurns_core::{Name, Owner, Token, WakeEvent};

    fn message(owner: Owner, sealed_by: Owner, event: &str) -> Vec<u8> {
        let body = format!("{} 0123456789abcdef {event}", public_id(owner));
        format!("{} {body}", sha1_hex(owner_text(sealed_by) + &body)).into_bytes()
    }

    #[test]
    fn only_a_genuine_message_for_somebody_counts() {
        let (owner, stranger) = (Owner::from_bits(7), Owner::from_bits(8));
        let (wakes, _woken) = Wakes::channel();
        let lock = Name::new("l").unwrap();
        let reader = WakeUpReader::new(ClientId::from_bits(1), wakes.clone());
        let open = |message: &[u8]| reader.read(message);
        let genuine = message(owner, owner, "V 12");
        assert_eq!(open(&genuine), None, "for nobody");
        wakes.register_owner(&lock, owner);
        let revoked = |token: Option<u64>| {
            let event = WakeEvent::Revoked { token: token.map(Token::from_raw) };
            let wake = Wake { client: ClientId::from_bits(1), owner, event };
            Some(EngineEvent::Wake { lock: lock.clone(), wake, origin: Origin::UNKNOWN })
        };
        assert_eq!(open(&genuine), revoked(Some(12)));
        assert_eq!(open(&message(owner, owner, "V")), revoked(None), "by scripts of before");
        assert_eq!(open(&message(owner, owner, "V x")), None, "of no token");
        assert_eq!(open(&message(owner, stranger, "V 12")), None, "forged");
        assert_eq!(open(&message(stranger, stranger, "V 12")), None, "somebody else's");
        assert_eq!(open(&message(owner, owner, "?")), None, "unheard of");
        for junk in [&b""[..], b"x", b"a b c", b"\xff\xfe \xff"] {
            assert_eq!(open(junk), None);
        }
    }
}
