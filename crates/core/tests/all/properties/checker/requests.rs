//! The reply that each request must get, and what the request changes in the checker's books.

use taketurns_core::{
    AcquireRequest, ClientId, Kind, Member, Now, Owner, Refusal, Reply, Step, Token, Wake,
    WakeEvent,
};

use super::{Checker, Held, Waiting};

impl Checker {
    pub(super) fn check_acquire(&mut self, now: Now, acquire: &AcquireRequest, step: &Step) {
        let place = self.place_of(acquire.owner);
        if let Some(held) = self.holders.get(&acquire.owner) {
            let Reply::Granted(grant) = &step.reply else { panic!("a retry lost its grant") };
            assert_eq!((grant.token, grant.deadline_ms), (Some(held.token), held.deadline_ms));
            assert_eq!(grant.tokens, held.tokens);
            self.check_wanted(held, grant);
            return;
        }
        let is_newcomer =
            !matches!(&step.reply, Reply::Queued(queued) if place == Some(queued.number));
        if is_newcomer && !matches!(step.reply, Reply::Refused(_)) {
            // An idle lock takes the kind and the size that the next acquire names. A lock in use keeps its own.
            let may_change = !self.is_in_use(now);
            assert!(may_change || self.kind == acquire.ask.kind(), "in use as a {}", self.kind);
            self.kind = acquire.ask.kind();
        }
        match &step.reply {
            Reply::Granted(grant) => {
                assert!(now.ms < acquire.not_after_ms, "granted too late");
                self.check_grant(now, acquire.clone(), None, grant, acquire.lease_ms);
            }
            Reply::Queued(queued) => {
                let waiter_lease_ms = acquire.waiter_lease_ms.expect("only who waits is queued");
                if place != Some(queued.number) {
                    assert!(self.last_place < Some(queued.number), "places only grow");
                    assert!(now.ms < acquire.not_after_ms, "queued too late");
                    let lapsed_before = place.is_none_or(|place| self.waiters[&place].lapsed);
                    assert!(lapsed_before, "a live waiter lost its place");
                    self.waiters.retain(|_, waiting| waiting.acquire.owner != acquire.owner);
                    let waiting = Waiting { acquire: acquire.clone(), lapsed: false };
                    self.waiters.insert(queued.number, waiting);
                    self.last_place = Some(queued.number);
                    if self.waiters.len() == 1 {
                        self.check_is_told(step);
                    }
                }
                self.keep_alive(now, acquire.client, waiter_lease_ms);
            }
            Reply::Busy => {
                let free = self.waiters.is_empty() && self.has_room_for(&acquire.ask);
                assert!(acquire.waiter_lease_ms.is_none() && !free, "busy for no reason");
                let kept = self.waiters.is_empty() && self.holders.values().any(Held::stays);
                assert!(!kept, "busy, and it is only kept");
            }
            Reply::Kept => {
                assert!(
                    acquire.waiter_lease_ms.is_none() && self.holders.values().any(Held::stays)
                );
                assert!(
                    self.waiters.values().all(|waiting| waiting.lapsed),
                    "others are before it"
                );
                self.check_is_told(step);
            }
            Reply::Refused(refusal) => {
                let live = place.is_some_and(|place| !self.waiters[&place].lapsed);
                assert!(!live, "a live waiter was refused: {refusal:?}");
                let has_reason = match refusal {
                    Refusal::TooLate => now.ms >= acquire.not_after_ms,
                    Refusal::Cancelled => {
                        self.buried.get(&acquire.owner).is_some_and(|(until, _)| *until > now.ms)
                    }
                    Refusal::KindMismatch(_) => acquire.ask.kind() != self.kind,
                    _ => false,
                };
                assert!(has_reason, "refused for no reason: {refusal:?}");
            }
            other => panic!("no answer to an acquire: {other:?}"),
        }
        let came_back = matches!(step.reply, Reply::Granted(_) | Reply::Queued(_));
        let is_buried = matches!(self.buried.get(&acquire.owner), Some((_, false)));
        assert!(!(came_back && is_buried), "a late copy brought back what was released");
    }

    /// Every holder that keeps the lock is told that it is wanted.
    fn check_is_told(&self, step: &Step) {
        for (&owner, held) in self.holders.iter().filter(|(_, held)| held.stays()) {
            let event = WakeEvent::Wanted { token: held.token };
            let told = Wake { client: held.client, owner, event };
            assert!(step.wakes.contains(&told), "who keeps it is not told that it is wanted");
        }
    }

