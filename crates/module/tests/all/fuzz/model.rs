//! Tracks who surely holds what, as far as the replies tell.
//!
//! A reply with a grant makes a holder known. It surely holds until its lease ends, counted from
//! before it asked. It may hold longer, and there may be unknown holders: the model reports only
//! what is certainly wrong.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use taketurns_core::{Ask, Owner};

/// The server's clock may run a little slower or faster than ours.
const SLACK: Duration = Duration::from_millis(20);

/// The effect of a command on who holds what.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Nothing,
    Acquire(WantedHold),
    Renew {
        key: Vec<u8>,
        owner: Owner,
        lease_ms: u64,
    },
    Release {
        key: Vec<u8>,
        owner: Owner,
    },
    /// Makes the state of these keys unknown.
    Upsets(Vec<Vec<u8>>),
    UpsetsAll,
}

#[derive(Clone, Debug)]
pub(crate) struct WantedHold {
    pub(crate) key: Vec<u8>,
    pub(crate) ask: Ask,
    pub(crate) lease_ms: u64,
    /// Only for a program. Other clients get theirs with the grant.
    pub(crate) owner: Option<Owner>,
    /// The grant may then be an earlier one, of something else.
    pub(crate) may_have_asked: bool,
    /// The connection to which it is bound.
    pub(crate) bound_to: Option<i64>,
}

/// What was known when a command was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    at: Instant,
    era: u64,
    /// The newest token given out before.
    token: u64,
    /// The named holder surely holds until then.
    sure_until: Option<Instant>,
}

/// A grant, as a reply reports it.
#[derive(Clone, Debug)]
pub(crate) struct GrantReport {
    pub(crate) owner: Owner,
    pub(crate) token: u64,
    pub(crate) member: Option<String>,
    pub(crate) lease_ms: u64,
}

/// What a reply says about the holder.
pub(crate) enum HoldChange {
    Granted(GrantReport),
    Done,
    NotHeld,
    Else,
}

#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) owner: Owner,
    pub(crate) token: u64,
    ask: Ask,
    member: Option<String>,
    sure_until: Instant,
    seen: Instant,
    pub(crate) bound_to: Option<i64>,
}

#[derive(Default)]
struct KnownHolders {
    /// Changes with each event that makes the state unknown.
    era: u64,
    token: u64,
    holders: Vec<Holder>,
}

pub(crate) struct Model {
    keys: HashMap<Vec<u8>, KnownHolders>,
    eras: u64,
    /// In a wild round nothing is known, and secrets are only collected.
    pub(crate) is_wild: bool,
    /// How many replies the model could check.
    pub(crate) checks: u64,
}

impl Model {
    pub(crate) fn new(is_wild: bool) -> Self {
        Self { keys: HashMap::new(), eras: 0, is_wild, checks: 0 }
    }

    fn known(&mut self, key: &[u8]) -> &mut KnownHolders {
        let era = self.eras;
        self.keys
            .entry(key.to_vec())
            .or_insert_with(|| KnownHolders { era, ..KnownHolders::default() })
    }

    pub(crate) fn holders(&self, key: &[u8]) -> &[Holder] {
        self.keys.get(key).map_or(&[], |known| &known.holders)
    }

    /// Returns the tokens of holds that end with a connection.
    pub(crate) fn bound(&self) -> impl Iterator<Item = u64> {
        let holders = self.keys.values().flat_map(|known| &known.holders);
        holders.filter(|holder| holder.bound_to.is_some()).map(|holder| holder.token)
    }

    fn upset(&mut self, key: &[u8]) {
        self.eras += 1;
        let era = self.eras;
        let is_wild = self.is_wild;
        let known = self.known(key);
        (known.era, known.token) = (era, 0);
        if !is_wild {
            known.holders.clear();
        }
    }

    /// Notes that a command is about to be sent.
    pub(crate) fn sent(&mut self, effect: &Effect) -> Stamp {
        let at = Instant::now();
        let mut stamp = Stamp { at, era: 0, token: 0, sure_until: None };
        match effect {
            Effect::Acquire(WantedHold { key, .. }) => {
                let known = self.known(key);
                (stamp.era, stamp.token) = (known.era, known.token);
            }
            Effect::Renew { key, owner, .. } | Effect::Release { key, owner } => {
                let known = self.known(key);
                let holder = known.holders.iter().find(|holder| holder.owner == *owner);
                (stamp.era, stamp.sure_until) = (known.era, holder.map(|holder| holder.sure_until));
            }
            _ => {}
        }
        self.follow(effect);
        stamp
    }

