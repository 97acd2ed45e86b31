//! What a node notes of the requests that it carries out: who got a place, who was granted what in which order, of
//! whom nothing was heard. It goes by what is on the wire, and asks the lock for nothing.

use std::collections::{BTreeMap, BTreeSet};

use taketurns::engine::{AcquireRequest, AttemptEnd, Owner, Reply, Request, Wake, WakeEvent};
use taketurns::{Ask, ClientId, Name, Token};
use taketurns_core::Grant;
use taketurns_history::{EventKind, Guarantee};

use crate::plan::SimPlan;
use crate::terms::TermsJudge;

/// Who is who, and who stands where, as seen on the wire.
#[derive(Default)]
pub(crate) struct Register {
    ops: BTreeMap<Owner, u64>,
    /// As whom each operation last asked.
    owners: BTreeMap<u64, Owner>,
    /// Owners whose client was ever answered, to an acquire, a refresh or a renewal, that they are granted, or that what
    /// they were granted is broken.
    answered: BTreeSet<Owner>,
    minted: BTreeMap<Owner, u64>,
    /// Of each lock, who has a place, and until when its client's word counts.
    places: BTreeMap<Name, Vec<(Owner, ClientId)>>,
    /// Who had one, until its client was not heard of for too long.
    lapsed: BTreeMap<Name, Vec<(Owner, ClientId)>>,
    heard: BTreeMap<(Name, ClientId), LifeSign>,
    /// How long the work of each once is remembered, as its clients ask for, and until when what was done is.
    remembered_ms: BTreeMap<Name, u64>,
    done_until_ms: BTreeMap<Name, u64>,
    /// The tokens of attempts that were recorded as done.
    done: BTreeSet<(Name, Token)>,
    /// When each lock was last asked about.
    seen: BTreeMap<Name, u64>,
    terms: TermsJudge,
    waiter_lease_ms: u64,
    /// What a lock that is broken at once does not promise.
    excuses: Vec<Guarantee>,
}

/// A client's word that it is alive.
#[derive(Clone, Copy)]
struct LifeSign {
    /// Until when it was meant to count.
    promised_ms: u64,
    /// Until when it counts, if the clock was set back since.
    until_ms: u64,
}

impl LifeSign {
    fn until(until_ms: u64) -> Self {
        Self { promised_ms: until_ms, until_ms }
    }
}

/// The notes of one step in the order in which things came: who asked may have been granted the lock
/// along with others and after them, and who was released may have been granted it just before.
fn in_order(noted: &mut [EventKind]) {
    let minted: BTreeMap<u64, u64> = noted
        .iter()
        .filter_map(|what| match what {
            EventKind::Minted { op, token, .. } => Some((*op, *token)),
            _ => None,
        })
        .collect();
    noted.sort_by_key(|what| match what {
        EventKind::Minted { token, .. } => (*token, false),
        EventKind::Freed { op } => (minted.get(op).copied().unwrap_or(0), true),
        _ => (0, false),
    });
}

impl Register {
    pub(crate) fn new(plan: &SimPlan) -> Self {
        Self {
            waiter_lease_ms: plan.waiter_lease_ms,
            excuses: plan.not_promised_to_the_unaware(),
            ..Self::default()
        }
    }

    /// What stays known of the clients when a node forgets its locks.
    pub(crate) fn without_places(self) -> Self {
        let Self { ops, owners, answered, minted, waiter_lease_ms, excuses, .. } = self;
        let Self { remembered_ms, done, mut terms, .. } = self;
        terms.forget();
        let places = Self::default();
        Self {
            ops,
            owners,
            answered,
            minted,
            waiter_lease_ms,
            excuses,
            remembered_ms,
            done,
            terms,
            ..places
        }
    }

