//! Who holds the lock: by owner, and by deadline so that expiry costs nothing until it is due.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{Ask, ClientId, Grant, Label, Member, Now, Owner, Token};

/// One holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Holder {
    pub(super) owner: Owner,
    pub(super) client: ClientId,
    pub(super) token: Token,
    pub(super) ask: Ask,
    pub(super) member: Option<Member>,
    pub(super) lease_ms: u64,
    pub(super) deadline_ms: u64,
    pub(super) since_ms: u64,
    /// Handed over, and not yet renewed: the client may not know of it.
    pub(super) handed: bool,
    pub(super) revoked: bool,
    pub(super) label: Label,
}

impl Holder {
    pub(super) fn grant(&self) -> Grant {
        Grant {
            token: Some(self.token),
            deadline_ms: self.deadline_ms,
            member: self.member.clone(),
        }
    }
}

/// All holders of one lock. Invariant: `by_deadline` has exactly one entry per holder, at its
/// deadline, and `weight` is the sum of what they asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Holders {
    by_owner: BTreeMap<Owner, Holder>,
    by_deadline: BTreeSet<(u64, Owner)>,
    weight: u64,
}

impl Holders {
    pub(super) fn len(&self) -> usize {
        self.by_owner.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_owner.is_empty()
    }

    /// The sum of what all holders asked for.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    pub(super) fn get(&self, owner: Owner) -> Option<&Holder> {
        self.by_owner.get(&owner)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Holder> {
        self.by_owner.values()
    }

    /// The earliest deadline of all.
    pub(super) fn first_deadline_ms(&self) -> Option<u64> {
        self.by_deadline.first().map(|&(deadline_ms, _)| deadline_ms)
    }

    /// The latest deadline of all.
    pub(super) fn last_deadline_ms(&self) -> Option<u64> {
        self.by_deadline.last().map(|&(deadline_ms, _)| deadline_ms)
    }

    /// Takes a new holder. False, and nothing done, if its owner holds already.
    pub(super) fn insert(&mut self, holder: Holder) -> bool {
        if self.by_owner.contains_key(&holder.owner) {
            return false;
        }
        self.weight += holder.ask.weight();
        self.by_deadline.insert((holder.deadline_ms, holder.owner));
        self.by_owner.insert(holder.owner, holder);
        true
    }

    pub(super) fn remove(&mut self, owner: Owner) -> Option<Holder> {
        let holder = self.by_owner.remove(&owner)?;
        self.by_deadline.remove(&(holder.deadline_ms, owner));
        self.weight -= holder.ask.weight();
        Some(holder)
    }

    /// Changes a holder, and keeps the order of deadlines right.
    pub(super) fn update(
        &mut self,
        owner: Owner,
        change: impl FnOnce(&mut Holder),
    ) -> Option<&Holder> {
        let holder = self.by_owner.get_mut(&owner)?;
        let before = holder.deadline_ms;
        change(holder);
        if holder.deadline_ms != before {
            self.by_deadline.remove(&(before, owner));
            self.by_deadline.insert((holder.deadline_ms, owner));
        }
        Some(holder)
    }

    /// Takes out the holder whose lease ended first, if any has ended.
    pub(super) fn pop_expired(&mut self, now: Now) -> Option<Holder> {
        let &(deadline_ms, owner) = self.by_deadline.first()?;
        if deadline_ms > now.ms {
            return None;
        }
        self.remove(owner)
    }

    /// The clock was set back: nobody holds for longer than its own lease.
    pub(super) fn pull_in(&mut self, now: Now, lease_of: impl Fn(&Holder) -> u64) {
        let at_most: Vec<(Owner, u64)> = self
            .iter()
            .map(|holder| (holder.owner, now.ms.saturating_add(lease_of(holder))))
            .collect();
        for (owner, at_most_ms) in at_most {
            self.update(owner, |holder| {
                holder.deadline_ms = holder.deadline_ms.min(at_most_ms);
                holder.since_ms = holder.since_ms.min(now.ms);
            });
        }
    }
}
