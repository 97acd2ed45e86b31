//! Who surely holds what, as far as the replies tell.
//!
//! A holder is known from the reply that granted it, and is sure to hold until its lease is over,
//! counted from before it was asked for. It may hold for longer, and there may be holders of whom
//! nothing is known: the model finds nothing wrong that could be right.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use taketurns_core::{Ask, Owner};

/// The server's clock may be a little slower or quicker than ours.
const SLACK: Duration = Duration::from_millis(20);

/// What a command means for who holds what.
#[derive(Clone, Debug)]
pub(crate) enum Means {
    Nothing,
    Acquire(Wanted),
    Renew {
        key: Vec<u8>,
        owner: Owner,
        lease_ms: u64,
    },
    Release {
        key: Vec<u8>,
        owner: Owner,
    },
    /// Nothing is known of these keys from now on.
    Upsets(Vec<Vec<u8>>),
    UpsetsAll,
}

#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) key: Vec<u8>,
    pub(crate) ask: Ask,
    pub(crate) lease_ms: u64,
    /// Of a program. Others get theirs with the grant.
    pub(crate) owner: Option<Owner>,
    /// Then the grant may be an earlier one, of something else.
    pub(crate) may_have_asked: bool,
    /// The connection to which it is bound.
    pub(crate) bound_to: Option<i64>,
}

/// What was known when a command was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    at: Instant,
    era: u64,
    /// Tokens up to this one were given out before.
    token: u64,
    /// The holder that is named is sure to hold until then.
    sure_until: Option<Instant>,
}

/// A grant as a reply tells of it.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    pub(crate) owner: Owner,
    pub(crate) token: u64,
    pub(crate) member: Option<String>,
    pub(crate) lease_ms: u64,
}

/// What a reply says.
pub(crate) enum Says {
    Granted(Granted),
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
struct Known {
    /// Changes when something happens after which nothing is known.
    era: u64,
    token: u64,
    holders: Vec<Holder>,
}

pub(crate) struct Model {
    keys: HashMap<Vec<u8>, Known>,
    eras: u64,
    /// In a wild round nothing is known, and secrets are only collected.
    pub(crate) is_wild: bool,
    /// How often there was something to be found wrong.
    pub(crate) checks: u64,
}

impl Model {
    pub(crate) fn new(is_wild: bool) -> Self {
        Self { keys: HashMap::new(), eras: 0, is_wild, checks: 0 }
    }

    fn known(&mut self, key: &[u8]) -> &mut Known {
        let era = self.eras;
        self.keys.entry(key.to_vec()).or_insert_with(|| Known { era, ..Known::default() })
    }

    pub(crate) fn holders(&self, key: &[u8]) -> &[Holder] {
        self.keys.get(key).map_or(&[], |known| &known.holders)
    }

    /// The tokens of those who hold for only as long as a connection.
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

    /// A command is about to be sent.
    pub(crate) fn sent(&mut self, means: &Means) -> Stamp {
        let at = Instant::now();
        let mut stamp = Stamp { at, era: 0, token: 0, sure_until: None };
        match means {
            Means::Acquire(Wanted { key, .. }) => {
                let known = self.known(key);
                (stamp.era, stamp.token) = (known.era, known.token);
            }
            Means::Renew { key, owner, .. } | Means::Release { key, owner } => {
                let known = self.known(key);
                let holder = known.holders.iter().find(|holder| holder.owner == *owner);
                (stamp.era, stamp.sure_until) = (known.era, holder.map(|holder| holder.sure_until));
            }
            _ => {}
        }
        self.follow(means);
        stamp
    }

    /// What a command ends, also if it is carried out a moment later.
    fn follow(&mut self, means: &Means) {
        match means {
            Means::Release { key, owner } => {
                self.known(key).holders.retain(|holder| holder.owner != *owner);
            }
            Means::Upsets(keys) => keys.iter().for_each(|key| self.upset(key)),
            Means::UpsetsAll => {
                let keys: Vec<Vec<u8>> = self.keys.keys().cloned().collect();
                keys.iter().for_each(|key| self.upset(key));
            }
            _ => {}
        }
    }

    /// A connection is about to be closed.
    pub(crate) fn closed(&mut self, connection: i64) {
        for known in self.keys.values_mut() {
            known.holders.retain(|holder| holder.bound_to != Some(connection));
        }
    }

    /// A command was answered.
    ///
    /// # Errors
    /// What can't be.
    pub(crate) fn answered(
        &mut self,
        means: &Means,
        stamp: &Stamp,
        says: Says,
        alone: bool,
    ) -> Result<(), String> {
        let seen = Instant::now();
        let result = match (means, says) {
            (Means::Acquire(wanted), Says::Granted(granted)) => {
                self.granted(wanted, stamp, granted, seen)
            }
            (Means::Renew { key, owner, lease_ms }, Says::Done) => {
                let known = self.known(key);
                let same = known.era == stamp.era;
                for holder in known.holders.iter_mut().filter(|one| same && one.owner == *owner) {
                    let until = stamp.at + Duration::from_millis(*lease_ms);
                    holder.sure_until = holder.sure_until.max(until);
                }
                Ok(())
            }
            (Means::Renew { key, .. } | Means::Release { key, .. }, Says::NotHeld) if alone => {
                let same = self.known(key).era == stamp.era && !self.is_wild;
                match stamp.sure_until.filter(|until| same && *until > seen + SLACK) {
                    Some(until) => Err(format!("it held for another {:?}", until - seen)),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        };
        self.follow(means);
        result
    }

    fn granted(
        &mut self,
        wanted: &Wanted,
        stamp: &Stamp,
        granted: Granted,
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
        // Who polls may find what it was offered before another was let in beside it.
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

/// Can't both hold at a time.
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
