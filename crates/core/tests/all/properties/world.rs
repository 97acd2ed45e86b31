//! A lock and its clients. Each client follows the rules of a client: it refreshes its places, asks again when it has
//! fewer places than it thought, and buries requests that it sent more than once.

use std::collections::BTreeMap;

use taketurns_core::wire::{self, WireReply};
use taketurns_core::{
    AcquireRequest, Ask, ClientId, Grant, Kind, Label, Lock, Now, Owner, Refusal, Reply, Request,
    Step, Token, Wake, WakeEvent,
};

use crate::properties::checker::Checker;
use crate::properties::ops::{CLIENTS, LEASE_MS_MAX, Op, WantedLock, members};

const WALL_US: u64 = 1_790_000_000_000_000;
const WAITER_LEASE_MS_MAX: u64 = 3_000;
/// A third of the shortest waiter lease.
const ROUND_MS: u64 = 100;

/// One acquire as its client sees it.
struct Attempt {
    acquire: AcquireRequest,
    sent: u32,
    held: bool,
    /// What it was granted last, as far as it heard.
    grant: Option<Grant>,
}

impl Attempt {
    fn new(acquire: AcquireRequest) -> Self {
        Self { acquire, sent: 1, held: false, grant: None }
    }

    fn takes(&mut self, grant: &Grant) {
        self.held = true;
        self.grant = Some(grant.clone());
    }
}

pub(crate) struct World {
    lock: Lock,
    /// The same lock elsewhere.
    replica: Lock,
    checker: Checker,
    now: Now,
    /// Who has each client's number now. The dead send nothing more.
    clients: [ClientId; CLIENTS],
    attempts: Vec<Attempt>,
    under_way: Vec<AcquireRequest>,
    /// What was sent and may come once more: refreshes, renewals and releases.
    sent: Vec<Request>,
    wakes_lost: bool,
    ids: u64,
}

impl World {
    pub(crate) fn new(kind: Kind) -> Self {
        let mut world = Self {
            lock: Lock::new(),
            replica: Lock::new(),
            checker: Checker::new(),
            now: Now { ms: 1_000_000, wall_us: WALL_US },
            clients: [0, 1, 2, 3].map(ClientId::from_bits),
            attempts: Vec::new(),
            under_way: Vec::new(),
            sent: Vec::new(),
            wakes_lost: false,
            ids: CLIENTS as u64,
        };
        match kind {
            Kind::Semaphore { permits } => world.send(Request::Resize { permits }),
            Kind::Pool => {
                let member = members().next().expect("a member");
                world.send(Request::PoolAdd { member })
            }
            _ => world.send(Request::Tick),
        };
        world
    }

    pub(crate) fn act(&mut self, op: &Op) {
        match op {
            Op::Pass(ms) => self.pass(*ms),
            Op::SetBack(ms) => {
                self.now.ms -= ms;
                self.now.wall_us -= ms * 1_000;
            }
            Op::Acquire { client, want, lease_ms, waits, under_way } => {
                self.ask(*client, want, *lease_ms, *waits, *under_way);
            }
            Op::Double { at } => {
                if let Some(attempt) = pick(&mut self.attempts, *at) {
                    attempt.sent += 1;
                    self.under_way.push(attempt.acquire.clone());
                }
            }
            Op::Deliver { at } => {
                if !self.under_way.is_empty() {
                    let acquire = self.under_way.swap_remove(at % self.under_way.len());
                    self.acquire(acquire);
                }
            }
            Op::Release { at } => {
                if !self.attempts.is_empty() {
                    self.release(at % self.attempts.len());
                }
            }
            Op::Refresh { client, reply_lost } => self.refresh(*client, *reply_lost),
            Op::Renew { at, lease_ms } => self.renew(*at, *lease_ms),
            Op::Break { at, at_once } => self.break_(*at, *at_once),
            Op::Die { client, noticed } => self.die(*client, *noticed),
            Op::Resize(permits) => drop(self.send(Request::Resize { permits: *permits })),
            Op::Add(member) => drop(self.send(Request::PoolAdd { member: member.clone() })),
            Op::Remove(member) => drop(self.send(Request::PoolRemove { member: member.clone() })),
            Op::Mistake => self.mistake(),
            Op::LoseWakes(lost) => self.wakes_lost = *lost,
            Op::Reload => self.reload(),
            Op::Replay { at } => {
                if let Some(request) = pick(&mut self.sent, *at).cloned() {
                    self.apply(request);
                }
            }
            Op::Tick => drop(self.send(Request::Tick)),
        }
    }

