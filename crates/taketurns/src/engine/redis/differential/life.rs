//! One lock's life in core: requests drawn from a seed, wild enough to meet every branch.

use serde_json::Value;
use taketurns_core::{
    AcquireRequest, Ask, AttemptEnd, ClientId, Kind, Label, Lock, Member, Note, Now, OnceTerms,
    Owner, Reply, Request, Step, Token, limits,
};
use taketurns_servers::fuzz::Dice;

use super::ballots::Ballots;
use super::sight::{ALL, ViewBefore};
use super::{CHANNEL, ExpectedStep, ScriptBinding};

/// In the year 2112, at the edge of what floors tokens; and far enough ahead that the server, whose
/// clock is the real one, does not think that everything has expired.
const BEGIN_US: u64 = limits::TOKEN_CLOCK_MAX - 60_000_000;
const MAX_LEASE_MS: u64 = 4_000;

pub(super) struct Life {
    dice: Dice,
    kind: Kind,
    now_us: u64,
    /// What is stored, and under which run it was last written.
    stored: Option<(Lock, String)>,
    binding: ScriptBinding,
    runs: u32,
    owners: u64,
    /// Those that hold, and those that wait.
    holding: Vec<Owner>,
    waiting: Vec<Owner>,
    ballots: Ballots,
    /// The token of the attempt at work that ended last.
    finished: Token,
    /// Acquires of a crowd that are still to be sent.
    crowd: u32,
    /// Nothing to catch up with ever comes but ends of leases: most steps can be short cuts.
    is_calm: bool,
    /// Too many holders to audit every step.
    pub(super) is_crowded: bool,
}

