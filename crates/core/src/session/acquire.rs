//! One acquire, from the first request to the grant or the giving up.
//!
//! ```text
//!              ┌──────────── pause ◄──────────────┐ failed, lapsed, too late
//!              ▼                                  │
//!   InLine ─► Ask ─► Asking ─── queued ─► Waiting ┤
//!     │                 │ granted             │ granted by a wake-up, which may be old
//!     └─ Turn ─────────►└──► hold ◄───────────┴──► Confirm ─► Confirming
//! ```
//!
//! A wake-up is kept in the acquire that it is for until its future is polled: a grant is *offered* by
//! the engine and *taken* by the poll. An offer that nobody polls for is never renewed, so it lapses
//! after a waiter lease. However an acquire ends, it gives up what the engine may have of it.

use std::sync::Arc;

use super::acquiring::{Acquiring, Move, Offer, Over, Stage};
use super::timers::Timer;
use super::turns::{Course, Seat, Turn};
use super::{Anchor, Answer, Failure, Hold, LossCause, Session, Spare, Terms, Transmit};
use crate::{Ask, Label, Owner, Refusal, Reply, Request};

/// An acquire that arrives at the engine later than this after its sending changes nothing.
const ARRIVES_WITHIN_US: u64 = 10_000_000;

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The terms of the hold: lock, owner, lease.
    pub terms: Terms,
    /// What is asked for.
    pub ask: Ask,
    /// What people see.
    pub label: Label,
    /// For how long to wait.
    pub patience: Patience,
}

/// For how long an acquire waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Not at all.
    Try,
    /// Until this local time.
    Until(u64),
    /// For ever.
    Endless,
}

impl Wanted {
    /// With whom of this client it takes turns, if it does.
    fn course(&self) -> Option<Arc<Course>> {
        let Ask::Turns { tokens: turns } = self.ask else { return None };
        let Terms { ref lock, lease_ms, max_hold_us, .. } = self.terms;
        let waits = self.patience != Patience::Try;
        waits.then(|| Arc::new(Course { lock: lock.clone(), lease_ms, max_hold_us, turns }))
    }
}

/// What an acquire needs next.
#[derive(Debug)]
pub enum AcquireNext {
    /// This has to be sent. What was sent before is of no interest any more.
    Send(Request),
    /// The answer to what was sent.
    Answer,
    /// Nothing, until its waker is called. What was sent before is of no interest any more.
    Wait,
    /// The owner was given up: it goes on as this one.
    Renamed(Owner),
    /// It is over.
    Done(Acquired),
}

/// How an acquire ended.
#[derive(Debug)]
pub enum Acquired {
    /// It holds the lock.
    Granted {
        /// What it holds.
        hold: Arc<Hold>,
        /// Its turn, if the lock is handed on inside this client.
        turn: Option<Turn>,
        /// If a wake-up said so: by what the grant was judged, and its deadline on the engine's clock.
        woken: Option<(Anchor, u64)>,
    },
    /// Others hold the lock, and it would not wait.
    Busy,
    /// Its time is over.
    TimedOut {
        /// The engine answered at least once.
        was_answered: bool,
        /// For how long nobody is granted the lock, as far as the engine said.
        quarantine_left_us: Option<u64>,
    },
    /// The engine refused it.
    Refused {
        /// Why.
        refusal: Refusal,
        /// The engine's time.
        now_ms: u64,
    },
    /// The engine answered something that is no answer to it.
    Malformed(Reply),
    /// The last failure is final.
    Failed,
}

impl Session {
    /// Begins an acquire. Nothing is sent before it is polled.
    pub fn begin_acquire(&mut self, wanted: Wanted) {
        let (owner, course) = (wanted.terms.owner, wanted.course());
        let stage = match &course {
            Some(course) => self.enter_line(course, owner),
            None => Stage::Ask,
        };
        self.note_owner(owner);
        self.acquires.insert(owner, Acquiring::new(wanted, course, stage));
    }

