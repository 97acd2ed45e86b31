//! The commands of the golden scripts of a session.
//!
//! | command | means |
//! |---|---|
//! | `at MS …` · `at next …` | moves the local clock, or moves it to the next timeout, and handles the timeout; any command may start with it |
//! | `new` | a new session, at 0; its pauses come from seed 0 |
//! | `acquire A [ASK] [lock=job] [lease=30000] [wait=no\|MS] [max_hold=MS] [turns=N] [stay=N]` | begins an acquire and polls it; without `wait` it waits for ever; `ASK` as in the scripts of the lock |
//! | `poll A` | what a task does that was woken: polls the acquire, or else the release |
//! | `cancel A` | drops the acquire |
//! | `answer acquire A REPLY` | answers what was sent last, and polls the acquire |
//! | `answer renew A REPLY` · `answer release A REPLY` · `answer refresh LOCK REPLY` | |
//! | `wake A granted token=N until=MS` · `wake A revoked [token=N]` · `wake A refused WHY` · `wake A wanted token=N` · `wake A done` | pushes a wake-up |
//! | `done A` · `fail A` | ends a guard that is an attempt at work |
//! | `release A` | ends a guard; without one, releases a handle: `[lock=job] [bury=MS] [for=30000]` |
//! | `carry A` · `adopt A token=N until=MS [lock=job] [lease=30000] [max_hold=MS]` | a guard becomes a handle, and back |
//! | `gone A` · `doubt [LOCK]` · `unattended` · `end keeps` | |
//! | `clock +MS [server=N]` · `clock -MS [server=N]` | sets a store's clock; to begin with it shows the local time |
//! | `reconnect [server=N]` | answers and wake-ups come from a new connection from now on |
//!
//! `REPLY` is `granted token=N until=MS [tokens=N] [wanted]`, `renewed token=N until=MS [wanted]`, `queued place=N front=N
//! [recheck=MS] [quarantined=MS]`, `refreshed waiting=N front=N [recheck=MS] [quarantined=MS] [granted=A
//! token=N until=MS]`, `busy`, `kept`, `done`, `revoked`, `released`, `left`, `not_held`, `refused WHY` or `failed HOW`.
//! `WHY` is `cancelled`, `too_late`, `queue_full` or `kind`; `HOW` is `not_done`, `unknown`, `broken` or
//! `unsupported`. `engine=MS` says what the store's clock showed if that was not the time of the answer.
//!
//! A lock `name@2` is on server 2, any other on server 0. Owners are capital letters; the session takes
//! fresh ones from `Z` down. Deadlines of the store are milliseconds on its clock, all other times are
//! local milliseconds.

mod exchange;
mod read;
mod show;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};

use taketurns_core::session::{
    AcquireAction, AcquireOutcome, Anchor, Hold, LocalTurn, PlaceRefresh, ReleaseAction, ReleaseId,
    Session, WakerSwap,
};
use taketurns_core::{AttemptEnd, ClientId, Name, Note, Owner};

use super::Outcome;
use super::words::{Words, name, owner};
use read::{OPTIONS, Subject};

/// Runs a script. Returns it with what comes of each command in place of what it said.
pub(super) fn run(script: &str) -> Result<String, String> {
    let mut world = World::new();
    super::replay(script, |line| {
        world.command(Words::new(line, &OPTIONS)?)?;
        Ok(world.out.take())
    })
}

/// Counts how often an operation was woken.
#[derive(Default)]
struct Counter(AtomicU32);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a holder has in its hands.
struct Guard {
    hold: Arc<Hold>,
    turn: Option<LocalTurn>,
}

/// One server of the store.
#[derive(Clone, Copy, Default)]
struct Server {
    ahead_ms: i64,
    epoch: u64,
}

struct World {
    session: Session,
    now_us: u64,
    servers: BTreeMap<u64, Server>,
    /// The lock of every owner that was ever used.
    locks: BTreeMap<Owner, Name>,
    /// The operations under way.
    wakers: BTreeMap<(Subject, Owner), Arc<Counter>>,
    /// When requests were sent that were not answered yet.
    sent: BTreeMap<(Subject, Owner), u64>,
    refreshes: BTreeMap<Name, (u64, PlaceRefresh)>,
    guards: BTreeMap<Owner, Guard>,
    /// The newest release of each owner.
    releases: BTreeMap<Owner, ReleaseId>,
    next_us: Option<u64>,
    fresh: u8,
    out: Outcome,
}

