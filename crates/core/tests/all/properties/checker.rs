//! The referee: keeps its own simple books from what was sent, answered and woken, and objects when
//! a promise is broken. It never looks into the lock.

mod requests;

use std::collections::BTreeMap;

use taketurns_core::{
    AcquireRequest, Ask, ClientId, Grant, Kind, Member, Now, Owner, Reply, Request, Step, Token,
    Wake, WakeEvent,
};

#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) client: ClientId,
    pub(crate) token: Token,
    /// How many tokens in a row are its own.
    tokens: u32,
    ask: Ask,
    member: Option<Member>,
    lease_ms: u64,
    deadline_ms: u64,
    /// Handed over and not renewed yet: lasts for a waiter lease only.
    handed: bool,
    revoked: bool,
}

impl Held {
    pub(crate) fn last_token(&self) -> Token {
        Token::from_raw(self.token.raw() + u64::from(self.tokens) - 1)
    }

    fn has(&self, token: Token) -> bool {
        (self.token..=self.last_token()).contains(&token)
    }

    /// Does its client keep it until it is wanted?
    fn stays(&self) -> bool {
        matches!(self.ask, Ask::Stay { .. }) && !self.revoked
    }
}

#[derive(Debug)]
struct Waiting {
    acquire: AcquireRequest,
    /// Its waiter lease ran out at some time: nothing is promised to it any more.
    lapsed: bool,
}

#[derive(Debug)]
struct ClientLease {
    /// What its last refresh promised.
    promised_ms: u64,
    /// No longer than a waiter lease from when the clock was last set back.
    until_ms: u64,
    waiter_lease_ms: u64,
}

/// A moment at which a member became free: the step, then the time within it.
type FreedAt = (u64, u64);

#[derive(Debug)]
pub(crate) struct Checker {
    pub(crate) kind: Kind,
    holders: BTreeMap<Owner, Held>,
    waiters: BTreeMap<u64, Waiting>,
    clients: BTreeMap<ClientId, ClientLease>,
    /// The members that are there; `None` while held.
    members: BTreeMap<Member, Option<FreedAt>>,
    leaving: Vec<Member>,
    /// Released for good: until its time no late copy may bring it back.
    /// Until when, and whether that time has come once: a clock set back may bring it back or not.
    buried: BTreeMap<Owner, (u64, bool)>,
    last_token: u64,
    last_place: Option<u64>,
    seen_ms: u64,
    steps: u64,
}

impl Checker {
    pub(crate) fn new() -> Self {
        Self {
            kind: Kind::default(),
            holders: BTreeMap::new(),
            waiters: BTreeMap::new(),
            clients: BTreeMap::new(),
            members: BTreeMap::new(),
            leaving: Vec::new(),
            buried: BTreeMap::new(),
            last_token: 0,
            last_place: None,
            seen_ms: 0,
            steps: 0,
        }
    }

    pub(crate) fn holders(&self) -> impl Iterator<Item = (&Owner, &Held)> {
        self.holders.iter()
    }

    /// Is the lock in use for certain? Dead waiters may or may not have been dropped by now.
    pub(crate) fn is_in_use(&self, now: Now) -> bool {
        let held = self.holders.values().any(|held| held.deadline_ms > now.ms);
        let awaited = self.waiters.values().any(|waiting| {
            !waiting.lapsed && self.clients[&waiting.acquire.client].until_ms > now.ms
        });
        held || awaited || !self.members.is_empty()
    }

    /// Time passes, and hand-over that was due is done: `wakes` are those before the request.
    pub(crate) fn catch_up(&mut self, now: Now, wakes: &[Wake]) {
        self.steps += 1;
        if now.ms < self.seen_ms {
            self.pull_in(now);
        }
        self.seen_ms = now.ms;
        for (until_ms, was_over) in self.buried.values_mut() {
            *was_over |= *until_ms <= now.ms;
        }
        let over = |held: &Held| held.deadline_ms <= now.ms;
        let expired: Vec<Owner> =
            self.holders.iter().filter(|(_, held)| over(held)).map(|(&owner, _)| owner).collect();
        for owner in expired {
            let deadline_ms = self.holders[&owner].deadline_ms;
            self.end_hold(owner, deadline_ms);
        }
        for waiting in self.waiters.values_mut() {
            waiting.lapsed |= self.clients[&waiting.acquire.client].until_ms <= now.ms;
        }
        self.check_wakes(now, wakes);
    }

