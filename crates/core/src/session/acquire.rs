//! One acquire, from the first request to the grant or the giving up.
//!
//! ```text
//!                    ┌──────────── pause ◄──────────────┐ failed, lapsed, too late
//!                    ▼                                  │
//!   AwaitingTurn ─► Ask ─► Asking ─── queued ─► Waiting ┤
//!     │                       │ granted             │ granted by a wake-up, which may be old
//!     └─ Turn ───────────────►└──► hold ◄───────────┴──► Confirm ─► Confirming
//! ```
//!
//! A wake-up is kept in the acquire that it is for until its future is polled: a grant is *offered* by
//! the engine and *taken* by the poll. An offer that nobody polls for is never renewed, so it lapses
//! after a waiter lease. However an acquire ends, it gives up what the engine may have of it.

use std::sync::Arc;

use super::acquire_state::{AcquireDecision, AcquireEnd, AcquireStage, AcquireState, Offer};
use super::timers::Timer;
use super::turns::{LocalTurn, TurnBudget, TurnGroup};
use super::{
    Anchor, CallFailure, Hold, HoldTerms, LossCause, Session, TimedReply, Transmit, WakerSwap,
};
use crate::{Ask, Completion, Label, Owner, Refusal, Reply, Request};

/// An acquire that arrives at the engine later than this after its sending changes nothing.
const ARRIVES_WITHIN_US: u64 = 10_000_000;

/// What to acquire, on which terms, and how long to wait for it.
#[derive(Clone, Debug)]
pub struct AcquireSpec {
    /// The terms of the hold: lock, owner, lease.
    pub terms: HoldTerms,
    /// What is asked for.
    pub ask: Ask,
    /// How long nobody else is granted what this takes, from the grant on; 0 if it ends with the hold.
    pub at_least_ms: u64,
    /// What people see.
    pub label: Label,
    /// For how long to wait.
    pub wait_limit: WaitLimit,
}

/// How long an acquire waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitLimit {
    /// Not at all.
    Try,
    /// Until this local time.
    Until(u64),
    /// For ever.
    Endless,
}

/// What an acquire needs next.
#[derive(Debug)]
pub enum AcquireAction {
    /// Send this request. It replaces the one before.
    Send(Request),
    /// The answer to what was sent.
    Answer,
    /// Nothing, until its waker is called. What was sent before is of no interest any more.
    Wait,
    /// The owner was given up: it goes on as this one.
    Renamed(Owner),
    /// It is over.
    Done(AcquireOutcome),
}

/// How an acquire ended.
#[derive(Debug)]
pub enum AcquireOutcome {
    /// It holds the lock.
    Granted {
        /// What it holds.
        hold: Arc<Hold>,
        /// Its turn, if the lock is handed on inside this client.
        turn: Option<LocalTurn>,
        /// If a wake-up said so: by what the grant was judged, and its deadline on the engine's clock.
        woken: Option<(Anchor, u64)>,
    },
    /// Others hold the lock, and it would not wait.
    Busy,
    /// The work of the once is done already.
    DoneBefore(Box<Completion>),
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
    /// Begins an acquire. Nothing is sent for it before it is polled.
    pub fn begin_acquire(&mut self, now_us: u64, spec: AcquireSpec) {
        let owner = spec.terms.owner;
        let group = match spec.ask {
            Ask::Turns { .. } | Ask::Stay { .. } => TurnGroup::of(&spec),
            _ => None,
        };
        if !self.turn_queues.is_empty() {
            self.want_of_others(now_us, &spec.terms.lock, group.as_deref());
        }
        let stage = match &group {
            Some(group) => self.join_turn_queue(now_us, group, owner),
            None => AcquireStage::Ask,
        };
        self.note_owner(owner);
        self.acquires.insert(owner, AcquireState::new(spec, group, stage));
    }