impl World {
    fn new() -> Self {
        let mut session = Session::new(ClientId::from_bits(1), 0);
        // From here on the session has to say when the next timeout comes sooner.
        session.poll_timeout();
        Self {
            session,
            now_us: 0,
            servers: BTreeMap::new(),
            releases: BTreeMap::new(),
            locks: BTreeMap::new(),
            wakers: BTreeMap::new(),
            sent: BTreeMap::new(),
            refreshes: BTreeMap::new(),
            guards: BTreeMap::new(),
            next_us: None,
            fresh: b'Z',
            out: Outcome::default(),
        }
    }

    fn command(&mut self, mut words: Words<'_>) -> Result<(), String> {
        if words.first() == Some("at") {
            let at_us = match words.at(1)? {
                "next" => self.next_us.ok_or("there is no next timeout")?,
                word => read::us(word)?,
            };
            if at_us < self.now_us {
                return Err("the local clock never goes back".into());
            }
            self.now_us = at_us;
            words.list.drain(..2);
            self.session.handle_timeout(self.now_us);
            self.flush(true)?;
        }
        match words.first() {
            None => return Ok(()),
            Some("new") => *self = Self::new(),
            Some("acquire") => self.acquire(&words)?,
            Some("poll") => self.poll(owner(words.at(1)?)?)?,
            Some("cancel") => self.cancel(owner(words.at(1)?)?)?,
            Some("answer") => self.answer(&words)?,
            Some("wake") => self.wake(&words)?,
            Some("release" | "done" | "fail") => self.release(&words)?,
            Some("carry") => {
                let Guard { hold, turn } = self.guard(owner(words.at(1)?)?)?;
                self.session.carry(&hold, turn.as_ref());
            }
            Some("adopt") => self.adopt(&words)?,
            Some("gone") => self.session.handle_gone(self.now_us, owner(words.at(1)?)?),
            Some("doubt") => {
                let lock = words.at(1).ok().map(read::lock).transpose()?;
                self.session.handle_doubt(self.now_us, lock.as_ref());
            }
            Some("end") => self.session.end_keeps(self.now_us),
            Some("unattended") => self.session.handle_unattended(self.now_us),
            Some("clock") => self.server(&words)?.ahead_ms += words.parse::<i64>(1)?,
            Some("reconnect") => self.server(&words)?.epoch += 1,
            Some(other) => return Err(format!("`{other}` is no command")),
        }
        self.flush(false)
    }

    fn acquire(&mut self, words: &Words<'_>) -> Result<(), String> {
        let spec = read::spec(words, self.now_us)?;
        let owner = self.enter(spec.terms.owner, &spec.terms.lock)?;
        self.session.begin_acquire(self.now_us, spec);
        self.poll_acquire(owner)
    }

    fn adopt(&mut self, words: &Words<'_>) -> Result<(), String> {
        let (terms, grant) = (read::terms(words)?, read::grant(words)?);
        let owner = terms.owner;
        self.locks.insert(owner, terms.lock.clone());
        let (origin, engine_ms) = self.engine(&terms.lock);
        let anchor = Anchor { sent_us: self.now_us, engine_ms };
        match self.session.adopt(self.now_us, terms, None, grant, (origin, anchor)) {
            Some(hold) => self.hold(owner, hold, None, None),
            None => self.out.say("over already"),
        }
        Ok(())
    }

    /// An owner begins an operation. None is ever used twice.
    fn enter(&mut self, owner: Owner, lock: &Name) -> Result<Owner, String> {
        if self.locks.insert(owner, lock.clone()).is_some() {
            return Err(format!("{} was used before", name(owner)));
        }
        self.wakers.insert((Subject::Acquire, owner), Arc::default());
        Ok(owner)
    }

    fn poll(&mut self, owner: Owner) -> Result<(), String> {
        if self.wakers.contains_key(&(Subject::Acquire, owner)) {
            return self.poll_acquire(owner);
        }
        self.waker(Subject::Release, owner)?;
        self.poll_release(owner);
        Ok(())
    }

