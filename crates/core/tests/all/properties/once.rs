//! Random lives of a once, against books that are kept from what was sent and answered.
//!
//! What must hold: nobody is granted while the work is done; it is done at most once until it is forgotten or undone;
//! everybody who asks or waits is told, and by whom; an attempt that its worker knew of counts exactly once, and one that
//! was handed to a dead waiter never; nobody is granted past the limit, or in the pause; and a request that is sent again
//! changes nothing.

use std::collections::BTreeMap;

use proptest::prelude::*;
use taketurns_core::limits::WAITER_LEASE_MS_MAX;
use taketurns_core::{
    AcquireRequest, Ask, AttemptEnd, ClientId, Completion, Grant, Label, Lock, Note, Now,
    OnceTerms, Owner, Refusal, Reply, Request, Token, Wake, WakeEvent,
};

use super::world::said_and_heard;

const START: Now = Now { ms: 1_000_000, wall_us: 1_790_000_000_000_000 };
const LEASE_MS: u64 = 1_000;
const ATTEMPTS: u32 = 3;
const PAUSE_MS: u64 = 700;
const KEEP_MS: u64 = 5_000;

#[derive(Clone, Debug)]
pub(crate) enum OnceOp {
    Pass(u64),
    Ask { waits: bool, is_mortal: bool },
    Repeat { at: usize },
    Done { at: usize, is_stale: bool },
    Fail { at: usize },
    Release { at: usize },
    Renew { at: usize },
    Break { at_once: bool },
    Undo,
    Reboot,
    Reload,
}

pub(crate) fn ops() -> impl Strategy<Value = Vec<OnceOp>> {
    let at = || 0..8_usize;
    let op = prop_oneof![
        6 => prop_oneof![0..150_u64, 150..1_200_u64, 1_200..6_000_u64].prop_map(OnceOp::Pass),
        10 => (any::<bool>(), prop::bool::weighted(0.3))
            .prop_map(|(waits, is_mortal)| OnceOp::Ask { waits, is_mortal }),
        2 => at().prop_map(|at| OnceOp::Repeat { at }),
        3 => (at(), prop::bool::weighted(0.2)).prop_map(|(at, is_stale)| OnceOp::Done { at, is_stale }),
        4 => at().prop_map(|at| OnceOp::Fail { at }),
        2 => at().prop_map(|at| OnceOp::Release { at }),
        4 => at().prop_map(|at| OnceOp::Renew { at }),
        1 => any::<bool>().prop_map(|at_once| OnceOp::Break { at_once }),
        1 => Just(OnceOp::Undo),
        1 => Just(OnceOp::Reboot),
        1 => Just(OnceOp::Reload),
    ];
    prop::collection::vec(op, 1..80)
}

/// The attempt under way.
#[derive(Debug)]
struct Working {
    owner: Owner,
    token: Token,
    /// Its worker knows: the grant was answered, or renewed since.
    is_told: bool,
    deadline_ms: u64,
}

pub(crate) struct OnceWorld {
    lock: Lock,
    now: Now,
    ids: u128,
    /// Those who asked, oldest first.
    owners: Vec<Owner>,
    /// Those who wait, by the number of their place, with the time at which they lapse.
    waiting: BTreeMap<u64, (Owner, u64)>,
    working: Option<Working>,
    failed: u32,
    /// When the last attempt ended, on the lease clock.
    ended_ms: u64,
    /// Until when what came of it is remembered, on the wall clock.
    until_ms: u64,
    done: Option<Completion>,
    last_token: Option<Token>,
}

impl OnceWorld {
    pub(crate) fn new() -> Self {
        Self {
            lock: Lock::new(),
            now: START,
            ids: 0,
            owners: Vec::new(),
            waiting: BTreeMap::new(),
            working: None,
            failed: 0,
            ended_ms: 0,
            until_ms: 0,
            done: None,
            last_token: None,
        }
    }