    /// Returns what an acquire needs next. `source` is the server that the lock is on. `mint` makes a
    /// fresh owner.
    pub fn poll_acquire(
        &mut self,
        now_us: u64,
        owner: Owner,
        source: u64,
        swap: &mut WakerSwap,
        mint: impl FnOnce() -> Owner,
    ) -> AcquireAction {
        let random = self.jitter.next();
        loop {
            let Some(acquire) = self.acquires.get_mut(&owner) else {
                return AcquireAction::Done(AcquireOutcome::Failed);
            };
            let next = match acquire.decide(now_us, random, &self.anchors) {
                AcquireDecision::TakeTurn => match self.take_turn(now_us, owner, swap) {
                    Some(granted) => return AcquireAction::Done(granted),
                    None => continue,
                },
                AcquireDecision::Take(offer) => {
                    let woken = offer.is_woken.then_some((offer.anchor, offer.grant.deadline_ms));
                    match self.take(now_us, owner, offer, swap) {
                        Some((hold, turn)) => {
                            return AcquireAction::Done(AcquireOutcome::Granted {
                                hold,
                                turn,
                                woken,
                            });
                        }
                        None => continue,
                    }
                }
                AcquireDecision::StartOver { give_back } => {
                    return AcquireAction::Renamed(self.start_over(
                        now_us,
                        owner,
                        give_back,
                        mint(),
                    ));
                }
                AcquireDecision::TimeOut => {
                    // One that has only waited for a local turn has asked nobody.
                    let has_awaited_turn = acquire.group.is_some() && acquire.traffic.sent == 0;
                    let was_answered = acquire.traffic.was_answered || has_awaited_turn;
                    let quarantine_left_us = self.quarantine_left_us(now_us, owner);
                    self.end_acquire(now_us, owner, swap);
                    let timed_out = AcquireOutcome::TimedOut { was_answered, quarantine_left_us };
                    return AcquireAction::Done(timed_out);
                }
                AcquireDecision::End => {
                    return AcquireAction::Done(self.end_acquire(now_us, owner, swap));
                }
                AcquireDecision::Ask => {
                    acquire.stage = AcquireStage::Asking;
                    acquire.wake_anchor.handle_asking(self.anchors.newest(source));
                    let now_ms = self.anchors.latest(source).map(|anchor| {
                        anchor.engine_ms_at(now_us.saturating_add(ARRIVES_WITHIN_US))
                    });
                    let not_after_ms = now_ms.unwrap_or(ARRIVES_WITHIN_US / 1_000);
                    AcquireAction::Send(acquire.request(
                        self.client,
                        self.waiter_lease_ms,
                        not_after_ms,
                    ))
                }
                AcquireDecision::Confirm => {
                    acquire.stage = AcquireStage::Confirming;
                    let (client, lease_ms) = (self.client, acquire.spec.terms.lease_ms);
                    AcquireAction::Send(Request::Renew {
                        owner,
                        client,
                        lease_ms,
                        write_back: None,
                    })
                }
                AcquireDecision::Wait if self.is_unattended => {
                    return AcquireAction::Done(self.end_acquire(now_us, owner, swap));
                }
                AcquireDecision::Answer => AcquireAction::Answer,
                AcquireDecision::Wait => AcquireAction::Wait,
            };
            swap.store(&mut acquire.waker);
            let due_us = acquire.due_us();
            self.timers.set(&mut acquire.due, || Timer::Acquire(owner), due_us);
            return next;
        }
    }