    /// Of whom nothing was heard for a waiter lease has no place any more.
    pub(crate) fn lapse(&mut self, name: &Name, now_ms: u64, noted: &mut Vec<EventKind>) {
        let seen_ms = self.seen.insert(name.clone(), now_ms).unwrap_or(0);
        if self.done_until_ms.get(name).is_some_and(|until_ms| *until_ms <= now_ms) {
            self.undone(name, noted);
        }
        if now_ms < seen_ms {
            self.heard_again(name, |_| true, noted);
        }
        let Some(places) = self.places.get_mut(name) else { return };
        if now_ms < seen_ms {
            // The clock was set back: nobody's word counts for longer than if it had been said now. If that
            // was not the first time, it may count for longer than before.
            for (_, word) in self.heard.iter_mut().filter(|((of, _), _)| of == name) {
                word.until_ms = word.promised_ms.min(now_ms + self.waiter_lease_ms);
            }
        }
        places.retain(|(owner, client)| {
            let heard = self.heard.get(&(name.clone(), *client));
            let is_gone = heard.is_none_or(|word| word.until_ms <= now_ms);
            if is_gone && let Some(&op) = self.ops.get(owner) {
                self.lapsed.entry(name.clone()).or_default().push((*owner, *client));
                noted.push(EventKind::Lapsed { op });
            }
            !is_gone
        });
    }

    fn undone(&mut self, name: &Name, noted: &mut Vec<EventKind>) {
        if self.done_until_ms.remove(name).is_some() {
            noted.push(EventKind::Undone { lock: name.to_string() });
        }
    }

    /// An attempt said that the work is done. That it is said again is no news.
    fn done(
        &mut self,
        name: &Name,
        now_ms: u64,
        owner: Owner,
        token: Token,
        noted: &mut Vec<EventKind>,
    ) {
        let (op, keep_ms) = (self.ops.get(&owner), self.remembered_ms.get(name));
        if let (Some(&op), Some(keep_ms)) = (op, keep_ms)
            && self.done.insert((name.clone(), token))
        {
            self.done_until_ms.insert(name.clone(), now_ms + keep_ms);
            noted.push(EventKind::Done { op });
        }
    }

    fn told(&mut self, name: &Name, owner: Owner, noted: &mut Vec<EventKind>) {
        self.leave(name, owner);
        if let Some(&op) = self.ops.get(&owner) {
            noted.push(EventKind::Told { op });
        }
    }

    /// A client gave a sign of life: the lock may take it for alive again.
    fn heard_again(
        &mut self,
        name: &Name,
        whose: impl Fn(ClientId) -> bool,
        noted: &mut Vec<EventKind>,
    ) {
        let Some(lapsed) = self.lapsed.get_mut(name) else { return };
        lapsed.retain(|(owner, client)| {
            let is_heard = whose(*client);
            if is_heard && let Some(&op) = self.ops.get(owner) {
                noted.push(EventKind::Heard { op });
            }
            !is_heard
        });
    }

