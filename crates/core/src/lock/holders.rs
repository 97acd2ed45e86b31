//! The holders of the lock, by owner, and bounds for the ends of their leases, so that expiry costs
//! nothing until it is due.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Ask, ClientId, Label, Member, Now, Owner, Token};

/// One holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Holder {
    pub(super) owner: Owner,
    pub(super) client: ClientId,
    pub(super) token: Token,
    pub(super) ask: Ask,
    pub(super) member: Option<Member>,
    /// For how long from the grant on it stays a holder, whatever happens; 0 if it goes with its lease.
    pub(super) at_least_ms: u64,
    pub(super) lease_ms: u64,
    pub(super) deadline_ms: u64,
    pub(super) since_ms: u64,
    /// Handed over and not yet renewed: the client may not know of it.
    pub(super) handed: bool,
    pub(super) revoked: bool,
    /// It was released or its lease ended, and it stays only for its `at_least_ms`: nobody can renew it.
    pub(super) resting: bool,
    /// Set if the request had a ballot.
    pub(super) vote: Option<HolderVote>,
    pub(super) label: Label,
}

impl Holder {
    /// Returns the token with which the lock was granted. A quorum may have agreed on a larger one
    /// since.
    pub(super) fn minted(&self) -> Token {
        self.vote.map_or(self.token, |vote| Token::from_raw(vote.number))
    }

    /// Returns until when it stays a holder, whatever happens.
    pub(super) fn rests_until_ms(&self) -> u64 {
        match self.at_least_ms {
            0 => 0,
            at_least_ms => self.since_ms.saturating_add(at_least_ms),
        }
    }

    /// Returns the holder that the next step would find; `None` if it is over. A lease that has ended since the last step
    /// may have left a rest.
    pub(super) fn as_seen(&self, now: Now) -> Option<Self> {
        let mut holder = self.clone();
        if holder.deadline_ms <= now.ms && holder.is_told() {
            holder.rest();
        }
        (holder.deadline_ms > now.ms).then_some(holder)
    }

    /// Returns whether its client knows of the grant: it has answered, or it waited on the connection that the store
    /// itself answered.
    pub(super) fn is_told(&self) -> bool {
        !self.handed || self.client.is_connection()
    }

    /// Lets it rest. The caller notes that a hand-over was answered.
    pub(super) fn rest(&mut self) {
        (self.handed, self.resting) = (false, true);
        self.deadline_ms = self.rests_until_ms();
    }

    /// Returns the last of the tokens that belong to it.
    pub(super) fn last_token(&self) -> u64 {
        self.token.raw() + u64::from(self.ask.tokens() - 1)
    }

    /// Returns whether this is one of the tokens that belong to it: with local turns each turn has
    /// its own.
    pub(super) fn has_token(&self, token: Token) -> bool {
        (self.token.raw()..=self.last_token()).contains(&token.raw())
    }

    /// Returns whether its client keeps the lock until it is wanted. Not if the lock was broken: then
    /// it passes on at the deadline, whatever the client does.
    pub(super) fn stays(&self) -> bool {
        matches!(self.ask, Ask::Stay { .. }) && !self.revoked
    }
}

/// A vote that this node has cast for its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HolderVote {
    /// The token as it was minted.
    pub(super) number: u64,
    pub(super) ticket: u64,
}

/// Bounds for the ends of all leases: none ends before `first_ms`, none after `last_ms`. Renewals
/// and releases may leave the bounds too wide; a scan of all holders, once `first_ms` has come,
/// makes them exact again. For a single holder they are exact from its grant or next renewal on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LeaseBounds {
    pub(super) first_ms: u64,
    pub(super) last_ms: u64,
}

/// All holders of one lock. Invariant: every deadline is within `ends`, which is zero if there is
/// no holder, and `weight` is the sum of the weights of all holders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Holders {
    by_owner: HolderMap,
    ends: LeaseBounds,
    weight: u64,
}

/// The holders themselves. Most locks have one at a time, for which a tree would take as much
/// memory as for eleven. Invariant: `Many` has at least two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum HolderMap {
    #[default]
    None,
    One(Box<Holder>),
    Many(BTreeMap<Owner, Holder>),
}

impl HolderMap {
    fn len(&self) -> usize {
        match self {
            HolderMap::None => 0,
            HolderMap::One(_) => 1,
            HolderMap::Many(many) => many.len(),
        }
    }