impl Life {
    pub(super) fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let kinds =
            [Kind::Mutex, Kind::RwLock, Kind::Semaphore { permits: 4 }, Kind::Pool, Kind::Once];
        let is_calm = seed / 7 % 2 == 1;
        let (kind, percent) = match seed % 7 {
            at @ 0..5 => (kinds[at as usize], if is_calm { 0 } else { 3 }),
            _ => (Kind::Mutex, dice.one_of(&[50, 90])),
        };
        let now_us = BEGIN_US + if is_calm { 0 } else { dice.roll(120_000_000) };
        let binding = ScriptBinding {
            wire: None,
            run: format!("{:040x}", 1),
            known: String::new(),
            mark: String::new(),
            until_ms: 0,
            max_lease_ms: MAX_LEASE_MS,
            channel: CHANNEL.into(),
        };
        Self {
            dice,
            kind,
            now_us,
            stored: None,
            binding,
            runs: 1,
            owners: 16,
            holding: Vec::new(),
            waiting: Vec::new(),
            ballots: Ballots::new(percent),
            finished: Token::from_raw(0),
            crowd: 0,
            is_calm,
            is_crowded: false,
        }
    }

    /// Time passes, something is asked. The state is only wanted now and then, and takes long.
    pub(super) fn step(&mut self, look: bool) -> ExpectedStep {
        self.pass();
        if !self.is_calm && self.dice.percent(1) && self.crowd == 0 {
            self.restart();
        }
        let now = self.now();
        let request = self.request(now);
        self.try_out(now, request, look)
    }

    fn pass(&mut self) {
        let span_ms = match self.dice.roll(100) {
            _ if self.crowd > 0 => 0,
            _ if self.is_calm => self.dice.roll(20),
            0..75 => self.dice.roll(10),
            75..94 => self.dice.roll(200),
            94..98 => self.dice.roll(3_000),
            98 => self.dice.roll(20_000),
            99 if self.kind == Kind::Once && self.dice.percent(50) => 90_000_000,
            _ => {
                self.now_us -= self.dice.roll(6_000) * 1_000;
                0
            }
        };
        self.now_us += span_ms * 1_000 + self.dice.roll(1_000);
    }

    /// Another run of the server, or another server.
    fn restart(&mut self) {
        let before = self.binding.run.clone();
        self.runs += 1;
        self.binding.run = format!("{:040x}", self.runs);
        self.binding.known = if self.dice.percent(60) { before } else { String::new() };
        let until_ms = self.now_us / 1_000 + self.dice.roll(MAX_LEASE_MS);
        self.binding.until_ms = if self.dice.percent(50) { until_ms } else { 0 };
    }

    /// This request, some time after the last one.
    pub(super) fn tell(&mut self, request: Request, after_ms: u64, look: bool) -> ExpectedStep {
        self.now_us += after_ms * 1_000;
        self.try_out(self.now(), request, look)
    }

    pub(super) fn now(&self) -> Now {
        Now { ms: self.now_us / 1_000, wall_us: self.now_us }
    }

    /// As the scripts do it: what is met from another run is in quarantine.
    fn try_out(&mut self, now: Now, request: Request, look: bool) -> ExpectedStep {
        let binding = self.binding.clone();
        let is_new = self.stored.is_none();
        let (mut lock, mut run) = self.stored.take().unwrap_or((Lock::new(), binding.run.clone()));
        let before = lock.clone();
        if lock.quarantine_until_ms() > now.ms + limits::quarantine_ms_max(binding.max_lease_ms) {
            lock.end_quarantine_by(now.ms + binding.max_lease_ms);
        }
        if run != binding.run && !binding.known.contains(&run) {
            lock.quarantine(now.ms + binding.max_lease_ms);
        }
        if now.ms < binding.until_ms {
            lock.quarantine(binding.until_ms);
        }
        let waiters_max = self.dice.one_of(&[2, ALL]);
        let sight = look.then(|| ViewBefore::of(&lock, is_new, now, waiters_max));
        let mut step = lock.apply(now, &request);
        if step.timed {
            run = binding.run.clone();
        } else {
            // It does not look at the run, nor at what that means. The next step will.
            lock = before;
            step = lock.apply(now, &request);
        }
        self.follow(&request, &step);
        if look || !self.is_crowded {
            lock.audit().unwrap_or_else(|corrupt| panic!("{corrupt}"));
        }
        let (state, forget_at_ms) = if lock.is_blank() {
            (Value::Null, None)
        } else {
            let state = if look { super::hash::of_core(&lock) } else { Value::Null };
            let forget_at_ms = lock.forget_at_ms();
            self.stored = Some((lock, run));
            (state, forget_at_ms)
        };
        ExpectedStep {
            now,
            binding,
            request,
            reply: step.reply,
            timed: step.timed,
            more: step.more,
            wakes: step.wakes,
            look,
            sight,
            state,
            forget_at_ms,
        }
    }

    /// Follows who holds and who waits, from replies and wake-ups. Owners whose leases ran out
    /// stay, so that requests about them are made too.
    fn follow(&mut self, request: &Request, step: &Step) {
        self.ballots.follow(request, step);
        let owner = match request {
            Request::Acquire(acquire) => Some(acquire.owner),
            Request::Release { owner, .. } | Request::Finish { owner, .. } => Some(*owner),
            _ => None,
        };
        if let Some(owner) = owner {
            self.holding.retain(|other| *other != owner);
            self.waiting.retain(|other| *other != owner);
            match step.reply {
                Reply::Granted(_) => self.holding.push(owner),
                Reply::Queued(_) => self.waiting.push(owner),
                _ => {}
            }
        }
        if let (Request::Finish { token, .. }, Reply::Released) = (request, &step.reply) {
            self.finished = *token;
        }
        for wake in &step.wakes {
            self.waiting.retain(|other| *other != wake.owner);
            self.holding.push(wake.owner);
        }
        self.holding.drain(..self.holding.len().saturating_sub(6));
        self.waiting.drain(..self.waiting.len().saturating_sub(40));
    }

    fn request(&mut self, now: Now) -> Request {
        if self.crowd > 0 {
            self.crowd -= 1;
            return self.acquire(now, true);
        }
        if self.dice.roll(1_000) == 0 {
            // More than one step may grant or skip.
            self.crowd = 90;
        }
        match self.dice.roll(100) {
            0..34 => self.acquire(now, false),
            34..44 => Request::Refresh {
                client: self.client(),
                waiter_lease_ms: self.mostly(&[300, 1_000, 3_000], &[9]),
            },
            44..54 => self.renew(),
            54..70 if self.kind == Kind::Once || self.dice.percent(1) => self.finish(),
            83 if self.kind == Kind::Once || self.dice.percent(5) => Request::Undo,
            54..78 => self.release(now),
            78..81 => self.break_(),
            81..83 => Request::ClientGone { client: self.client() },
            83..85 => Request::Resize { permits: self.mostly(&[1, 3, 4, 6], &[0, 1_000_001]) },
            85..91 if self.is_pool() => Request::PoolAdd { member: self.member() },
            91..93 if self.is_pool() => Request::PoolRemove { member: self.member() },
            _ => Request::Tick,
        }
    }

    /// Now and then somebody makes a pool of something else.
    fn is_pool(&mut self) -> bool {
        self.kind == Kind::Pool || self.dice.percent(2)
    }

    fn acquire(&mut self, now: Now, crowd: bool) -> Request {
        let is_new = crowd || self.dice.percent(self.ballots.newcomers());
        let owner = if is_new { self.new_owner() } else { self.owner() };
        let (who, why) = self.dice.one_of(&[("", ""), ("web1:7 x", ""), ("ü", "two words")]);
        Request::Acquire(AcquireRequest {
            owner,
            client: self.client(),
            ask: self.ask(),
            at_least_ms: match self.dice.percent(10) && !self.is_calm {
                true => self.mostly(&[10, 400, 3_000], &[9, 86_400_001]),
                false => 0,
            },
            lease_ms: self.mostly(&[10, 1_000, 5_000, 5_000], &[9]),
            waiter_lease_ms: self.mostly(&[None, Some(300), Some(3_000)], &[Some(9)]),
            not_after_ms: now.ms + self.mostly(&[10_000], &[0, 1]),
            ballot: self.ballots.ballot(&mut self.dice, now, owner),
            label: Label::new(who, why).expect("a label"),
        })
    }

    fn renew(&mut self) -> Request {
        let owner = self.owner();
        let last = self.stored.as_ref().and_then(|(lock, _)| lock.last_token());
        let last = last.map_or(0, Token::raw);
        Request::Renew {
            owner,
            client: self.client(),
            lease_ms: self.mostly(&[10, 500, 2_000], &[9, 86_400_001]),
            write_back: self.ballots.write_back(&mut self.dice, last, owner),
        }
    }

    fn release(&mut self, now: Now) -> Request {
        let last = self.stored.as_ref().and_then(|(lock, _)| lock.last_token());
        let (back, on) = (self.dice.roll(12), self.dice.roll(3));
        let used = |token: Token| Token::from_raw(token.raw().saturating_sub(back) + on);
        let last_used = last.filter(|_| self.dice.percent(40)).map(used);
        Request::Release { owner: self.owner(), bury_until_ms: self.bury(now), last_used }
    }

    fn finish(&mut self) -> Request {
        let last = self.stored.as_ref().and_then(|(lock, _)| lock.last_token());
        let token = match self.dice.roll(10) {
            0..7 => last.unwrap_or(self.finished),
            7..9 => self.finished,
            _ => Token::from_raw(self.finished.raw().saturating_sub(1)),
        };
        let end = match self.dice.percent(40) {
            true => AttemptEnd::Done(Note::new(self.dice.one_of(&["", "3 ü"])).expect("a note")),
            false => AttemptEnd::Failed,
        };
        let (owner, bury_until_ms) = (self.owner(), self.bury(self.now()));
        Request::Finish { owner, token, end, bury_until_ms }
    }

    fn ask(&mut self) -> Ask {
        let kinds =
            [Kind::Mutex, Kind::RwLock, Kind::Semaphore { permits: 4 }, Kind::Pool, Kind::Once];
        let kind = if self.dice.percent(3) { self.dice.one_of(&kinds) } else { self.kind };
        let size = match self.stored.as_ref().map(|(lock, _)| lock.kind()) {
            Some(Kind::Semaphore { permits }) => permits,
            _ => 4,
        };
        match kind {
            Kind::Mutex if self.dice.percent(20) => {
                Ask::Turns { tokens: self.mostly(&[1, 2, 8, 10_000], &[0, 10_001]) }
            }
            Kind::Mutex if self.dice.percent(25) => {
                Ask::Stay { tokens: self.mostly(&[1, 2, 8, 10_000], &[0, 10_001]) }
            }
            Kind::Mutex => Ask::Mutex,
            Kind::RwLock => self.dice.one_of(&[Ask::Read, Ask::Read, Ask::Write]),
            Kind::Semaphore { .. } => {
                Ask::Permits { take: self.mostly(&[1, 1, 2, 3], &[0, 5]), of: size }
            }
            Kind::Once => Ask::Once(OnceTerms {
                keep_ms: self.mostly(&[1_000, 60_000, 86_400_000], &[999, 2_678_400_001]),
                offset_ms: self.mostly(&[None, None, Some(0), Some(700)], &[Some(86_400_000)]),
                attempts: self.mostly(&[0, 2, 5], &[u32::MAX]),
                pause_ms: self.mostly(&[0, 0, 100, 4_000], &[86_400_001]),
            }),
            Kind::Pool if self.dice.percent(50) => Ask::Any,
            Kind::Pool => Ask::Member(self.member()),
        }
    }

    fn break_(&mut self) -> Request {
        let newest = self.stored.as_ref().and_then(|(lock, _)| lock.last_token());
        let token = match self.dice.roll(3) {
            0 => None,
            _ => newest.map(|token| Token::from_raw(token.raw().saturating_sub(self.dice.roll(2)))),
        };
        Request::Break { token, at_once: self.dice.percent(40) }
    }

    fn bury(&mut self, now: Now) -> u64 {
        match self.dice.roll(10) {
            _ if self.is_calm => 0,
            0..6 => 0,
            6..9 => now.ms + self.dice.roll(8_000),
            _ => u64::MAX,
        }
    }

    fn mostly<T: Clone>(&mut self, usual: &[T], odd: &[T]) -> T {
        if self.dice.percent(4) { self.dice.one_of(odd) } else { self.dice.one_of(usual) }
    }

    fn owner(&mut self) -> Owner {
        match self.dice.roll(10) {
            0..7 if !self.holding.is_empty() => self.dice.one_of(&self.holding),
            7..9 if !self.waiting.is_empty() => self.dice.one_of(&self.waiting),
            _ => owner(self.owners.saturating_sub(self.dice.roll(50))),
        }
    }

    fn new_owner(&mut self) -> Owner {
        self.owners += 1;
        owner(self.owners)
    }

    fn client(&mut self) -> ClientId {
        ClientId::from_bits(self.dice.roll(5) + 1)
    }

    fn member(&mut self) -> Member {
        Member::new(self.dice.one_of(&["a", "b 2", "ü", "4"])).expect("a name")
    }
}

/// Spread over all numbers, so that their order is not that of their making. JSON holds 64 bits.
pub(super) fn owner(number: u64) -> Owner {
    Owner::from_bits((number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into())
}