    pub(crate) fn note(
        &mut self,
        name: &Name,
        now_ms: u64,
        request: &Request,
        reply: &Reply,
        wakes: &[Wake],
        noted: &mut Vec<EventKind>,
    ) -> Result<(), String> {
        self.terms.note(name, now_ms, request, reply, wakes)?;
        if let Request::Acquire(AcquireRequest { client, .. }) | Request::Refresh { client, .. } =
            request
        {
            self.heard_again(name, |heard| heard == *client, noted);
        }
        match request {
            Request::Acquire(acquire) => {
                let op = acquire.label.why().parse().unwrap_or(0);
                if let Ask::Once(terms) = acquire.ask {
                    self.remembered_ms.insert(name.clone(), terms.keep_ms);
                }
                let is_new = self.ops.insert(acquire.owner, op).is_none();
                if is_new && let Some(old) = self.owners.insert(op, acquire.owner) {
                    let was_granted = self.answered.contains(&old);
                    noted.push(EventKind::Again { op, was_granted });
                }
                if let Reply::Granted(_) = reply {
                    self.answered.insert(acquire.owner);
                }
                match reply {
                    // A late request of an owner that the client has given up: its release is under way.
                    _ if self.is_given_up(acquire.owner) => {}
                    Reply::Granted(grant) => self.minted(acquire.owner, grant, noted),
                    Reply::DoneBefore(_) => self.told(name, acquire.owner, noted),
                    Reply::Queued(place) => {
                        let until_ms = now_ms + acquire.waiter_lease_ms.unwrap_or(0);
                        self.heard
                            .insert((name.clone(), acquire.client), LifeSign::until(until_ms));
                        let places = self.places.entry(name.clone()).or_default();
                        if !places.iter().any(|(owner, _)| *owner == acquire.owner) {
                            places.push((acquire.owner, acquire.client));
                        }
                        let quarantined = place.quarantined_until_ms.is_some()
                            || self.terms.bars(name, acquire.owner);
                        noted.push(EventKind::Placed { op, number: place.number, quarantined });
                    }
                    _ => {}
                }
            }
            Request::Refresh { client, waiter_lease_ms } => {
                let word = LifeSign::until(now_ms + waiter_lease_ms);
                self.heard.insert((name.clone(), *client), word);
                if let Reply::Refreshed { granted, .. } = reply {
                    self.answered.extend(granted.iter().map(|(owner, _)| *owner));
                }
            }
            Request::Renew { owner, .. } if matches!(reply, Reply::Renewed(_) | Reply::Revoked) => {
                self.answered.insert(*owner);
            }
            Request::Undo if *reply == Reply::Changed(true) => self.undone(name, noted),
            Request::Release { owner, .. } | Request::Finish { owner, .. } => {
                if let Request::Finish { token, end: AttemptEnd::Done(_), .. } = request
                    && *reply == Reply::Released
                {
                    self.done(name, now_ms, *owner, *token, noted);
                }
                // A finish that is refused is followed by a release.
                let is_over =
                    matches!(request, Request::Release { .. }) || *reply == Reply::Released;
                if is_over {
                    self.leave(name, *owner);
                }
                // An operation that has asked anew is not over.
                if let Some(&op) = self.ops.get(owner)
                    && is_over
                    && !self.is_given_up(*owner)
                {
                    noted.push(EventKind::Freed { op });
                }
            }
            Request::Break { at_once: true, .. } if matches!(reply, Reply::Broken(1..)) => {
                let (kind, on) = ("break --now".to_owned(), name.to_string());
                let excuses = self.excuses.clone();
                noted.push(EventKind::Fault { kind: kind.clone(), on: on.clone(), excuses });
                noted.push(EventKind::Mended { kind, on });
            }
            _ => {}
        }
        for wake in wakes {
            if let WakeEvent::Granted(grant) = &wake.event {
                self.leave(name, wake.owner);
                if !self.is_given_up(wake.owner) {
                    self.minted(wake.owner, grant, noted);
                }
            }
            if let WakeEvent::DoneBefore(_) = &wake.event {
                self.told(name, wake.owner, noted);
            }
            if let WakeEvent::Refused(_) = &wake.event {
                self.leave(name, wake.owner);
                let op = self.ops.get(&wake.owner).filter(|_| !self.is_given_up(wake.owner));
                noted.extend(op.map(|op| EventKind::GivenUp { op: *op }));
            }
        }
        in_order(noted);
        Ok(())
    }

    /// Has its operation asked anew, as another owner?
    fn is_given_up(&self, owner: Owner) -> bool {
        let op = self.ops.get(&owner);
        op.and_then(|op| self.owners.get(op)).is_some_and(|last| *last != owner)
    }

    fn leave(&mut self, name: &Name, owner: Owner) {
        if let Some(places) = self.places.get_mut(name) {
            places.retain(|(waiting, _)| *waiting != owner);
        }
    }

    /// A grant that is told again is none.
    fn minted(&mut self, owner: Owner, grant: &Grant, noted: &mut Vec<EventKind>) {
        let (Some(&op), Some(token)) = (self.ops.get(&owner), grant.token) else { return };
        if self.minted.insert(owner, token.raw()) != Some(token.raw()) {
            let member = grant.member.as_ref().map(|member| member.as_str().to_owned());
            noted.push(EventKind::Minted { op, token: token.raw(), member });
        }
    }
}

#[cfg(test)]
mod tests {
    use taketurns_core::{Label, Place};

    use super::*;

    fn acquire(owner: Owner) -> Request {
        Request::Acquire(AcquireRequest {
            owner,
            client: ClientId::from_bits(1),
            ask: Ask::Mutex,
            at_least_ms: 0,
            lease_ms: 1_000,
            waiter_lease_ms: Some(1_000),
            not_after_ms: 1_000,
            ballot: None,
            label: Label::new("sim", "3").expect("a label"),
        })
    }