    /// Returns what an acquire needs next. `source` is the server that the lock is on. `mint` makes a
    /// fresh owner.
    pub fn poll_acquire(
        &mut self,
        now_us: u64,
        owner: Owner,
        source: u64,
        spare: &mut Spare,
        mint: impl FnOnce() -> Owner,
    ) -> AcquireNext {
        let random = self.jitter.next();
        loop {
            let Some(acquire) = self.acquires.get_mut(&owner) else {
                return AcquireNext::Done(Acquired::Failed);
            };
            let next = match acquire.decide(now_us, random, &self.anchors) {
                Move::TakeTurn => match self.take_turn(now_us, owner, spare) {
                    Some(granted) => return AcquireNext::Done(granted),
                    None => continue,
                },
                Move::Take(offer) => {
                    let woken = offer.is_woken.then_some((offer.anchor, offer.grant.deadline_ms));
                    match self.take(now_us, owner, offer, spare) {
                        Some((hold, turn)) => {
                            return AcquireNext::Done(Acquired::Granted { hold, turn, woken });
                        }
                        None => continue,
                    }
                }
                Move::StartOver { give_back } => {
                    return AcquireNext::Renamed(self.start_over(now_us, owner, give_back, mint()));
                }
                Move::TimeOut => {
                    // One that waited in line all the time has asked nobody.
                    let was_in_line = acquire.course.is_some() && acquire.traffic.sent == 0;
                    let was_answered = acquire.traffic.was_answered || was_in_line;
                    let quarantine_left_us = self.quarantine_left_us(now_us, owner);
                    self.end_acquire(now_us, owner, spare);
                    let timed_out = Acquired::TimedOut { was_answered, quarantine_left_us };
                    return AcquireNext::Done(timed_out);
                }
                Move::End => return AcquireNext::Done(self.end_acquire(now_us, owner, spare)),
                Move::Ask => {
                    acquire.stage = Stage::Asking;
                    acquire.sight.handle_asking(self.anchors.newest(source));
                    let now_ms = self.anchors.latest(source).map(|anchor| {
                        anchor.engine_ms_at(now_us.saturating_add(ARRIVES_WITHIN_US))
                    });
                    let not_after_ms = now_ms.unwrap_or(ARRIVES_WITHIN_US / 1_000);
                    let request = acquire.acquire(self.client, self.waiter_lease_ms, not_after_ms);
                    AcquireNext::Send(request)
                }
                Move::Confirm => {
                    acquire.stage = Stage::Confirming;
                    let (client, lease_ms) = (self.client, acquire.wanted.terms.lease_ms);
                    AcquireNext::Send(Request::Renew { owner, client, lease_ms, write_back: None })
                }
                Move::Wait if self.is_unattended => {
                    return AcquireNext::Done(self.end_acquire(now_us, owner, spare));
                }
                Move::Answer => AcquireNext::Answer,
                Move::Wait => AcquireNext::Wait,
            };
            spare.store(&mut acquire.waker);
            let due_us = acquire.due_us();
            self.timers.set(&mut acquire.due, || Timer::Acquire(owner), due_us);
            self.look_sooner();
            return next;
        }
    }