    fn poll_acquire(&mut self, mut owner: Owner) -> Result<(), String> {
        loop {
            let key = (Subject::Acquire, owner);
            let (lock, fresh) = (self.lock(owner)?, self.fresh);
            let mint = || Owner::from_bits(u128::from(fresh - b'A' + 1));
            let mut swap = WakerSwap::new(self.waker(Subject::Acquire, owner)?);
            let server = read::server(&lock);
            match self.session.poll_acquire(self.now_us, owner, server, &mut swap, mint) {
                AcquireAction::Send(request) => self.send(Subject::Acquire, owner, &request),
                AcquireAction::Answer => self.out.say("answer"),
                AcquireAction::Wait => {
                    self.sent.remove(&key);
                    self.out.say("wait");
                }
                AcquireAction::Renamed(fresh) => {
                    self.out.say(format!("goes on as {}", name(fresh)));
                    self.end(Subject::Acquire, owner);
                    self.fresh -= 1;
                    owner = self.enter(fresh, &lock)?;
                    continue;
                }
                AcquireAction::Done(acquired) => {
                    self.end(Subject::Acquire, owner);
                    self.acquired(owner, acquired);
                }
            }
            return Ok(());
        }
    }

    fn acquired(&mut self, owner: Owner, acquired: AcquireOutcome) {
        match acquired {
            AcquireOutcome::Granted { hold, turn, woken } => self.hold(owner, hold, turn, woken),
            other => self.out.say(show::acquired(&other)),
        }
    }

    fn hold(
        &mut self,
        owner: Owner,
        hold: Arc<Hold>,
        turn: Option<LocalTurn>,
        woken: Option<(Anchor, u64)>,
    ) {
        self.out.say(show::granted(owner, &hold, turn.as_ref(), woken));
        self.guards.insert(owner, Guard { hold, turn });
    }

    fn cancel(&mut self, owner: Owner) -> Result<(), String> {
        let mut swap = WakerSwap::new(self.waker(Subject::Acquire, owner)?);
        self.session.cancel_acquire(self.now_us, owner, &mut swap);
        self.end(Subject::Acquire, owner);
        Ok(())
    }

    /// A guard ends, or what is known of an owner is given back.
    fn release(&mut self, words: &Words<'_>) -> Result<(), String> {
        let owner = owner(words.at(1)?)?;
        let Ok(Guard { hold, turn }) = self.guard(owner) else {
            let (lock, bury_ms) = (read::lock_of(words)?, words.option("bury", 0)?);
            let for_us = words.option("for", 30_000)? * 1_000;
            self.locks.insert(owner, lock);
            let now_us = self.now_us;
            let id = self.session.begin_release(now_us, owner, bury_ms, None, for_us);
            self.releases.insert(owner, id);
            self.wakers.insert((Subject::Release, owner), Arc::default());
            self.poll_release(owner);
            return Ok(());
        };
        let end = match words.first() {
            Some("done") => {
                self.session.finish(self.now_us, &hold, AttemptEnd::Done(Note::default()))
            }
            Some("fail") => self.session.finish(self.now_us, &hold, AttemptEnd::Failed),
            _ => self.session.release(self.now_us, &hold, turn.as_ref()),
        };
        if let Some(cause) = end.loss {
            self.out.say(format!("was lost: {cause}"));
        }
        match end.release {
            None => self.out.say("handed on"),
            Some((id, next)) => {
                self.releases.insert(hold.owner(), id);
                self.wakers.insert((Subject::Release, hold.owner()), Arc::default());
                self.release_next(hold.owner(), next);
            }
        }
        Ok(())
    }

    fn poll_release(&mut self, owner: Owner) {
        let waker = self.waker(Subject::Release, owner).unwrap_or_else(|_| Waker::noop().clone());
        let Some(id) = self.releases.get(&owner) else { return };
        let next = self.session.poll_release(self.now_us, *id, &mut WakerSwap::new(waker));
        self.release_next(owner, next);
    }

    fn release_next(&mut self, owner: Owner, next: ReleaseAction) {
        match next {
            ReleaseAction::Send(request) => self.send(Subject::Release, owner, &request),
            ReleaseAction::Answer => self.out.say("answer"),
            ReleaseAction::Wait => self.out.say("wait"),
            ReleaseAction::Done(released) => {
                self.end(Subject::Release, owner);
                self.out.say(show::released(released));
            }
        }
    }

    fn wake(&mut self, words: &Words<'_>) -> Result<(), String> {
        let owner = owner(words.at(1)?)?;
        let (origin, _) = self.engine(&self.lock(owner)?);
        self.session.handle_wake(self.now_us, owner, read::wake(words)?, origin);
        Ok(())
    }
}
