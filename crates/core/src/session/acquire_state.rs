//! The state of one acquire, and what it decides when it is polled.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use super::acquire::{AcquireSpec, WaitLimit};
use super::anchor::WakeAnchor;
use super::timers::DueTime;
use super::turns::{LocalTurn, TurnGroup};
use super::{Anchor, Anchors, Backoff, Hold, Origin};
use crate::{AcquireRequest, ClientId, Completion, Grant, Owner, Refusal, Reply, Request, Token};

/// How much longer than two round trips an acquire that would not wait waits for a lock that is kept.
const KEPT_EXTRA_US: u64 = 20_000;

/// One acquire under way.
#[derive(Debug)]
pub(super) struct AcquireState {
    pub(super) spec: AcquireSpec,
    pub(super) group: Option<Arc<TurnGroup>>,
    pub(super) traffic: Traffic,
    /// The anchor for wake-ups.
    pub(super) wake_anchor: WakeAnchor,
    pub(super) stage: AcquireStage,
    /// Signals that came while nobody polled it.
    pub(super) inbox: VecDeque<Signal>,
    /// The tokens of grants of this owner that were broken, by what it was told.
    pub(super) revoked: BTreeSet<Token>,
    /// The grant with this token, which it has not taken yet, is wanted by others.
    pub(super) wanted: Option<Token>,
    /// It would not wait, and was told that the lock is kept: it waits until then, in case nobody uses the lock.
    pub(super) kept_until_us: Option<u64>,
    /// The number of its place, once the engine said it.
    pub(super) place: Option<u64>,
    pub(super) backoff: Backoff,
    pub(super) waker: Option<Waker>,
    pub(super) due: DueTime,
    /// Its public id, once somebody asked for it.
    pub(super) id: Option<u64>,
}

#[derive(Debug)]
pub(super) enum AcquireStage {
    /// It waits for a local turn of this client.
    AwaitingTurn {
        number: u64,
    },
    /// It was offered a turn.
    Turn {
        hold: Arc<Hold>,
        turn: LocalTurn,
    },
    Ask,
    Asking,
    Waiting,
    /// It was granted the lock, and has to ask for how long.
    Confirm,
    Confirming,
    Pausing {
        until_us: u64,
    },
    /// The engine's answer was a grant.
    Granted(Offer),
    /// The owner is nobody any more: the engine has buried it, or what it was granted is broken.
    Spent {
        give_back: bool,
    },
    Over(AcquireEnd),
}

/// Why an acquire ended without the lock.
#[derive(Debug)]
pub(super) enum AcquireEnd {
    Busy,
    DoneBefore(Box<Completion>),
    Failed,
    Malformed(Reply),
    Refused { refusal: Refusal, now_ms: u64 },
}

/// A message to a waiting acquire, kept until it is polled.
#[derive(Debug)]
pub(super) enum Signal {
    /// A wake-up granted it the lock. The anchor is what the grant was judged by when the wake-up came;
    /// without one the acquire has to ask how long the grant is good for.
    Granted { grant: Grant, origin: Origin, anchor: Option<Anchor> },
    /// The answer to a refresh says that it holds the lock.
    Held(Offer),
    /// It can't have what it asks for any more.
    Refused(Refusal),
    /// The work that it waited for is done.
    DoneBefore(Box<Completion>),
    /// Its place may have lapsed: ask again.
    Rejoin,
    /// What it was granted with this token was broken. News of another grant is old; without a token
    /// it is not known which grant it was.
    Revoked(Option<Token>),
}

/// Counts the requests of one acquire, so that it is known what the engine may still have of it.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// The `not_after` of the last acquire sent.
    not_after_ms: u64,
    pub(super) sent: u32,
    pub(super) answered: u32,
    /// Any answer at all: the engine knew of the owner.
    pub(super) was_answered: bool,
    /// The engine said that it has nothing of the owner.
    pub(super) is_turned_away: bool,
}

impl Traffic {
    /// How long an acquire may still arrive: not at all if each was answered.
    pub(super) fn bury_until_ms(&self) -> u64 {
        if self.sent > self.answered { self.not_after_ms } else { 0 }
    }

    /// May the engine have something of the owner, now or later?
    pub(super) fn leaves_something(&self) -> bool {
        self.bury_until_ms() > 0 || self.was_answered && !self.is_turned_away
    }
}

/// A grant that the engine has offered, and the anchor for its deadline.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) grant: Grant,
    pub(super) origin: Origin,
    pub(super) anchor: Anchor,
    /// It waited, and a wake-up or a refresh told it.
    pub(super) is_woken: bool,
    /// A renewal was asked how long the grant is good for: asking again gains nothing.
    pub(super) is_confirmed: bool,
}

/// What an acquire does next.
pub(super) enum AcquireDecision {
    Ask,
    Confirm,
    Answer,
    Wait,
    TakeTurn,
    Take(Offer),
    StartOver { give_back: bool },
    TimeOut,
    End,
}

