//! Whose wake-ups are wanted: which owner a message is for, and whether it is genuine.
//!
//! A wake-up names its owner by a hash and is sealed with the owner's secret, so that nobody who may
//! publish can make one up. Who is not watched is not woken.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use taketurns_core::wire::{Sealed, public_id};
use taketurns_core::{ClientId, Name, Owner, Wake};

use super::UNKNOWN;
use crate::engine::{Origin, Woken};

pub(super) struct Watched {
    client: ClientId,
    owners: Mutex<Owners>,
}

/// Invariant: an owner is in `ids` with its id, or in `unnamed`.
#[derive(Default)]
struct Owners {
    watched: HashMap<Owner, Watch>,
    /// The owners by their public id.
    ids: HashMap<String, Owner>,
    /// Those whose public id nobody has needed yet: it is a hash, and most owners are never sent a
    /// message.
    unnamed: HashSet<Owner>,
}

struct Watch {
    lock: Name,
    /// How many watch it.
    count: u32,
    /// Its public id, once somebody needed it.
    id: Option<String>,
}

impl Owners {
    /// Finds an owner. Each is hashed once at most, however many messages there are.
    fn find(&mut self, id: &str) -> Option<(Owner, &Name)> {
        if !self.ids.contains_key(id) {
            for owner in self.unnamed.drain() {
                if let Some(watch) = self.watched.get_mut(&owner) {
                    let id = public_id(owner);
                    watch.id = Some(id.clone());
                    self.ids.insert(id, owner);
                }
            }
        }
        let owner = *self.ids.get(id)?;
        Some((owner, &self.watched.get(&owner)?.lock))
    }
}

impl Watched {
    pub(super) fn new(client: ClientId) -> Self {
        Self { client, owners: Mutex::default() }
    }

    pub(super) fn add(&self, lock: &Name, owner: Owner) {
        let mut owners = self.owners();
        if let Some(watch) = owners.watched.get_mut(&owner) {
            watch.count += 1;
            return;
        }
        owners.watched.insert(owner, Watch { lock: lock.clone(), count: 1, id: None });
        owners.unnamed.insert(owner);
    }

    pub(super) fn remove(&self, owner: Owner) {
        let mut owners = self.owners();
        let Some(watch) = owners.watched.get_mut(&owner) else { return };
        watch.count -= 1;
        if watch.count > 0 {
            return;
        }
        match owners.watched.remove(&owner).and_then(|watch| watch.id) {
            Some(id) => drop(owners.ids.remove(&id)),
            None => drop(owners.unnamed.remove(&owner)),
        }
    }

    /// Whose id that is, if somebody watches it.
    pub(super) fn owner_of(&self, id: &str) -> Option<Owner> {
        self.owners().find(id).map(|(owner, _)| owner)
    }

    /// What a message says, if it is genuine and wanted.
    pub(super) fn open(
        &self,
        message: &[u8],
        origin_of_run: impl Fn(&str) -> Option<Origin>,
    ) -> Option<Woken> {
        let sealed = Sealed::parse(message)?;
        let (owner, lock) = {
            let mut owners = self.owners();
            let (owner, lock) = owners.find(sealed.id)?;
            (owner, lock.clone())
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