    /// What an acquire sent was answered, or failed.
    pub fn handle_acquire_answer(
        &mut self,
        now_us: u64,
        owner: Owner,
        answer: Result<TimedReply, CallFailure>,
    ) {
        if let Ok(answer) = &answer {
            self.observe(now_us, answer.origin, answer.anchor);
        }
        let random = self.jitter.next();
        let Some(acquire) = self.acquires.get_mut(&owner) else { return };
        let is_asking = matches!(acquire.stage, AcquireStage::Asking);
        if is_asking {
            let traffic = &mut acquire.traffic;
            traffic.was_answered |= answer.is_ok();
            // A minority may have a place of ours, or a vote.
            traffic.answered += u32::from(!matches!(answer, Err(CallFailure::Unknown)));
        } else if !matches!(acquire.stage, AcquireStage::Confirming) {
            return;
        }
        let TimedReply { reply, origin, anchor, .. } = match answer {
            Ok(answer) => answer,
            Err(failure) => {
                let is_final = matches!(failure, CallFailure::Broken | CallFailure::Unsupported);
                match is_final || acquire.spec.wait_limit == WaitLimit::Try {
                    true => acquire.stage = AcquireStage::Over(AcquireEnd::Failed),
                    false => acquire.pause(now_us, random),
                }
                return;
            }
        };
        let offer = |grant| {
            let (is_woken, is_confirmed) = (false, !is_asking);
            AcquireStage::Granted(Offer { grant, origin, anchor, is_woken, is_confirmed })
        };
        acquire.stage = match reply {
            Reply::Renewed(grant) if !is_asking => offer(grant),
            Reply::Revoked if !is_asking => AcquireStage::Spent { give_back: true },
            // It is not held any more.
            _ if !is_asking => return acquire.pause(now_us, random),
            Reply::Granted(grant) => {
                acquire.wake_anchor.handle_answered(origin);
                offer(grant)
            }
            Reply::Queued(place) => {
                acquire.backoff.reset();
                acquire.stage = AcquireStage::Waiting;
                return self.handle_place(now_us, owner, place, origin, anchor);
            }
            Reply::Busy => {
                acquire.traffic.is_turned_away = true;
                AcquireStage::Over(AcquireEnd::Busy)
            }
            Reply::DoneBefore(done) => {
                acquire.traffic.is_turned_away = true;
                AcquireStage::Over(AcquireEnd::DoneBefore(done))
            }
            Reply::Kept if acquire.kept_until_us.is_none() => {
                acquire.handle_kept(now_us, anchor);
                AcquireStage::Ask
            }
            Reply::Refused(Refusal::Cancelled) => AcquireStage::Spent { give_back: false },
            Reply::Refused(Refusal::TooLate) => return acquire.pause(now_us, random),
            Reply::Refused(refusal) => {
                AcquireStage::Over(AcquireEnd::Refused { refusal, now_ms: anchor.engine_ms })
            }
            reply => AcquireStage::Over(AcquireEnd::Malformed(reply)),
        };
    }

    /// Nobody wants it any more.
    pub fn cancel_acquire(&mut self, now_us: u64, owner: Owner, swap: &mut WakerSwap) {
        self.end_acquire(now_us, owner, swap);
    }

    /// Takes a grant that can be relied on; of any other it has to ask how long it is good for.
    fn take(
        &mut self,
        now_us: u64,
        owner: Owner,
        offer: Offer,
        swap: &mut WakerSwap,
    ) -> Option<(Arc<Hold>, Option<LocalTurn>)> {
        let random = self.jitter.next();
        let acquire = self.acquires.get_mut(&owner)?;
        let bury_until_ms = acquire.traffic.bury_until_ms();
        let terms = HoldTerms { bury_until_ms, ..acquire.spec.terms.clone() };
        let is_wanted = offer.grant.wanted
            || acquire.wanted.is_some_and(|token| offer.grant.token == Some(token));
        let Some(hold) = Hold::new(now_us, terms, offer.grant, offer.anchor) else {
            match offer.is_confirmed {
                true => acquire.pause(now_us, random),
                false => acquire.stage = AcquireStage::Confirm,
            }
            return None;
        };
        let id = acquire.id.take();
        let acquire = self.remove_acquire(owner, swap)?;
        let is_broken = acquire.is_broken_since(&hold);
        let turn = acquire.group.map(|group| LocalTurn { token: hold.token(), group });
        let budget = turn.as_ref().map(|turn| {
            self.begin_keep(&turn.group, is_wanted);
            TurnBudget::first(now_us, turn.group.clone(), &hold)
        });
        let hold = self.keep(now_us, hold, offer.origin.source, budget, id);
        if is_broken {
            self.lose(now_us, owner, LossCause::Revoked);
        }
        Some((hold, turn))
    }

    /// Begins the turn that it was offered, unless the lock is lost by now: then it leads.
    fn take_turn(
        &mut self,
        now_us: u64,
        owner: Owner,
        swap: &mut WakerSwap,
    ) -> Option<AcquireOutcome> {
        let acquire = self.acquires.get_mut(&owner)?;
        let offered = std::mem::replace(&mut acquire.stage, AcquireStage::Ask);
        let AcquireStage::Turn { hold, turn } = offered else { return None };
        self.handle_answered_offer(&turn.group);
        if self.loss(now_us, &hold).is_some() {
            self.give_back(now_us, &hold);
            return None;
        }
        hold.begin_turn(now_us);
        self.remove_acquire(owner, swap);
        Some(AcquireOutcome::Granted { hold, turn: Some(turn), woken: None })
    }