    fn pull_in(&mut self, now: Now) {
        for alive in self.clients.values_mut() {
            alive.until_ms = alive.promised_ms.min(now.ms + alive.waiter_lease_ms);
        }
        for held in self.holders.values_mut() {
            let lease_ms = match self.clients.get(&held.client) {
                Some(alive) if held.handed => held.lease_ms.min(alive.waiter_lease_ms),
                _ => held.lease_ms,
            };
            held.deadline_ms = held.deadline_ms.min(now.ms + lease_ms);
        }
    }

    /// The request was carried out: `wakes` are those after it.
    pub(crate) fn check(&mut self, now: Now, request: &Request, step: &Step, wakes: &[Wake]) {
        match request {
            Request::Acquire(acquire) => self.check_acquire(now, acquire, step),
            Request::Refresh { client, waiter_lease_ms } => {
                self.check_refresh(now, *client, *waiter_lease_ms, step);
            }
            Request::Renew { owner, client, lease_ms, .. } => {
                self.check_renew(now, *owner, *client, *lease_ms, &step.reply);
            }
            Request::Release { owner, bury_until_ms, last_used } => {
                self.check_release(now, *owner, *bury_until_ms, *last_used, &step.reply);
            }
            Request::Break { token, at_once } => {
                self.check_break(now, *token, *at_once, step);
            }
            Request::ClientGone { client } => self.client_gone(now, *client),
            Request::Resize { permits } => self.kind = Kind::Semaphore { permits: *permits },
            Request::PoolAdd { member } => self.check_add(now, member, &step.reply),
            Request::PoolRemove { member } => self.check_remove(member, &step.reply),
            // A once has properties of its own: see `once.rs`.
            Request::Finish { .. } | Request::Undo => unreachable!("no op sends it"),
            Request::Tick => assert_eq!(step.reply, Reply::Done),
        }
        self.check_wakes(now, wakes);
        if !step.more {
            self.check_nothing_left_to_do(now);
        }
    }

    fn check_wakes(&mut self, now: Now, wakes: &[Wake]) {
        for Wake { client, owner, event } in wakes {
            if matches!(event, WakeEvent::Revoked { .. }) {
                continue;
            }
            if let WakeEvent::Wanted { token } = event {
                let held = &self.holders[owner];
                assert_eq!((held.client, held.token), (*client, *token), "who keeps it is told");
                assert!(held.stays(), "it is not kept");
                continue;
            }
            let place = self.place_of(*owner).expect("who is woken was waiting");
            let acquire = self.waiters.remove(&place).expect("just found").acquire;
            assert_eq!(acquire.client, *client, "the wake-up goes to another client");
            let alive = &self.clients[client];
            assert!(alive.until_ms > now.ms, "a dead waiter was woken");
            match event {
                WakeEvent::Granted(grant) => {
                    let lease_ms = acquire.lease_ms.min(alive.waiter_lease_ms);
                    self.check_grant(now, acquire, Some(place), grant, lease_ms);
                }
                _ => assert!(weight(&acquire.ask) > self.capacity(), "refused for no reason"),
            }
        }
    }

    /// G1, G2 and G3 at the moment of a grant. A newcomer has no place.
    fn check_grant(
        &mut self,
        now: Now,
        acquire: AcquireRequest,
        place: Option<u64>,
        grant: &Grant,
        lease_ms: u64,
    ) {
        assert_eq!(grant.deadline_ms, now.ms + lease_ms, "the lease is not what was asked for");
        let token = grant.token.expect("a token with every grant");
        assert_eq!(token.raw(), now.wall_us.max(self.last_token + 1), "G2");
        let ahead_us = (token.raw() - 1).saturating_sub(now.wall_us);
        let tokens = match acquire.ask {
            Ask::Turns { tokens } | Ask::Stay { tokens } => {
                u64::from(tokens).min(10_000 - ahead_us.min(9_999))
            }
            _ => 1,
        };
        assert_eq!(u64::from(grant.tokens), tokens, "no more than stays near the clock");
        self.last_token = token.raw() + tokens - 1;
        for (other, waiting) in &self.waiters {
            let came_earlier = place.is_none_or(|place| *other < place);
            let overtaken = came_earlier && !waiting.lapsed && wants(&waiting.acquire.ask, grant);
            assert!(!overtaken, "G3: {:?} at {other} was overtaken", waiting.acquire.ask);
        }
        if let Some(member) = &grant.member {
            let freed = self.members.insert(member.clone(), None).flatten();
            let freed = freed.expect("G1: the member is there and free");
            assert!(wants(&acquire.ask, grant), "not the member that was asked for");
            let longest = self.members.values().flatten().min();
            let chose_wrong =
                acquire.ask == Ask::Any && longest.is_some_and(|other| *other < freed);
            assert!(place.is_some() || !chose_wrong, "another member was free for longer");
        }
        let held = Held {
            client: acquire.client,
            token,
            tokens: grant.tokens,
            ask: acquire.ask,
            member: grant.member.clone(),
            lease_ms: acquire.lease_ms,
            deadline_ms: grant.deadline_ms,
            handed: place.is_some(),
            revoked: false,
        };
        self.check_wanted(&held, grant);
        self.holders.insert(acquire.owner, held);
        assert!(self.weight() <= self.capacity(), "G1: more is held than there is");
    }