    pub(crate) fn act(&mut self, op: &OnceOp) {
        self.catch_up();
        match *op {
            OnceOp::Pass(ms) => {
                self.now.ms += ms;
                self.now.wall_us += ms * 1_000;
                self.catch_up();
            }
            OnceOp::Ask { waits, is_mortal } => {
                self.ids += 1;
                let owner = Owner::from_bits(self.ids);
                self.owners.push(owner);
                self.ask(owner, waits.then_some(if is_mortal { 300 } else { WAITER_LEASE_MS_MAX }));
            }
            OnceOp::Repeat { at } => {
                if let Some(owner) = self.worker(at) {
                    self.ask(owner, Some(WAITER_LEASE_MS_MAX));
                }
            }
            OnceOp::Done { at, is_stale } => {
                self.finish(at, is_stale, &AttemptEnd::Done(Note::default()))
            }
            OnceOp::Fail { at } => self.finish(at, false, &AttemptEnd::Failed),
            OnceOp::Release { at } => self.release(at),
            OnceOp::Renew { at } => self.renew(at),
            OnceOp::Break { at_once } => {
                let (reply, wakes) = self.send(&Request::Break { token: None, at_once });
                if at_once && reply == Reply::Broken(1) {
                    self.end_attempt(self.now.ms);
                }
                self.hear(wakes);
            }
            OnceOp::Undo => {
                let had = self.done.is_some() || self.failed > 0;
                let (reply, wakes) = self.send(&Request::Undo);
                assert_eq!(reply, Reply::Changed(had));
                (self.done, self.failed) = (None, 0);
                self.hear(wakes);
            }
            OnceOp::Reboot => {
                self.lock.reboot();
                (self.working, self.ended_ms) = (None, 0);
                self.waiting.clear();
                self.catch_up();
            }
            OnceOp::Reload => {
                let stored = postcard::to_allocvec(&self.lock.snapshot()).expect("to store");
                let snapshot = postcard::from_bytes(&stored).expect("to read back");
                assert_eq!(Lock::restore(snapshot).as_ref(), Ok(&self.lock));
            }
        }
    }

    /// After the faults somebody does the work, and everybody is told.
    pub(crate) fn drain(&mut self) {
        self.act(&OnceOp::Ask { waits: true, is_mortal: false });
        for _ in 0..200 {
            if let Some(working) = &self.working {
                let (owner, token) = (working.owner, working.token);
                self.finish_as(owner, token, &AttemptEnd::Done(Note::default()));
                assert!(self.done.is_some() && self.awaited() == 0);
                return;
            }
            self.act(&OnceOp::Undo);
            self.act(&OnceOp::Pass(LEASE_MS));
            self.act(&OnceOp::Ask { waits: true, is_mortal: false });
        }
        panic!("the work is never done");
    }

    /// Any owner, but mostly the one that works.
    fn worker(&self, at: usize) -> Option<Owner> {
        let any = self.owners.get(at % self.owners.len().max(1)).copied();
        let working = self.working.as_ref().map(|working| working.owner);
        working.filter(|_| !at.is_multiple_of(4)).or(any)
    }

    fn is_working(&self, owner: Owner) -> bool {
        self.working.as_ref().is_some_and(|working| working.owner == owner)
    }