    /// Iterates in the order of the owners.
    fn iter(&self) -> impl Iterator<Item = &Holder> {
        let (one, many) = match self {
            HolderMap::None => (None, None),
            HolderMap::One(holder) => (Some(&**holder), None),
            HolderMap::Many(many) => (None, Some(many.values())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Holder> {
        let (one, many) = match self {
            HolderMap::None => (None, None),
            HolderMap::One(holder) => (Some(&mut **holder), None),
            HolderMap::Many(many) => (None, Some(many.values_mut())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    fn get(&self, owner: Owner) -> Option<&Holder> {
        match self {
            HolderMap::None => None,
            HolderMap::One(holder) => Some(&**holder).filter(|holder| holder.owner == owner),
            HolderMap::Many(many) => many.get(&owner),
        }
    }

    fn get_mut(&mut self, owner: Owner) -> Option<&mut Holder> {
        match self {
            HolderMap::None => None,
            HolderMap::One(holder) => Some(&mut **holder).filter(|holder| holder.owner == owner),
            HolderMap::Many(many) => many.get_mut(&owner),
        }
    }

    /// Adds a holder. Its owner must not be there yet.
    fn insert(&mut self, holder: Holder) {
        *self = match std::mem::take(self) {
            HolderMap::None => HolderMap::One(Box::new(holder)),
            HolderMap::One(one) => {
                HolderMap::Many([*one, holder].map(|holder| (holder.owner, holder)).into())
            }
            HolderMap::Many(mut many) => {
                many.insert(holder.owner, holder);
                HolderMap::Many(many)
            }
        };
    }

    fn remove(&mut self, owner: Owner) -> Option<Holder> {
        match self {
            HolderMap::None => None,
            HolderMap::One(holder) if holder.owner != owner => None,
            HolderMap::One(_) => match std::mem::take(self) {
                HolderMap::One(holder) => Some(*holder),
                _ => None,
            },
            HolderMap::Many(many) => {
                let holder = many.remove(&owner);
                if many.len() == 1
                    && let Some((_, last)) = many.pop_first()
                {
                    *self = HolderMap::One(Box::new(last));
                }
                holder
            }
        }
    }
}

impl Holders {
    /// Rebuilds the holders from a snapshot. `None` if one owner holds twice.
    pub(super) fn restore(holders: Vec<Holder>, ends: LeaseBounds) -> Option<Self> {
        let mut restored = Self::default();
        for holder in holders {
            if !restored.insert(holder) {
                return None;
            }
        }
        restored.ends = ends;
        Some(restored)
    }

    pub(super) fn len(&self) -> usize {
        self.by_owner.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self.by_owner, HolderMap::None)
    }

    /// Returns the sum of the weights of all holders.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    pub(super) fn get(&self, owner: Owner) -> Option<&Holder> {
        self.by_owner.get(owner)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Holder> {
        self.by_owner.iter()
    }

    pub(super) fn ends(&self) -> LeaseBounds {
        self.ends
    }

    /// Returns a time before which no lease ends.
    pub(super) fn first_deadline_ms(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.ends.first_ms)
    }

    /// Adds a holder. Returns false and does nothing if its owner already holds.
    pub(super) fn insert(&mut self, holder: Holder) -> bool {
        if self.by_owner.get(holder.owner).is_some() {
            return false;
        }
        let deadline_ms = holder.deadline_ms;
        self.weight += holder.ask.weight();
        self.by_owner.insert(holder);
        self.widen(deadline_ms);
        true
    }

    pub(super) fn remove(&mut self, owner: Owner) -> Option<Holder> {
        let holder = self.by_owner.remove(owner)?;
        self.weight -= holder.ask.weight();
        if self.is_empty() {
            self.ends = LeaseBounds::default();
        }
        Some(holder)
    }

    /// Changes a holder, and keeps the bounds right.
    pub(super) fn update(
        &mut self,
        owner: Owner,
        change: impl FnOnce(&mut Holder),
    ) -> Option<&Holder> {
        let holder = self.by_owner.get_mut(owner)?;
        change(holder);
        let deadline_ms = holder.deadline_ms;
        self.widen(deadline_ms);
        self.get(owner)
    }

    /// Removes the holders whose leases are over, and returns them in the order in which they
    /// ended.
    pub(super) fn take_expired(&mut self, now: Now) -> Vec<Holder> {
        if self.is_empty() || self.ends.first_ms > now.ms {
            return Vec::new();
        }
        if let HolderMap::One(holder) = &self.by_owner
            && holder.deadline_ms <= now.ms
        {
            let owner = holder.owner;
            return self.remove(owner).into_iter().collect();
        }
        let mut due: Vec<(u64, Owner)> = self
            .iter()
            .filter(|holder| holder.deadline_ms <= now.ms)
            .map(|holder| (holder.deadline_ms, holder.owner))
            .collect();
        due.sort_unstable();
        let expired = due.into_iter().filter_map(|(_, owner)| self.remove(owner)).collect();
        self.look_at_all();
        expired
    }

    /// Shortens deadlines after the clock was set back: nobody holds for longer than its own lease.
    pub(super) fn pull_in(&mut self, now: Now, lease_of: impl Fn(&Holder) -> u64) {
        for holder in self.by_owner.iter_mut() {
            let at_most_ms = now.ms.saturating_add(lease_of(holder));
            holder.deadline_ms = holder.deadline_ms.min(at_most_ms);
            holder.since_ms = holder.since_ms.min(now.ms);
        }
        self.look_at_all();
    }

    fn widen(&mut self, deadline_ms: u64) {
        if self.len() == 1 {
            self.ends = LeaseBounds { first_ms: deadline_ms, last_ms: deadline_ms };
        } else {
            self.ends.first_ms = self.ends.first_ms.min(deadline_ms);
            self.ends.last_ms = self.ends.last_ms.max(deadline_ms);
        }
    }

    fn look_at_all(&mut self) {
        let deadlines = || self.iter().map(|holder| holder.deadline_ms);
        self.ends = LeaseBounds {
            first_ms: deadlines().min().unwrap_or(0),
            last_ms: deadlines().max().unwrap_or(0),
        };
    }
}