    /// The faults end: everybody alive gets its turn, gives it back, and goes. In the time that the
    /// last of the dead may hold, and not in the sum of all of theirs.
    pub(crate) fn drain(&mut self) {
        self.wakes_lost = false;
        self.under_way.clear();
        if self.checker.kind == Kind::Pool {
            members().for_each(|member| drop(self.send(Request::PoolAdd { member })));
        }
        let turns_ms = 2 * ROUND_MS * (self.attempts.len() as u64 + 2);
        let end_ms = self.now.ms + LEASE_MS_MAX + WAITER_LEASE_MS_MAX + turns_ms;
        while !self.attempts.is_empty() {
            assert!(self.now.ms < end_ms, "G4: {} still wait", self.attempts.len());
            self.pass(ROUND_MS);
            (0..CLIENTS).for_each(|client| self.refresh(client, false));
            while let Some(at) = self.attempts.iter().position(|attempt| attempt.held) {
                self.release(at);
            }
        }
    }

    fn send(&mut self, request: Request) -> Step {
        let comes_again = matches!(
            request,
            Request::Refresh { .. } | Request::Renew { .. } | Request::Release { .. }
        );
        if comes_again {
            self.sent.push(request.clone());
        }
        self.apply(request)
    }

    /// Every request goes through here, and so past the checker.
    fn apply(&mut self, request: Request) -> Step {
        // A step first does what time has brought: what a tick would do at the same moment.
        let due = self.lock.clone().apply(self.now, &Request::Tick).wakes;
        let seen_ms = self.lock.seen_ms();
        let step = self.lock.apply(self.now, &request);
        self.repeat(seen_ms, &request, &step);
        said_and_heard(self.now, &request, &step);
        assert_eq!(step.wakes[..due.len()], due, "a step starts with what is due");
        if step.timed {
            self.checker.catch_up(self.now, &due);
        }
        self.checker.check(self.now, &request, &step, &step.wakes[due.len()..]);
        self.lock.audit().expect("a sound lock");
        assert_eq!(self.lock.kind(), self.checker.kind);
        if !self.wakes_lost {
            step.wakes.iter().for_each(|wake| self.woken(wake));
        }
        if step.more {
            self.apply(Request::Tick);
        }
        step
    }

    /// Elsewhere the steps that changed something are repeated, and no others: it comes to the same.
    fn repeat(&mut self, seen_ms: u64, request: &Request, step: &Step) {
        if step.changed {
            self.replica.see(seen_ms);
            let repeated = self.replica.apply(self.now, request);
            assert_eq!(&repeated, step, "a repeated step does the same");
            assert_eq!(self.replica, self.lock, "and leaves the same");
        } else {
            let mut replica = self.replica.clone();
            replica.see(self.lock.seen_ms());
            assert_eq!(replica, self.lock, "what is not repeated leaves no trace");
        }
    }