    /// What an acquire sent was answered, or failed.
    pub fn handle_acquire_answer(
        &mut self,
        now_us: u64,
        owner: Owner,
        answer: Result<Answer, Failure>,
    ) {
        if let Ok(answer) = &answer {
            self.observe(now_us, answer.origin, answer.anchor);
        }
        let random = self.jitter.next();
        let Some(acquire) = self.acquires.get_mut(&owner) else { return };
        let is_asking = matches!(acquire.stage, Stage::Asking);
        if is_asking {
            let traffic = &mut acquire.traffic;
            traffic.was_answered |= answer.is_ok();
            // A minority may have a place of ours, or a vote.
            traffic.answered += u32::from(!matches!(answer, Err(Failure::Unknown)));
        } else if !matches!(acquire.stage, Stage::Confirming) {
            return;
        }
        let Answer { reply, origin, anchor, .. } = match answer {
            Ok(answer) => answer,
            Err(failure) => {
                let is_final = matches!(failure, Failure::Broken | Failure::Unsupported);
                match is_final || acquire.wanted.patience == Patience::Try {
                    true => acquire.stage = Stage::Over(Over::Failed),
                    false => acquire.pause(now_us, random),
                }
                return;
            }
        };
        let offer = |grant| {
            let (is_woken, is_confirmed) = (false, !is_asking);
            Stage::Granted(Offer { grant, origin, anchor, is_woken, is_confirmed })
        };
        acquire.stage = match reply {
            Reply::Renewed(grant) if !is_asking => offer(grant),
            Reply::Revoked if !is_asking => Stage::Spent { give_back: true },
            // It is not held any more.
            _ if !is_asking => return acquire.pause(now_us, random),
            Reply::Granted(grant) => {
                acquire.sight.handle_answered(origin);
                offer(grant)
            }
            Reply::Queued(place) => {
                acquire.backoff.reset();
                acquire.stage = Stage::Waiting;
                return self.handle_place(now_us, owner, place, origin, anchor);
            }
            Reply::Busy => {
                acquire.traffic.is_turned_away = true;
                Stage::Over(Over::Busy)
            }
            Reply::Refused(Refusal::Cancelled) => Stage::Spent { give_back: false },
            Reply::Refused(Refusal::TooLate) => return acquire.pause(now_us, random),
            Reply::Refused(refusal) => {
                Stage::Over(Over::Refused { refusal, now_ms: anchor.engine_ms })
            }
            reply => Stage::Over(Over::Malformed(reply)),
        };
    }

    /// Nobody wants it any more.
    pub fn cancel_acquire(&mut self, now_us: u64, owner: Owner, spare: &mut Spare) {
        self.end_acquire(now_us, owner, spare);
    }

    /// Takes a grant that can be relied on; of any other it has to ask how long it is good for.
    fn take(
        &mut self,
        now_us: u64,
        owner: Owner,
        offer: Offer,
        spare: &mut Spare,
    ) -> Option<(Arc<Hold>, Option<Turn>)> {
        let random = self.jitter.next();
        let acquire = self.acquires.get_mut(&owner)?;
        let bury_until_ms = acquire.traffic.bury_until_ms();
        let terms = Terms { bury_until_ms, ..acquire.wanted.terms.clone() };
        let Some(hold) = Hold::new(now_us, terms, offer.grant, offer.anchor) else {
            match offer.is_confirmed {
                true => acquire.pause(now_us, random),
                false => acquire.stage = Stage::Confirm,
            }
            return None;
        };
        let id = acquire.id.take();
        let acquire = self.remove_acquire(owner, spare)?;
        let is_broken = acquire.is_broken_since(&hold);
        let seat = acquire.course.as_deref().map(|course| Seat::first(now_us, course, &hold));
        let turn = acquire.course.map(|course| Turn { token: hold.token(), course });
        let hold = self.keep(now_us, hold, offer.origin.source, seat, id);
        if is_broken {
            self.lose(now_us, owner, LossCause::Revoked);
        }
        Some((hold, turn))
    }

    /// Begins the turn that it was offered, unless the lock is lost by now: then it leads.
    fn take_turn(&mut self, now_us: u64, owner: Owner, spare: &mut Spare) -> Option<Acquired> {
        let acquire = self.acquires.get_mut(&owner)?;
        let offered = std::mem::replace(&mut acquire.stage, Stage::Ask);
        let Stage::Turn { hold, turn } = offered else { return None };
        if self.loss(now_us, &hold).is_some() {
            self.give_back(now_us, &hold);
            return None;
        }
        hold.begin_turn(now_us);
        self.remove_acquire(owner, spare);
        Some(Acquired::Granted { hold, turn: Some(turn), woken: None })
    }