    /// Ends the holds that a command ends, even if it is carried out a moment later.
    fn follow(&mut self, effect: &Effect) {
        match effect {
            Effect::Release { key, owner } => {
                self.known(key).holders.retain(|holder| holder.owner != *owner);
            }
            Effect::Upsets(keys) => keys.iter().for_each(|key| self.upset(key)),
            Effect::UpsetsAll => {
                let keys: Vec<Vec<u8>> = self.keys.keys().cloned().collect();
                keys.iter().for_each(|key| self.upset(key));
            }
            _ => {}
        }
    }

    /// Notes that a connection is about to be closed.
    pub(crate) fn closed(&mut self, connection: i64) {
        for known in self.keys.values_mut() {
            known.holders.retain(|holder| holder.bound_to != Some(connection));
        }
    }

    /// Checks a reply.
    ///
    /// # Errors
    /// Says what is impossible.
    pub(crate) fn answered(
        &mut self,
        effect: &Effect,
        stamp: &Stamp,
        says: HoldChange,
        alone: bool,
    ) -> Result<(), String> {
        let seen = Instant::now();
        let result = match (effect, says) {
            (Effect::Acquire(wanted), HoldChange::Granted(granted)) => {
                self.granted(wanted, stamp, granted, seen)
            }
            (Effect::Renew { key, owner, lease_ms }, HoldChange::Done) => {
                let known = self.known(key);
                let same = known.era == stamp.era;
                for holder in known.holders.iter_mut().filter(|one| same && one.owner == *owner) {
                    let until = stamp.at + Duration::from_millis(*lease_ms);
                    holder.sure_until = holder.sure_until.max(until);
                }
                Ok(())
            }
            (Effect::Renew { key, .. } | Effect::Release { key, .. }, HoldChange::NotHeld)
                if alone =>
            {
                let same = self.known(key).era == stamp.era && !self.is_wild;
                match stamp.sure_until.filter(|until| same && *until > seen + SLACK) {
                    Some(until) => Err(format!("it held for another {:?}", until - seen)),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        };
        self.follow(effect);
        result
    }

    fn granted(
        &mut self,
        wanted: &WantedHold,
        stamp: &Stamp,
        granted: GrantReport,
        seen: Instant,
    ) -> Result<(), String> {
        let is_wild = self.is_wild;
        let known = self.known(&wanted.key);
        let new = Holder {
            owner: granted.owner,
            token: granted.token,
            ask: wanted.ask.clone(),
            member: granted.member,
            sure_until: stamp.at + Duration::from_millis(granted.lease_ms),
            seen,
            bound_to: wanted.bound_to,
        };
        if !is_wild && known.era != stamp.era {
            return Ok(());
        }
        let again = known.holders.iter_mut().find(|holder| holder.owner == new.owner);
        if let Some(old) = again.filter(|old| old.token == new.token) {
            old.sure_until = old.sure_until.max(new.sure_until);
            return Ok(());
        }
        known.holders.retain(|old| old.owner != new.owner && old.sure_until + SLACK > seen);
        if is_wild {
            known.holders.push(new);
            return Ok(());
        }
        if wanted.may_have_asked {
            return Ok(());
        }
        // A polling client may find an offer from before another client was let in beside it.
        let may_be_offered =
            wanted.owner.is_none() && !matches!(wanted.ask, Ask::Mutex | Ask::Write);
        if new.token <= stamp.token && !may_be_offered {
            return Err(format!("token {} after {}", new.token, stamp.token));
        }
        for old in &known.holders {
            let (first, then) = if old.token < new.token { (old, &new) } else { (&new, old) };
            let overlap = first.sure_until > then.seen + SLACK;
            if first.token == then.token || overlap && exclude(first, then) {
                return Err(format!("two hold it: {first:?} and {then:?}"));
            }
        }
        known.token = known.token.max(new.token);
        known.holders.push(new);
        self.checks += 1;
        Ok(())
    }
}

/// Do these two exclude each other?
fn exclude(one: &Holder, other: &Holder) -> bool {
    match (&one.ask, &other.ask) {
        (Ask::Read, Ask::Read) => false,
        (Ask::Permits { take, of }, Ask::Permits { take: other, of: same }) => {
            of != same || take + other > *of
        }
        (Ask::Any | Ask::Member(_), Ask::Any | Ask::Member(_)) => one.member == other.member,
        _ => true,
    }
}