    fn woken(&mut self, wake: &Wake) {
        let Some(at) = self.attempt_of(wake.owner) else { return };
        match &wake.event {
            WakeEvent::Inquired { .. } => panic!("nobody has a ballot here"),
            WakeEvent::Granted(grant) => self.attempts[at].takes(grant),
            WakeEvent::Refused(_) => drop(self.attempts.swap_remove(at)),
            WakeEvent::Revoked { .. } | WakeEvent::Wanted { .. } | WakeEvent::DoneBefore(_) => {}
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now.ms += ms;
        self.now.wall_us += ms * 1_000;
    }

    fn ask(
        &mut self,
        client: usize,
        want: &WantedLock,
        lease_ms: u64,
        waits: bool,
        under_way: bool,
    ) {
        let ask = match (want, self.checker.kind) {
            (WantedLock::Permits(take), Kind::Semaphore { permits }) => {
                Ask::Permits { take: (*take).min(permits), of: permits }
            }
            (WantedLock::This(ask), _) => ask.clone(),
            (want, kind) => panic!("{want:?} of a {kind}"),
        };
        self.ids += 1;
        let acquire = AcquireRequest {
            owner: Owner::from_bits(self.ids.into()),
            client: self.clients[client],
            ask,
            at_least_ms: 0,
            lease_ms,
            waiter_lease_ms: waits.then_some(waiter_lease_ms(client)),
            not_after_ms: self.now.ms + 4_000,
            ballot: None,
            label: Label::default(),
        };
        self.attempts.push(Attempt::new(acquire.clone()));
        if under_way {
            // Given up unanswered it would have to be buried, as if sent more than once.
            self.attempts.last_mut().expect("just pushed").sent += 1;
            self.under_way.push(acquire);
        } else {
            self.acquire(acquire);
        }
    }

    fn acquire(&mut self, acquire: AcquireRequest) {
        let reply = self.send(Request::Acquire(acquire.clone())).reply;
        let Some(at) = self.attempt_of(acquire.owner) else { return };
        match reply {
            Reply::Granted(grant) => self.attempts[at].takes(&grant),
            Reply::Busy => self.release(at),
            Reply::Refused(Refusal::KindMismatch(_)) => drop(self.attempts.swap_remove(at)),
            _ => {}
        }
    }

    fn release(&mut self, at: usize) {
        let Attempt { acquire, sent, grant, .. } = self.attempts.swap_remove(at);
        let bury_until_ms = if sent > 1 { acquire.not_after_ms } else { 0 };
        // Some have handed on turns by themselves, and some of those tell how many.
        let used = |grant: Grant| Some(grant.token?.raw() + self.ids % u64::from(grant.tokens));
        let last_used = grant.and_then(used).filter(|_| !self.ids.is_multiple_of(3));
        let last_used = last_used.map(Token::from_raw);
        self.send(Request::Release { owner: acquire.owner, bury_until_ms, last_used });
    }

    fn refresh(&mut self, client: usize, reply_lost: bool) {
        let id = self.clients[client];
        let waiter_lease_ms = waiter_lease_ms(client);
        let reply = self.send(Request::Refresh { client: id, waiter_lease_ms }).reply;
        let Reply::Refreshed { waiting, granted, .. } = reply else { return };
        if reply_lost {
            return;
        }
        for (owner, grant) in granted {
            if let Some(at) = self.attempt_of(owner) {
                self.attempts[at].takes(&grant);
            }
        }
        let mine = |attempt: &&Attempt| attempt.acquire.client == id && !attempt.held;
        if self.attempts.iter().filter(mine).count() > waiting as usize {
            let owners: Vec<Owner> =
                self.attempts.iter().filter(mine).map(|attempt| attempt.acquire.owner).collect();
            owners.into_iter().for_each(|owner| self.ask_again(owner));
        }
    }

    fn ask_again(&mut self, owner: Owner) {
        let Some(at) = self.attempt_of(owner) else { return };
        let attempt = &mut self.attempts[at];
        attempt.sent += 1;
        attempt.acquire.not_after_ms = attempt.acquire.not_after_ms.max(self.now.ms + 4_000);
        let acquire = attempt.acquire.clone();
        self.acquire(acquire);
    }

    fn renew(&mut self, at: usize, lease_ms: u64) {
        let mut held: Vec<_> = self.attempts.iter().filter(|attempt| attempt.held).collect();
        let Some(attempt) = pick(&mut held, at) else { return };
        let AcquireRequest { owner, client, .. } = attempt.acquire;
        if self.send(Request::Renew { owner, client, lease_ms, write_back: None }).reply
            == Reply::NotHeld
        {
            // Lost: what was lost is released all the same, in case it was not.
            let at = self.attempt_of(owner).expect("an attempt of a live client");
            self.release(at);
        }
    }

    fn break_(&mut self, at: Option<usize>, at_once: bool) {
        let mut tokens: Vec<_> =
            self.checker.holders().map(|(_, held)| held.last_token()).collect();
        let token = at.and_then(|at| pick(&mut tokens, at).copied());
        self.send(Request::Break { token, at_once });
    }

    fn die(&mut self, client: usize, noticed: bool) {
        let dead = self.clients[client];
        self.ids += 1;
        self.clients[client] = ClientId::from_bits(self.ids);
        self.attempts.retain(|attempt| attempt.acquire.client != dead);
        if noticed {
            self.send(Request::ClientGone { client: dead });
        }
    }

    fn mistake(&mut self) {
        // What time has brought may have ended the use.
        self.send(Request::Tick);
        if !self.checker.is_in_use(self.now) {
            return;
        }
        let other = if self.checker.kind == Kind::Mutex { Ask::Read } else { Ask::Mutex };
        self.ids += 1;
        let acquire = AcquireRequest {
            owner: Owner::from_bits(self.ids.into()),
            client: self.clients[0],
            ask: other,
            at_least_ms: 0,
            lease_ms: 1_000,
            waiter_lease_ms: None,
            not_after_ms: self.now.ms + 1,
            ballot: None,
            label: Label::default(),
        };
        let before = self.checker.kind;
        let reply = self.send(Request::Acquire(acquire)).reply;
        assert_eq!(reply, Reply::Refused(Refusal::KindMismatch(before)));
    }

    fn reload(&mut self) {
        let stored = postcard::to_allocvec(&self.lock.snapshot()).expect("to store");
        let snapshot = postcard::from_bytes(&stored).expect("to read back");
        let restored = Lock::restore(snapshot).expect("a sound lock");
        assert_eq!(restored, self.lock, "what was read back is another lock");
    }

    fn attempt_of(&self, owner: Owner) -> Option<usize> {
        self.attempts.iter().position(|attempt| attempt.acquire.owner == owner)
    }
}

/// What goes over the wire comes out as it went in.
pub(crate) fn said_and_heard(now: Now, request: &Request, step: &Step) {
    let (verb, args) = wire::encode_request(request);
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    assert_eq!(wire::decode_request(verb, &args).as_ref(), Some(request));
    assert_eq!(wire::Verb::parse(verb.name().as_bytes()), Some(verb));
    let now_ms = step.timed.then_some(now.ms);
    let answered = WireReply { now_ms, more: step.more, reply: step.reply.clone() };
    let mut owners = BTreeMap::new();
    if let Reply::Refreshed { granted, .. } = &step.reply {
        owners.extend(granted.iter().map(|(owner, _)| (wire::public_id(*owner), *owner)));
    }
    let said = wire::encode(&answered);
    assert_eq!(wire::decode(&said, |id| owners.get(id).copied()), Some(answered));
    for Wake { owner, event, .. } in &step.wakes {
        assert!(!said.contains(&wire::owner_text(*owner)), "a secret is told");
        let message = wire::seal(*owner, "0123456789abcdef0123", event);
        let sealed = wire::SealedWake::parse(message.as_bytes()).expect("a wake-up");
        assert_eq!((sealed.id, sealed.run), (&*wire::public_id(*owner), "0123456789abcdef"));
        assert_eq!(sealed.open(*owner).as_ref(), Some(event));
        assert_eq!(sealed.open(Owner::from_bits(owner.expose() ^ 1)), None);
    }
}

/// Each client has its own.
fn waiter_lease_ms(client: usize) -> u64 {
    [300, 1_000, WAITER_LEASE_MS_MAX, WAITER_LEASE_MS_MAX][client]
}

fn pick<T>(list: &mut [T], at: usize) -> Option<&mut T> {
    let count = list.len().max(1);
    list.get_mut(at % count)
}