    /// The owner is nobody any more: it goes on as another. What it was granted is given back first if
    /// it is broken, since nobody works under it yet.
    fn start_over(&mut self, now_us: u64, owner: Owner, give_back: bool, fresh: Owner) -> Owner {
        let mut spare = Spare::default();
        let Some(old) = self.remove_acquire(owner, &mut spare) else { return owner };
        if give_back {
            self.give_up(now_us, &old);
        }
        let random = self.jitter.next();
        let mut wanted = old.wanted;
        wanted.terms.owner = fresh;
        let mut acquire = Acquiring::new(wanted, old.course, Stage::Ask);
        acquire.backoff = old.backoff;
        acquire.waker = spare.old;
        if !give_back {
            acquire.pause(now_us, random);
        }
        self.note_owner(fresh);
        self.acquires.insert(fresh, acquire);
        fresh
    }

    /// Ends an acquire that got nothing.
    fn end_acquire(&mut self, now_us: u64, owner: Owner, spare: &mut Spare) -> Acquired {
        let Some(mut acquire) = self.remove_acquire(owner, spare) else { return Acquired::Failed };
        if acquire.traffic.leaves_something() {
            self.give_up(now_us, &acquire);
        }
        let stage = std::mem::replace(&mut acquire.stage, Stage::Ask);
        if let Some(course) = &acquire.course {
            match &stage {
                Stage::InLine { number } => self.leave_line(course, *number),
                Stage::Turn { hold, .. } => {
                    if !self.pass_on(now_us, hold, course) {
                        self.give_back(now_us, hold);
                    }
                }
                _ => self.lead_on(course),
            }
        }
        match stage {
            Stage::Over(Over::Busy) => Acquired::Busy,
            Stage::Over(Over::Malformed(reply)) => Acquired::Malformed(reply),
            Stage::Over(Over::Refused { refusal, now_ms }) => Acquired::Refused { refusal, now_ms },
            _ => Acquired::Failed,
        }
    }

    fn remove_acquire(&mut self, owner: Owner, spare: &mut Spare) -> Option<Acquiring> {
        let mut acquire = self.acquires.remove(&owner)?;
        self.timers.set(&mut acquire.due, || Timer::Acquire(owner), None);
        spare.old = acquire.waker.take();
        self.forget_id(acquire.id.take());
        if let Some(place) = acquire.place {
            let lock = &acquire.wanted.terms.lock;
            if let Some(queue) = self.queues.get_mut(lock) {
                queue.remove(owner, place);
                if queue.is_empty() {
                    self.timers.set(&mut queue.due, || Timer::Queue(lock.clone()), None);
                    self.queues.remove(lock);
                }
            }
        }
        Some(acquire)
    }

    /// Whatever the engine may have of it, it is to forget. In the background: nobody waits for it.
    fn give_up(&mut self, now_us: u64, acquire: &Acquiring) {
        let Terms { lock, owner, lease_ms, .. } = &acquire.wanted.terms;
        let longest_us = (*lease_ms).max(self.waiter_lease_ms).saturating_mul(1_000);
        let for_us = longest_us.saturating_add(ARRIVES_WITHIN_US);
        let bury_until_ms = acquire.traffic.bury_until_ms();
        let id = self.begin_release(now_us, lock, *owner, bury_until_ms, None, for_us);
        let (lock, owner) = (lock.clone(), *owner);
        self.transmits.push(Transmit::Release { lock, id, owner });
    }

    fn quarantine_left_us(&self, now_us: u64, owner: Owner) -> Option<u64> {
        let acquire = self.acquires.get(&owner).filter(|acquire| acquire.place.is_some())?;
        let queue = self.queues.get(&acquire.wanted.terms.lock)?;
        let left_us = queue.quarantined_until_us?.saturating_sub(now_us);
        (left_us > 0).then_some(left_us)
    }
}