    fn queued(number: u64) -> Reply {
        let (recheck_ms, quarantined_until_ms) = (None, None);
        Reply::Queued(Place { number, front: 0, recheck_ms, quarantined_until_ms })
    }

    fn placed(number: u64) -> EventKind {
        EventKind::Placed { op: 3, number, quarantined: false }
    }

    fn note(register: &mut Register, request: Request, reply: Reply) -> Vec<EventKind> {
        let (name, mut noted) = (Name::new("l").expect("a name"), Vec::new());
        let fine = register.note(&name, 0, &request, &reply, &[], &mut noted);
        fine.expect("nothing is granted too early");
        noted
    }

    /// The old owner's release is late, and so is one of its requests. (Seed 910060964.)
    #[test]
    fn a_late_request_of_an_owner_that_was_given_up_is_none_of_its_operation() {
        let mut register = Register::default();
        let [old, fresh] = [1, 2].map(Owner::from_bits);
        let mut note = |request, reply| note(&mut register, request, reply);
        assert_eq!(note(acquire(old), queued(0)), [placed(0)]);
        assert_eq!(
            note(acquire(fresh), queued(1)),
            [EventKind::Again { op: 3, was_granted: false }, placed(1)]
        );
        let release = |owner| Request::Release { owner, bury_until_ms: 0, last_used: None };
        assert_eq!(note(release(fresh), Reply::Left), [EventKind::Freed { op: 3 }]);
        assert_eq!(note(acquire(old), queued(2)), []);
        assert_eq!(note(release(old), Reply::Left), []);
    }

    /// A client that was granted the lock may give it up although the node has forgotten the grant since and
    /// given a late request of the old owner a place. (Seed 6100010432.)
    #[test]
    fn that_a_client_was_told_of_its_grant_is_not_forgotten_with_the_locks() {
        let [old, fresh] = [1, 2].map(Owner::from_bits);
        let grant = Grant {
            token: Some(Token::from_raw(5)),
            tokens: 1,
            deadline_ms: 1_000,
            member: None,
            vote: None,
            wanted: false,
        };
        let refresh = Request::Refresh { client: ClientId::from_bits(1), waiter_lease_ms: 1_000 };
        let refreshed = Reply::Refreshed {
            waiting: 0,
            front: 0,
            recheck_ms: None,
            quarantined_until_ms: None,
            granted: vec![(old, grant.clone())],
        };
        for told in [(acquire(old), Reply::Granted(grant)), (refresh, refreshed)] {
            let mut register = Register::default();
            note(&mut register, acquire(old), queued(0));
            note(&mut register, told.0, told.1);
            let mut register = register.without_places();
            // Nor does the judge know any more who rests.
            let placed = |number| EventKind::Placed { op: 3, number, quarantined: true };
            assert_eq!(note(&mut register, acquire(old), queued(0)), [placed(0)]);
            assert_eq!(
                note(&mut register, acquire(fresh), queued(1)),
                [EventKind::Again { op: 3, was_granted: true }, placed(1)]
            );
        }
    }

    /// It was woken too late, and asks how long its grant is good for; it is broken by then. The node has given a late
    /// request of the old owner a place. (Seed 27008565.)
    #[test]
    fn a_client_may_give_up_a_grant_of_which_it_was_answered_that_it_is_broken() {
        let [old, fresh] = [1, 2].map(Owner::from_bits);
        let renew = Request::Renew {
            owner: old,
            client: ClientId::from_bits(1),
            lease_ms: 1_000,
            write_back: None,
        };
        for (reply, was_granted) in [(Reply::Revoked, true), (Reply::NotHeld, false)] {
            let mut register = Register::default();
            note(&mut register, acquire(old), queued(0));
            note(&mut register, renew.clone(), reply);
            note(&mut register, acquire(old), queued(1));
            assert_eq!(
                note(&mut register, acquire(fresh), queued(2)),
                [EventKind::Again { op: 3, was_granted }, placed(2)]
            );
        }
    }
}