impl AcquireState {
    pub(super) fn new(
        spec: AcquireSpec,
        group: Option<Arc<TurnGroup>>,
        stage: AcquireStage,
    ) -> Self {
        Self {
            spec,
            group,
            traffic: Traffic::default(),
            wake_anchor: WakeAnchor::default(),
            stage,
            inbox: VecDeque::new(),
            revoked: BTreeSet::new(),
            wanted: None,
            kept_until_us: None,
            place: None,
            backoff: Backoff::default(),
            waker: None,
            due: DueTime::default(),
            id: None,
        }
    }

    pub(super) fn owner(&self) -> Owner {
        self.spec.terms.owner
    }

    pub(super) fn pause(&mut self, now_us: u64, random: u64) {
        let until_us = now_us.saturating_add(self.backoff.pause_us(random));
        self.stage = AcquireStage::Pausing { until_us };
    }

    /// It would not wait, and another client keeps the lock, perhaps without using it. That client was told that
    /// the lock is wanted, so it is worth waiting until an unused lock would be here.
    pub(super) fn handle_kept(&mut self, now_us: u64, answered: Anchor) {
        let round_trip_us = now_us.saturating_sub(answered.sent_us);
        self.kept_until_us = Some(now_us.saturating_add(2 * round_trip_us + KEPT_EXTRA_US));
        self.wake_anchor.handle_turned_away();
    }

    /// Returns when the acquire must be woken, if nothing else wakes it.
    pub(super) fn due_us(&self) -> Option<u64> {
        let until_us = match self.spec.wait_limit {
            WaitLimit::Until(until_us) => Some(until_us),
            WaitLimit::Try | WaitLimit::Endless => None,
        };
        let pause_us = match self.stage {
            AcquireStage::Pausing { until_us } => Some(until_us),
            _ => None,
        };
        [until_us, pause_us, self.kept_until_us].into_iter().flatten().min()
    }

    pub(super) fn decide(
        &mut self,
        now_us: u64,
        random: u64,
        anchors: &Anchors,
    ) -> AcquireDecision {
        // The end of the time given comes before a grant that arrives with it.
        if matches!(self.spec.wait_limit, WaitLimit::Until(until_us) if now_us >= until_us) {
            return AcquireDecision::TimeOut;
        }
        let has_news = matches!(self.stage, AcquireStage::Granted(_)) || !self.inbox.is_empty();
        if self.kept_until_us.is_some_and(|until_us| now_us >= until_us) && !has_news {
            self.stage = AcquireStage::Over(AcquireEnd::Busy);
        }
        loop {
            match &self.stage {
                AcquireStage::AwaitingTurn { .. } => return AcquireDecision::Wait,
                AcquireStage::Turn { .. } => return AcquireDecision::TakeTurn,
                AcquireStage::Ask => return AcquireDecision::Ask,
                AcquireStage::Confirm => return AcquireDecision::Confirm,
                AcquireStage::Confirming => return AcquireDecision::Answer,
                AcquireStage::Over(_) => return AcquireDecision::End,
                AcquireStage::Spent { give_back } => {
                    return AcquireDecision::StartOver { give_back: *give_back };
                }
                AcquireStage::Granted(offer) if self.is_revoked(&offer.grant) => {
                    return AcquireDecision::StartOver { give_back: true };
                }
                AcquireStage::Granted(_) => {
                    // If it comes too late to be taken, the acquire has to ask.
                    if let AcquireStage::Granted(offer) =
                        std::mem::replace(&mut self.stage, AcquireStage::Confirm)
                    {
                        return self.judge_answer(now_us, offer);
                    }
                }
                AcquireStage::Asking | AcquireStage::Waiting | AcquireStage::Pausing { .. } => {}
            }
            let is_waiting = matches!(self.stage, AcquireStage::Waiting);
            match self.inbox.pop_front() {
                // The wake-up came after the news that its grant was broken: only an answer tells whether
                // this owner has that grant still, or a place by now.
                Some(Signal::Granted { grant, .. } | Signal::Held(Offer { grant, .. }))
                    if self.is_revoked(&grant) =>
                {
                    self.stage = AcquireStage::Ask;
                }
                Some(Signal::Granted { grant, origin, anchor }) => {
                    match self.judge_wake(grant, origin, anchor, anchors) {
                        Some(offer) => return AcquireDecision::Take(offer),
                        None => self.stage = AcquireStage::Confirm,
                    }
                }
                Some(Signal::Held(offer)) => return self.judge_answer(now_us, offer),
                Some(Signal::Refused(Refusal::Cancelled)) => {
                    self.stage = AcquireStage::Spent { give_back: false };
                }
                Some(Signal::Refused(Refusal::TooLate)) => self.pause(now_us, random),
                Some(Signal::DoneBefore(done)) => {
                    self.stage = AcquireStage::Over(AcquireEnd::DoneBefore(done));
                }
                Some(Signal::Refused(refusal)) => {
                    self.stage = AcquireStage::Over(AcquireEnd::Refused { refusal, now_ms: 0 });
                }
                // It may be old, and this owner have a place: so it asks again as the same owner.
                Some(Signal::Revoked(Some(token))) => {
                    self.revoked.insert(token);
                    self.stage = AcquireStage::Ask;
                }
                // What was granted is broken, and nobody works under it yet: it is given back, and what
                // this owner is told of it from now on is old.
                Some(Signal::Revoked(None)) => {
                    return AcquireDecision::StartOver { give_back: true };
                }
                Some(Signal::Rejoin) if is_waiting => self.pause(now_us, random),
                // The answer will say. Were it heeded, refreshes that say so more often than the acquire is
                // sent would keep it from ever being sent.
                Some(Signal::Rejoin) => {}
                None => match self.stage {
                    AcquireStage::Asking => return AcquireDecision::Answer,
                    AcquireStage::Pausing { until_us } if now_us >= until_us => {
                        self.stage = AcquireStage::Ask
                    }
                    _ => return AcquireDecision::Wait,
                },
            }
        }
    }