    fn ask(&mut self, owner: Owner, waiter_lease_ms: Option<u64>) {
        let (keep_ms, offset_ms) = (KEEP_MS, None);
        let terms = OnceTerms { keep_ms, offset_ms, attempts: ATTEMPTS, pause_ms: PAUSE_MS };
        let acquire = AcquireRequest {
            owner,
            // Each has a client of its own, so that it lapses by itself.
            client: client_of(owner),
            ask: Ask::Once(terms),
            at_least_ms: 0,
            lease_ms: LEASE_MS,
            waiter_lease_ms,
            not_after_ms: u64::MAX,
            ballot: None,
            label: label_of(owner),
        };
        let (reply, wakes) = self.send(&Request::Acquire(acquire));
        match reply {
            Reply::Granted(grant) if self.is_working(owner) => {
                assert_eq!(self.working.as_ref().map(|working| working.token), grant.token);
            }
            Reply::Granted(grant) => {
                let overtaken =
                    self.waiting.values().find(|(_, lapses_ms)| *lapses_ms > self.now.ms);
                assert_eq!(overtaken, None, "a waiter was overtaken");
                self.begin(owner, &grant, true);
            }
            Reply::Queued(place) => {
                let lapses_ms = self.now.ms + waiter_lease_ms.unwrap_or(0);
                // Its earlier place may have lapsed and be gone.
                self.waiting
                    .retain(|&number, (waiter, _)| *waiter != owner || number == place.number);
                let known = self.waiting.entry(place.number).or_insert((owner, lapses_ms));
                known.1 = known.1.max(lapses_ms);
                assert_eq!(known.0, owner);
            }
            Reply::DoneBefore(told) => assert_eq!(Some(*told), self.done),
            Reply::Refused(Refusal::Exhausted { failed }) => {
                assert_eq!(failed, self.failed);
                assert!(failed >= ATTEMPTS && self.done.is_none());
            }
            Reply::Busy => assert!(waiter_lease_ms.is_none() && self.done.is_none()),
            other => panic!("{other:?}"),
        }
        self.hear(wakes);
    }

    fn finish(&mut self, at: usize, is_stale: bool, end: &AttemptEnd) {
        let Some(owner) = self.worker(at) else { return };
        let own = self.working.as_ref().filter(|working| working.owner == owner);
        let done = self.done.as_ref().map(|done| done.token);
        let token = own.map(|working| working.token).or(done).filter(|_| !is_stale);
        self.finish_as(owner, token.unwrap_or(Token::from_raw(7)), end);
    }

    fn finish_as(&mut self, owner: Owner, token: Token, end: &AttemptEnd) {
        let (reply, wakes) =
            self.send(&Request::Finish { owner, token, end: end.clone(), bury_until_ms: 0 });
        let is_own = self.is_working(owner)
            && self.working.as_ref().is_some_and(|working| working.token == token);
        let is_done = matches!(end, AttemptEnd::Done(_));
        let is_repeated = is_done && self.done.as_ref().is_some_and(|done| done.token == token);
        assert_eq!(reply == Reply::Released, is_own || is_repeated, "{reply:?}");
        if is_own && is_done {
            self.working = None;
            let at_ms = self.now.wall_us / 1_000;
            let mut done = Completion::new(label_of(owner), token, at_ms, at_ms + KEEP_MS);
            done.failed = self.failed;
            (self.until_ms, self.done) = (done.until_ms, Some(done));
        } else if is_own {
            self.working.as_mut().expect("it works").is_told = true;
            self.end_attempt(self.now.ms);
        }
        self.hear(wakes);
    }

    fn release(&mut self, at: usize) {
        let Some(owner) = self.worker(at) else { return };
        let release = Request::Release { owner, bury_until_ms: 0, last_used: None };
        let (reply, wakes) = self.send(&release);
        assert_eq!(reply == Reply::Released, self.is_working(owner), "{reply:?}");
        match reply {
            Reply::Released => self.end_attempt(self.now.ms),
            Reply::Left => self.waiting.retain(|_, (waiter, _)| *waiter != owner),
            _ => {}
        }
        self.hear(wakes);
    }

    fn renew(&mut self, at: usize) {
        let Some(owner) = self.worker(at) else { return };
        let (client, lease_ms) = (client_of(owner), LEASE_MS);
        let (reply, _) = self.send(&Request::Renew { owner, client, lease_ms, write_back: None });
        if let (Reply::Renewed(grant), Some(working)) = (&reply, &mut self.working) {
            assert_eq!(working.owner, owner);
            (working.is_told, working.deadline_ms) = (true, grant.deadline_ms);
        }
    }

