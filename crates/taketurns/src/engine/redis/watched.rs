//! Whose wake-ups are wanted: which owner a message is for, and whether it is genuine.
//!
//! A wake-up names its owner by a hash and is sealed with the owner's secret, so that nobody who may
//! publish can make one up. Who is not watched is not woken.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use taketurns_core::wire::{Sealed, public_id};
use taketurns_core::{ClientId, Name, Owner, Wake};

use super::UNKNOWN;
use crate::engine::{Origin, Woken};

pub(super) struct Watched {
    client: ClientId,
    owners: Mutex<Owners>,
}

#[derive(Default)]
struct Owners {
    /// By public id: the owner, and its lock.
    by_id: HashMap<String, (Owner, Name)>,
    /// The public id, which takes long to find out, and how many watch it.
    ids: BTreeMap<Owner, (String, u32)>,
}

impl Watched {
    pub(super) fn new(client: ClientId) -> Self {
        Self { client, owners: Mutex::default() }
    }

    pub(super) fn add(&self, lock: &Name, owner: Owner) {
        let mut owners = self.owners();
        if let Some((_, count)) = owners.ids.get_mut(&owner) {
            *count += 1;
            return;
        }
        let id = public_id(owner);
        owners.by_id.insert(id.clone(), (owner, lock.clone()));
        owners.ids.insert(owner, (id, 1));
    }

    pub(super) fn remove(&self, owner: Owner) {
        let mut owners = self.owners();
        let Some((_, count)) = owners.ids.get_mut(&owner) else { return };
        *count -= 1;
        if *count == 0
            && let Some((id, _)) = owners.ids.remove(&owner)
        {
            owners.by_id.remove(&id);
        }
    }

    /// Whose id that is, if somebody watches it.
    pub(super) fn owner_of(&self, id: &str) -> Option<Owner> {
        self.owners().by_id.get(id).map(|(owner, _)| *owner)
    }

    /// What a message says, if it is genuine and wanted.
    pub(super) fn open(
        &self,
        message: &[u8],
        origin_of_run: impl Fn(&str) -> Option<Origin>,
    ) -> Option<Woken> {
        let sealed = Sealed::parse(message)?;
        let (owner, lock) = {
            let owners = self.owners();
            let (owner, lock) = owners.by_id.get(sealed.id)?;
            (*owner, lock.clone())
        };
        let Some(event) = sealed.open(owner) else {
            tracing::warn!(%lock, "a wake-up that its owner's server did not make was ignored");
            return None;
        };
        let wake = Wake { client: self.client, owner, event };
        Some(Woken::Wake { lock, wake, origin: origin_of_run(sealed.run).unwrap_or(UNKNOWN) })
    }

    fn owners(&self) -> MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taketurns_core::wire::{owner_text, sha1_hex};
    use taketurns_core::{Token, WakeEvent};

    fn message(owner: Owner, sealed_by: Owner, event: &str) -> Vec<u8> {
        let body = format!("{} 0123456789abcdef {event}", public_id(owner));
        format!("{} {body}", sha1_hex(owner_text(sealed_by) + &body)).into_bytes()
    }

    #[test]
    fn only_a_genuine_message_for_a_watched_owner_counts() {
        let (owner, stranger) = (Owner::from_bits(7), Owner::from_bits(8));
        let watched = Watched::new(ClientId::from_bits(1));
        let lock = Name::new("l").unwrap();
        let open = |message: &[u8]| watched.open(message, |_| None);
        let genuine = message(owner, owner, "V 12");
        assert_eq!(open(&genuine), None, "nobody watches");
        watched.add(&lock, owner);
        watched.add(&lock, owner);
        let revoked = |token: Option<u64>| {
            let event = WakeEvent::Revoked { token: token.map(Token::from_raw) };
            let wake = Wake { client: ClientId::from_bits(1), owner, event };
            Some(Woken::Wake { lock: lock.clone(), wake, origin: UNKNOWN })
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
        watched.remove(owner);
        assert!(open(&genuine).is_some(), "watched once more");
        watched.remove(owner);
        assert_eq!(open(&genuine), None);
        watched.remove(owner);
    }
}