    /// Judges a wake-up's grant once more, by what is known of the engine's clock now: an answer that was
    /// handled since may tell that the clock was set. The shorter result counts.
    fn judge_wake(
        &self,
        grant: Grant,
        origin: Origin,
        told: Option<Anchor>,
        anchors: &Anchors,
    ) -> Option<Offer> {
        let newest = anchors.newest(origin.source);
        let both = [told?, self.wake_anchor.anchor(origin, newest, grant.deadline_ms)?];
        let anchor =
            both.into_iter().min_by_key(|anchor| anchor.valid_until_us(grant.deadline_ms))?;
        let (is_woken, is_confirmed) = (true, false);
        Some(Offer { grant, origin, anchor, is_woken, is_confirmed })
    }

    /// Judges a grant that an answer told of, by the clocks of earlier servers too: one of them may have made the
    /// grant, and ended it by its own clock before another server replaced it. The answer to a renewal does not tell:
    /// the renewal may have brought back what was over.
    fn judge_answer(&self, now_us: u64, offer: Offer) -> AcquireDecision {
        let Offer { ref grant, origin, anchor: told, is_confirmed, .. } = offer;
        let (is_over_elsewhere, anchor) = if is_confirmed {
            (self.wake_anchor.is_from_elsewhere(origin), told)
        } else {
            let shortest = self.wake_anchor.shortest(origin, told, grant.deadline_ms);
            let is_over = |anchor: Anchor| anchor.valid_until_us(grant.deadline_ms) <= now_us;
            (!is_over(told) && is_over(shortest), shortest)
        };
        match is_over_elsewhere {
            true => AcquireDecision::StartOver { give_back: true },
            false => AcquireDecision::Take(Offer { anchor, ..offer }),
        }
    }

    /// It asks: the answer is newer than what it was told before, but for which grants are broken.
    fn read_inbox(&mut self) {
        let revoked = &mut self.revoked;
        self.inbox.retain(|signal| match signal {
            Signal::Revoked(Some(token)) => {
                revoked.insert(*token);
                false
            }
            Signal::Revoked(None) => true,
            Signal::Granted { .. } | Signal::Held(_) | Signal::Rejoin => false,
            Signal::Refused(_) | Signal::DoneBefore(_) => false,
        });
    }

    /// Was it told that this grant is broken?
    pub(super) fn is_revoked(&self, grant: &Grant) -> bool {
        grant.token.is_some_and(|token| self.revoked.contains(&token))
    }

    /// Was this grant broken after it was heard of?
    pub(super) fn is_broken_since(&self, hold: &Hold) -> bool {
        let breaks =
            |signal: &Signal| matches!(signal, Signal::Revoked(token) if hold.is_of(*token));
        self.inbox.iter().any(breaks)
    }

    /// Returns the request to send, and counts it.
    pub(super) fn request(
        &mut self,
        client: ClientId,
        waiter_lease_ms: u64,
        not_after_ms: u64,
    ) -> Request {
        self.traffic.not_after_ms = not_after_ms;
        self.read_inbox();
        self.traffic.sent += 1;
        let waits = self.spec.wait_limit != WaitLimit::Try || self.kept_until_us.is_some();
        Request::Acquire(AcquireRequest {
            owner: self.owner(),
            client,
            ask: self.spec.ask.clone(),
            at_least_ms: self.spec.at_least_ms,
            lease_ms: self.spec.terms.lease_ms,
            waiter_lease_ms: waits.then_some(waiter_lease_ms),
            not_after_ms,
            ballot: None,
            label: self.spec.label.clone(),
        })
    }
}