    /// A grant says that others want the lock if it is kept and some do. Dead waiters may or may not count.
    pub(crate) fn check_wanted(&self, held: &Held, grant: &Grant) {
        let may_be = held.stays() && !self.waiters.is_empty();
        let must_be = held.stays() && self.waiters.values().any(|waiting| !waiting.lapsed);
        assert!(may_be || !grant.wanted, "nobody wants it");
        assert!(!must_be || grant.wanted, "the grant does not say that it is wanted");
    }

    /// G4 in the small: nobody who is alive waits for what is free.
    fn check_nothing_left_to_do(&self, now: Now) {
        let is_alive = |w: &&Waiting| self.clients[&w.acquire.client].until_ms > now.ms;
        if self.kind == Kind::Pool {
            for member in self.members.iter().filter(|(_, freed)| freed.is_some()).map(|(m, _)| m) {
                let wanted = Some(member.clone());
                let grant = Grant {
                    token: None,
                    tokens: 1,
                    wanted: false,
                    deadline_ms: 0,
                    member: wanted,
                    vote: None,
                };
                let awaited = |w: &Waiting| !w.lapsed && wants(&w.acquire.ask, &grant);
                assert!(!self.waiters.values().any(awaited), "{member} is free, and awaited");
            }
        } else if let Some(first) = self.waiters.values().find(is_alive) {
            let fits = self.has_room_for(&first.acquire.ask);
            assert!(first.lapsed || !fits, "it is free, and awaited: {:?}", first.acquire.ask);
        }
    }

    fn capacity(&self) -> u64 {
        match self.kind {
            Kind::Mutex | Kind::Once => 1,
            Kind::Semaphore { permits } => permits.into(),
            Kind::RwLock | Kind::Pool => WRITE,
        }
    }

    fn weight(&self) -> u64 {
        self.holders.values().map(|held| weight(&held.ask)).sum()
    }

    fn has_room_for(&self, ask: &Ask) -> bool {
        match ask {
            Ask::Any => self.members.values().any(Option::is_some),
            Ask::Member(member) => self.members.get(member).is_some_and(Option::is_some),
            _ => self.weight() + weight(ask) <= self.capacity(),
        }
    }

    fn place_of(&self, owner: Owner) -> Option<u64> {
        self.waiters.iter().find(|(_, w)| w.acquire.owner == owner).map(|(&place, _)| place)
    }

    fn keep_alive(&mut self, now: Now, client: ClientId, waiter_lease_ms: u64) {
        let until_ms = now.ms + waiter_lease_ms;
        self.clients
            .insert(client, ClientLease { promised_ms: until_ms, until_ms, waiter_lease_ms });
    }

    fn end_hold(&mut self, owner: Owner, freed_ms: u64) {
        let held = self.holders.remove(&owner).expect("a holder");
        let Some(member) = held.member else { return };
        if self.leaving.contains(&member) {
            self.leaving.retain(|leaving| *leaving != member);
            self.members.remove(&member);
        } else {
            self.members.insert(member, Some((self.steps, freed_ms)));
        }
    }
}

/// More than there are clients' requests in a life, so that one writer is as much as all readers.
const WRITE: u64 = 1_000;

fn weight(ask: &Ask) -> u64 {
    match ask {
        Ask::Write => WRITE,
        Ask::Permits { take, .. } => (*take).into(),
        Ask::Mutex
        | Ask::Turns { .. }
        | Ask::Stay { .. }
        | Ask::Read
        | Ask::Any
        | Ask::Member(_)
        | Ask::Once(_) => 1,
    }
}

/// Would this request take what was granted? There is only one thing to take but in a pool.
fn wants(ask: &Ask, grant: &Grant) -> bool {
    match ask {
        Ask::Member(member) => grant.member.as_ref() == Some(member),
        _ => true,
    }
}
