//! Public ids of owners: the hash by which an engine names an owner to others. Made only when somebody asks,
//! since most owners are never sent a message.

use std::collections::HashMap;

use super::Session;
use crate::wire::public_id;
use crate::{Name, Owner};

/// Invariant: an owner that acquires or holds has its id noted with that and in `named`, or is in `unnamed`.
#[derive(Debug, Default)]
pub(super) struct PublicIds {
    named: HashMap<String, Owner>,
    /// Those whose id nobody has asked for yet, and some that are over by now.
    unnamed: Vec<Owner>,
}

/// Owners that are over are cleared away once there are more of them than of others, and a few.
const OVER_MAX: usize = 64;

impl Session {
    /// Whose public id that is, and the lock that it wants or holds. Each owner is hashed once at most, however
    /// many ask.
    pub fn find_owner(&mut self, id: &str) -> Option<(Owner, Name)> {
        if !self.ids.named.contains_key(id) {
            for owner in std::mem::take(&mut self.ids.unnamed) {
                if let Some((_, noted)) = self.noted_id(owner) {
                    let id = public_id(owner);
                    *noted = Some(id.clone());
                    self.ids.named.insert(id, owner);
                }
            }
        }
        let owner = *self.ids.named.get(id)?;
        let (lock, _) = self.noted_id(owner)?;
        Some((owner, lock.clone()))
    }

    /// How many owners acquire or hold.
    pub fn owner_count(&self) -> usize {
        self.acquires.len() + self.holds.len()
    }

    /// Does this owner acquire?
    pub fn is_acquiring(&self, owner: Owner) -> bool {
        self.acquires.contains_key(&owner)
    }

    /// Does this owner acquire or hold, or is it about to be released?
    pub fn has_owner(&self, owner: Owner) -> bool {
        self.is_live(owner) || self.releases.values().any(|release| release.owner == owner)
    }

    fn is_live(&self, owner: Owner) -> bool {
        self.acquires.contains_key(&owner) || self.holds.contains_key(&owner)
    }

    /// From now on an owner acquires or holds.
    pub(super) fn note_owner(&mut self, owner: Owner) {
        if self.ids.unnamed.len() >= 2 * self.owner_count() + OVER_MAX {
            let mut unnamed = std::mem::take(&mut self.ids.unnamed);
            unnamed.retain(|owner| self.is_live(*owner));
            // A handle may be adopted again and again.
            unnamed.sort_unstable();
            unnamed.dedup();
            self.ids.unnamed = unnamed;
        }
        self.ids.unnamed.push(owner);
    }

    /// An owner with this id is over.
    pub(super) fn forget_id(&mut self, id: Option<String>) {
        if let Some(id) = id {
            self.ids.named.remove(&id);
        }
    }

    fn noted_id(&mut self, owner: Owner) -> Option<(&Name, &mut Option<String>)> {
        if let Some(acquire) = self.acquires.get_mut(&owner) {
            return Some((&acquire.spec.terms.lock, &mut acquire.id));
        }
        let held = self.holds.get_mut(&owner)?;
        Some((held.hold.name(), &mut held.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{AcquireSpec, Anchor, HoldTerms, Origin, WaitLimit, WakerSwap};
    use crate::{Ask, ClientId, Grant, Label};

    fn terms(owner: u128) -> HoldTerms {
        HoldTerms {
            lock: Name::new("l").unwrap(),
            owner: Owner::from_bits(owner),
            lease_ms: 30_000,
            max_hold_us: None,
            bury_until_ms: 0,
        }
    }

    fn begin(session: &mut Session, owner: u128) {
        let (ask, label, wait_limit) = (Ask::Mutex, Label::default(), WaitLimit::Endless);
        session.begin_acquire(AcquireSpec { terms: terms(owner), ask, label, wait_limit });
    }

    fn adopt(session: &mut Session, owner: u128) -> std::sync::Arc<crate::session::Hold> {
        let grant = Grant { token: None, tokens: 1, deadline_ms: 30_000, member: None, vote: None };
        let anchor = Anchor { sent_us: 0, engine_ms: 0 };
        let adopted = session.adopt(0, terms(owner), None, grant, (Origin::default(), anchor));
        adopted.expect("a lease")
    }

    fn finds(session: &mut Session, owner: u128) -> bool {
        let owner = Owner::from_bits(owner);
        session.find_owner(&public_id(owner)).is_some_and(|(found, _)| found == owner)
    }

    #[test]
    fn an_owner_is_found_for_as_long_as_it_acquires_or_holds() {
        let mut session = Session::new(ClientId::from_bits(1), 0);
        assert!(!finds(&mut session, 1));
        begin(&mut session, 1);
        assert!(finds(&mut session, 1));
        begin(&mut session, 2);
        assert!(finds(&mut session, 2) && finds(&mut session, 1));
        session.cancel_acquire(0, Owner::from_bits(1), &mut WakerSwap::default());
        assert!(finds(&mut session, 2) && !finds(&mut session, 1));
        let hold = adopt(&mut session, 3);
        assert!(finds(&mut session, 3));
        session.carry(&hold, None);
        assert!(!finds(&mut session, 3));
        session.cancel_acquire(0, Owner::from_bits(2), &mut WakerSwap::default());
        assert!(session.ids.named.is_empty());
    }

    #[test]
    fn one_that_is_being_released_is_known_and_not_found() {
        let mut session = Session::new(ClientId::from_bits(1), 0);
        let hold = adopt(&mut session, 1);
        let end = session.release(0, &hold, None);
        let (id, _) = end.release.expect("it is given back");
        assert!(session.has_owner(hold.owner()) && !finds(&mut session, 1));
        session.handle_release_answer(
            0,
            id,
            Err(crate::session::CallFailure::Unsupported),
            &mut WakerSwap::default(),
        );
        assert!(!session.has_owner(hold.owner()));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut session = Session::new(ClientId::from_bits(1), 0);
        for owner in 0..1_000 {
            begin(&mut session, owner);
            session.cancel_acquire(0, Owner::from_bits(owner), &mut WakerSwap::default());
            adopt(&mut session, 7_000);
            assert!(session.ids.unnamed.len() <= 2 + OVER_MAX, "{}", session.ids.unnamed.len());
        }
        assert!(finds(&mut session, 7_000));
    }
}