    pub(super) fn check_refresh(&mut self, now: Now, client: ClientId, lease_ms: u64, step: &Step) {
        let reply = &step.reply;
        let Reply::Refreshed { waiting, granted, .. } = reply else { panic!("{reply:?}") };
        if *waiting > 0 {
            self.check_is_told(step);
        }
        let of_client = |waiting: &&Waiting| waiting.acquire.client == client;
        let at_most = self.waiters.values().filter(of_client).count();
        let at_least = self.waiters.values().filter(of_client).filter(|w| !w.lapsed).count();
        assert!((at_least..=at_most).contains(&(*waiting as usize)), "places are miscounted");
        self.keep_alive(now, client, lease_ms);
        let told: Vec<Owner> = granted.iter().map(|(owner, _)| *owner).collect();
        for (owner, held) in &self.holders {
            let due = held.handed && held.client == client && !held.revoked;
            assert_eq!(
                due,
                told.contains(owner),
                "each unanswered hand-over is told, and no other"
            );
        }
        for (owner, grant) in granted {
            let held = &self.holders[owner];
            assert_eq!((grant.token, grant.deadline_ms), (Some(held.token), held.deadline_ms));
            assert_eq!(grant.tokens, held.tokens);
            self.check_wanted(held, grant);
        }
    }

    pub(super) fn check_renew(
        &mut self,
        now: Now,
        owner: Owner,
        by: ClientId,
        lease_ms: u64,
        reply: &Reply,
    ) {
        match (self.holders.get_mut(&owner), reply) {
            (None, Reply::NotHeld) => {}
            (Some(held), Reply::Revoked) => assert!(held.revoked),
            (Some(held), Reply::Renewed(grant)) => {
                assert!(!held.revoked, "a broken hold was renewed");
                let deadline_ms = held.deadline_ms.max(now.ms + lease_ms);
                assert_eq!((grant.token, grant.deadline_ms), (Some(held.token), deadline_ms));
                assert_eq!(grant.tokens, held.tokens);
                (held.client, held.handed) = (by, false);
                (held.lease_ms, held.deadline_ms) = (held.lease_ms.max(lease_ms), deadline_ms);
                let held = held.clone();
                self.check_wanted(&held, grant);
            }
            (held, reply) => panic!("{held:?} was renewed with {reply:?}"),
        }
    }

    pub(super) fn check_release(
        &mut self,
        now: Now,
        owner: Owner,
        bury_until_ms: u64,
        last_used: Option<Token>,
        reply: &Reply,
    ) {
        let place = self.place_of(owner);
        if let Some(held) = self.holders.get(&owner) {
            assert_eq!(*reply, Reply::Released);
            if let Some(last_used) = last_used.filter(|token| held.has(*token))
                && held.last_token().raw() == self.last_token
            {
                self.last_token = last_used.raw();
            }
            self.end_hold(owner, now.ms);
        } else if let Some(place) = place {
            let lapsed = self.waiters[&place].lapsed;
            assert!(*reply == Reply::Left || lapsed && *reply == Reply::NotHeld, "{reply:?}");
            self.waiters.remove(&place);
        } else {
            assert_eq!(*reply, Reply::NotHeld);
        }
        if bury_until_ms > now.ms {
            self.buried.insert(owner, (bury_until_ms, false));
        }
    }

    pub(super) fn check_break(
        &mut self,
        now: Now,
        token: Option<Token>,
        at_once: bool,
        step: &Step,
    ) {
        let broken: Vec<Owner> = self
            .holders
            .iter()
            .filter(|(_, held)| token.is_none_or(|token| held.has(token)))
            .map(|(&owner, _)| owner)
            .collect();
        assert_eq!(step.reply, Reply::Broken(broken.len() as u32));
        for owner in broken {
            let Held { client, token, .. } = self.holders[&owner];
            let event = WakeEvent::Revoked { token: Some(token) };
            let told = Wake { client, owner, event };
            assert!(step.wakes.contains(&told), "who is broken is told which grant it was");
            if at_once {
                self.end_hold(owner, now.ms);
            } else if let Some(held) = self.holders.get_mut(&owner) {
                held.revoked = true;
            }
        }
    }

    pub(super) fn client_gone(&mut self, now: Now, client: ClientId) {
        if let Some(alive) = self.clients.get_mut(&client) {
            alive.promised_ms = alive.promised_ms.min(now.ms);
            alive.until_ms = alive.until_ms.min(now.ms);
        }
        for waiting in self.waiters.values_mut().filter(|w| w.acquire.client == client) {
            waiting.lapsed = true;
        }
        let handed = |held: &Held| held.handed && held.client == client;
        let passed_on: Vec<Owner> =
            self.holders.iter().filter(|(_, held)| handed(held)).map(|(&owner, _)| owner).collect();
        for owner in passed_on {
            self.end_hold(owner, now.ms);
        }
    }

    pub(super) fn check_add(&mut self, now: Now, member: &Member, reply: &Reply) {
        self.kind = Kind::Pool;
        let was_leaving = self.leaving.contains(member);
        self.leaving.retain(|leaving| leaving != member);
        let is_new = !self.members.contains_key(member);
        if is_new {
            self.members.insert(member.clone(), Some((self.steps, now.ms)));
        }
        assert_eq!(*reply, Reply::Changed(is_new || was_leaving));
    }

    pub(super) fn check_remove(&mut self, member: &Member, reply: &Reply) {
        let changes = match self.members.get(member) {
            None => false,
            Some(Some(_)) => self.members.remove(member).is_some(),
            Some(None) if self.leaving.contains(member) => false,
            Some(None) => {
                self.leaving.push(member.clone());
                true
            }
        };
        assert_eq!(*reply, Reply::Changed(changes));
    }
}