    /// The owner is nobody any more: it goes on as another. What it was granted is given back first if
    /// it is broken, since nobody works under it yet.
    fn start_over(&mut self, now_us: u64, owner: Owner, give_back: bool, fresh: Owner) -> Owner {
        let mut swap = WakerSwap::default();
        let Some(old) = self.remove_acquire(owner, &mut swap) else { return owner };
        if give_back {
            self.give_up(now_us, &old);
        }
        let random = self.jitter.next();
        let mut spec = old.spec;
        spec.terms.owner = fresh;
        let mut acquire = AcquireState::new(spec, old.group, AcquireStage::Ask);
        acquire.backoff = old.backoff;
        acquire.waker = swap.old;
        if !give_back {
            acquire.pause(now_us, random);
        }
        self.note_owner(fresh);
        self.acquires.insert(fresh, acquire);
        fresh
    }

    /// Ends an acquire that got nothing.
    fn end_acquire(&mut self, now_us: u64, owner: Owner, swap: &mut WakerSwap) -> AcquireOutcome {
        let Some(mut acquire) = self.remove_acquire(owner, swap) else {
            return AcquireOutcome::Failed;
        };
        if acquire.traffic.leaves_something() {
            self.give_up(now_us, &acquire);
        }
        let stage = std::mem::replace(&mut acquire.stage, AcquireStage::Ask);
        if let Some(group) = &acquire.group {
            match &stage {
                AcquireStage::AwaitingTurn { number } => self.leave_turn_queue(group, *number),
                AcquireStage::Turn { hold, .. } => {
                    self.handle_answered_offer(group);
                    if !self.pass_turn(now_us, hold, group) {
                        self.give_back(now_us, hold);
                    }
                }
                _ => self.pass_lead(group),
            }
        }
        match stage {
            AcquireStage::Over(AcquireEnd::Busy) => AcquireOutcome::Busy,
            AcquireStage::Over(AcquireEnd::DoneBefore(done)) => AcquireOutcome::DoneBefore(done),
            AcquireStage::Over(AcquireEnd::Malformed(reply)) => AcquireOutcome::Malformed(reply),
            AcquireStage::Over(AcquireEnd::Refused { refusal, now_ms }) => {
                AcquireOutcome::Refused { refusal, now_ms }
            }
            _ => AcquireOutcome::Failed,
        }
    }

    fn remove_acquire(&mut self, owner: Owner, swap: &mut WakerSwap) -> Option<AcquireState> {
        let mut acquire = self.acquires.remove(&owner)?;
        self.timers.set(&mut acquire.due, || Timer::Acquire(owner), None);
        swap.old = acquire.waker.take();
        self.forget_id(acquire.id.take());
        if let Some(place) = acquire.place {
            let lock = &acquire.spec.terms.lock;
            if let Some(queue) = self.places.get_mut(lock) {
                queue.remove(owner, place);
                if queue.is_empty() {
                    self.timers.set(&mut queue.due, || Timer::Queue(lock.clone()), None);
                    self.places.remove(lock);
                }
            }
        }
        Some(acquire)
    }

    /// Whatever the engine may have of it, it is to forget. In the background: nobody waits for it.
    fn give_up(&mut self, now_us: u64, acquire: &AcquireState) {
        let HoldTerms { lock, owner, lease_ms, .. } = &acquire.spec.terms;
        let longest_us = (*lease_ms).max(self.waiter_lease_ms).saturating_mul(1_000);
        let for_us = longest_us.saturating_add(ARRIVES_WITHIN_US);
        let bury_until_ms = acquire.traffic.bury_until_ms();
        let id = self.begin_release(now_us, *owner, bury_until_ms, None, for_us);
        let (lock, owner) = (lock.clone(), *owner);
        self.transmits.push(Transmit::Release { lock, id, owner });
    }

    fn quarantine_left_us(&self, now_us: u64, owner: Owner) -> Option<u64> {
        let acquire = self.acquires.get(&owner).filter(|acquire| acquire.place.is_some())?;
        let queue = self.places.get(&acquire.spec.terms.lock)?;
        let left_us = queue.quarantined_until_us?.saturating_sub(now_us);
        (left_us > 0).then_some(left_us)
    }
}