    /// What time brings: a lease ends, what is remembered is forgotten, and the next in line is granted.
    fn catch_up(&mut self) {
        if let Some(deadline_ms) = self.working.as_ref().map(|working| working.deadline_ms)
            && deadline_ms <= self.now.ms
        {
            self.end_attempt(deadline_ms);
        }
        if self.until_ms <= self.now.wall_us / 1_000 {
            (self.done, self.failed) = (None, 0);
        }
        let (_, wakes) = self.send(&Request::Tick);
        self.hear(wakes);
    }

    fn send(&mut self, request: &Request) -> (Reply, Vec<Wake>) {
        let step = self.lock.apply(self.now, request);
        self.lock.audit().unwrap_or_else(|corrupt| panic!("{corrupt} after {request:?}"));
        said_and_heard(self.now, request, &step);
        (step.reply, step.wakes)
    }

    fn hear(&mut self, wakes: Vec<Wake>) {
        for Wake { owner, event, .. } in wakes {
            let place = self.waiting.iter().find(|(_, (waiter, _))| *waiter == owner);
            let place = place.map(|(&number, _)| number);
            match event {
                WakeEvent::Granted(grant) => {
                    let first =
                        self.waiting.iter().find(|(_, (_, lapses_ms))| *lapses_ms > self.now.ms);
                    assert_eq!(
                        first.map(|(&number, _)| number),
                        place,
                        "the first who lives is next"
                    );
                    self.waiting.retain(|&number, _| Some(number) > place);
                    self.begin(owner, &grant, false);
                }
                WakeEvent::DoneBefore(told) => {
                    assert_eq!(Some(*told), self.done);
                    self.waiting.remove(&place.expect("it waited"));
                }
                WakeEvent::Refused(Refusal::Exhausted { failed }) => {
                    assert!(failed == self.failed && failed >= ATTEMPTS);
                    self.waiting.remove(&place.expect("it waited"));
                }
                WakeEvent::Revoked { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        let awaited = self.awaited();
        let may_begin = self.working.is_none() && !self.is_pausing();
        assert!(awaited == 0 || !may_begin, "{awaited} wait, and nobody works");
        assert!(awaited == 0 || self.done.is_none(), "somebody waits for work that is done");
    }

    /// How many wait for certain: a place that lapsed may be gone.
    fn awaited(&self) -> usize {
        self.waiting.values().filter(|(_, lapses_ms)| *lapses_ms > self.now.ms).count()
    }

    fn is_pausing(&self) -> bool {
        self.failed > 0 && self.ended_ms + PAUSE_MS > self.now.ms
    }

    fn begin(&mut self, owner: Owner, grant: &Grant, is_told: bool) {
        assert!(self.done.is_none(), "granted, though the work is done");
        assert!(self.working.is_none(), "granted twice");
        assert!(
            self.failed < ATTEMPTS && !self.is_pausing(),
            "granted, though it may not be tried"
        );
        assert!(grant.token > self.last_token, "tokens grow");
        let token = grant.token.expect("a token");
        self.last_token = Some(token);
        self.working = Some(Working { owner, token, is_told, deadline_ms: grant.deadline_ms });
    }

    /// The attempt under way ended without *done*.
    fn end_attempt(&mut self, ended_ms: u64) {
        let working = self.working.take().expect("it works");
        if !working.is_told {
            return;
        }
        let ago_ms = self.now.ms - ended_ms;
        (self.failed, self.ended_ms) = (self.failed + 1, ended_ms);
        self.until_ms = self.now.wall_us / 1_000 - ago_ms + KEEP_MS;
    }
}

fn client_of(owner: Owner) -> ClientId {
    ClientId::from_bits(owner.expose() as u64)
}

fn label_of(owner: Owner) -> Label {
    Label::new(&format!("w{}", owner.expose()), "").expect("a label")
}
