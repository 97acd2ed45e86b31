//! The state of one acquire, and what it decides when it is polled.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use super::acquire::{Patience, Wanted};
use super::sight::Sight;
use super::timers::Due;
use super::turns::{Course, Turn};
use super::{Anchor, Anchors, Backoff, Hold, Origin};
use crate::{Acquire, ClientId, Grant, Owner, Refusal, Reply, Request, Token};

/// One acquire under way.
#[derive(Debug)]
pub(super) struct Acquiring {
    pub(super) wanted: Wanted,
    pub(super) course: Option<Arc<Course>>,
    pub(super) traffic: Traffic,
    /// What a wake-up is judged by.
    pub(super) sight: Sight,
    pub(super) stage: Stage,
    /// What it was told while nobody polled it.
    pub(super) inbox: VecDeque<Signal>,
    /// The tokens of grants of this owner that were broken, by what it was told.
    pub(super) revoked: BTreeSet<Token>,
    /// The number of its place, once the engine said it.
    pub(super) place: Option<u64>,
    pub(super) backoff: Backoff,
    pub(super) waker: Option<Waker>,
    pub(super) due: Due,
    /// Its public id, once somebody asked for it.
    pub(super) id: Option<String>,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// It waits for another of this client to be done.
    InLine {
        number: u64,
    },
    /// It was offered a turn.
    Turn {
        hold: Arc<Hold>,
        turn: Turn,
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
    Over(Over),
}

/// Why it goes no further.
#[derive(Debug)]
pub(super) enum Over {
    Busy,
    Failed,
    Malformed(Reply),
    Refused { refusal: Refusal, now_ms: u64 },
}

/// What a waiting acquire is told.
#[derive(Debug)]
pub(super) enum Signal {
    /// A wake-up granted it the lock. The anchor is what the grant was judged by when the wake-up came;
    /// without one the acquire has to ask how long the grant is good for.
    Granted { grant: Grant, origin: Origin, anchor: Option<Anchor> },
    /// The answer to a refresh says that it holds the lock.
    Held(Offer),
    /// It can't have what it asks for any more.
    Refused(Refusal),
    /// Its place may have lapsed: ask again.
    Rejoin,
    /// What it was granted with this token was broken. News of another grant is old; without a token
    /// it is not known which grant it was.
    Revoked(Option<Token>),
}

/// What may still be under way to the engine, or be there.
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

/// A grant, and what it is judged by.
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

/// What to do with an acquire now.
pub(super) enum Move {
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

impl Acquiring {
    pub(super) fn new(wanted: Wanted, course: Option<Arc<Course>>, stage: Stage) -> Self {
        Self {
            wanted,
            course,
            traffic: Traffic::default(),
            sight: Sight::default(),
            stage,
            inbox: VecDeque::new(),
            revoked: BTreeSet::new(),
            place: None,
            backoff: Backoff::default(),
            waker: None,
            due: Due::default(),
            id: None,
        }
    }

    pub(super) fn owner(&self) -> Owner {
        self.wanted.terms.owner
    }

    pub(super) fn pause(&mut self, now_us: u64, random: u64) {
        let until_us = now_us.saturating_add(self.backoff.pause_us(random));
        self.stage = Stage::Pausing { until_us };
    }

    /// When it has to be woken, if nothing else does.
    pub(super) fn due_us(&self) -> Option<u64> {
        let until_us = match self.wanted.patience {
            Patience::Until(until_us) => Some(until_us),
            Patience::Try | Patience::Endless => None,
        };
        let pause_us = match self.stage {
            Stage::Pausing { until_us } => Some(until_us),
            _ => None,
        };
        [until_us, pause_us].into_iter().flatten().min()
    }

    pub(super) fn decide(&mut self, now_us: u64, random: u64, anchors: &Anchors) -> Move {
        // The end of the time given comes before a grant that arrives with it.
        if matches!(self.wanted.patience, Patience::Until(until_us) if now_us >= until_us) {
            return Move::TimeOut;
        }
        loop {
            match &self.stage {
                Stage::InLine { .. } => return Move::Wait,
                Stage::Turn { .. } => return Move::TakeTurn,
                Stage::Ask => return Move::Ask,
                Stage::Confirm => return Move::Confirm,
                Stage::Confirming => return Move::Answer,
                Stage::Over(_) => return Move::End,
                Stage::Spent { give_back } => return Move::StartOver { give_back: *give_back },
                Stage::Granted(offer)
                    if self.is_revoked(&offer.grant) || self.is_over_elsewhere(now_us, offer) =>
                {
                    return Move::StartOver { give_back: true };
                }
                Stage::Granted(_) => {
                    // If it comes too late to be taken, the acquire has to ask.
                    if let Stage::Granted(offer) =
                        std::mem::replace(&mut self.stage, Stage::Confirm)
                    {
                        return Move::Take(self.shorten(offer));
                    }
                }
                Stage::Asking | Stage::Waiting | Stage::Pausing { .. } => {}
            }
            let is_waiting = matches!(self.stage, Stage::Waiting);
            match self.inbox.pop_front() {
                // The wake-up came after the news that its grant was broken: only an answer tells whether
                // this owner has that grant still, or a place by now.
                Some(Signal::Granted { grant, .. } | Signal::Held(Offer { grant, .. }))
                    if self.is_revoked(&grant) =>
                {
                    self.stage = Stage::Ask;
                }
                Some(Signal::Granted { grant, origin, anchor }) => {
                    match self.judge(grant, origin, anchor, anchors) {
                        Some(offer) => return Move::Take(offer),
                        None => self.stage = Stage::Confirm,
                    }
                }
                Some(Signal::Held(offer)) if self.is_over_elsewhere(now_us, &offer) => {
                    return Move::StartOver { give_back: true };
                }
                Some(Signal::Held(offer)) => return Move::Take(self.shorten(offer)),
                Some(Signal::Refused(Refusal::Cancelled)) => {
                    self.stage = Stage::Spent { give_back: false };
                }
                Some(Signal::Refused(Refusal::TooLate)) => self.pause(now_us, random),
                Some(Signal::Refused(refusal)) => {
                    self.stage = Stage::Over(Over::Refused { refusal, now_ms: 0 });
                }
                // It may be old, and this owner have a place: so it asks again as the same owner.
                Some(Signal::Revoked(Some(token))) => {
                    self.revoked.insert(token);
                    self.stage = Stage::Ask;
                }
                // What was granted is broken, and nobody works under it yet: it is given back, and what
                // this owner is told of it from now on is old.
                Some(Signal::Revoked(None)) => return Move::StartOver { give_back: true },
                Some(Signal::Rejoin) if is_waiting => self.pause(now_us, random),
                // The answer will say. Were it heeded, refreshes that say so more often than the acquire is
                // sent would keep it from ever being sent.
                Some(Signal::Rejoin) => {}
                None => match self.stage {
                    Stage::Asking => return Move::Answer,
                    Stage::Pausing { until_us } if now_us >= until_us => self.stage = Stage::Ask,
                    _ => return Move::Wait,
                },
            }
        }
    }

    /// Judges a wake-up's grant once more, by what is known of the engine's clock now: an answer that was
    /// handled since may tell that the clock was set. The shorter result counts.
    fn judge(
        &self,
        grant: Grant,
        origin: Origin,
        told: Option<Anchor>,
        anchors: &Anchors,
    ) -> Option<Offer> {
        let newest = anchors.newest(origin.source);
        let both = [told?, self.sight.anchor(origin, newest, grant.deadline_ms)?];
        let anchor =
            both.into_iter().min_by_key(|anchor| anchor.valid_until_us(grant.deadline_ms))?;
        let (is_woken, is_confirmed) = (true, false);
        Some(Offer { grant, origin, anchor, is_woken, is_confirmed })
    }

    /// Was it perhaps granted by a server that has ended the grant by its own clock, and that another server has
    /// replaced since? A renewal does not tell: it may have brought back what was over.
    fn is_over_elsewhere(&self, now_us: u64, offer: &Offer) -> bool {
        let Offer { ref grant, origin, anchor, is_confirmed, .. } = *offer;
        if is_confirmed {
            return self.sight.is_from_elsewhere(origin);
        }
        let is_over = |anchor: Anchor| anchor.valid_until_us(grant.deadline_ms) <= now_us;
        !is_over(anchor) && is_over(self.sight.shortest(origin, anchor, grant.deadline_ms))
    }

    /// Judges a grant that an answer told of by the clocks of earlier servers too.
    fn shorten(&self, offer: Offer) -> Offer {
        if offer.is_confirmed {
            return offer;
        }
        let anchor = self.sight.shortest(offer.origin, offer.anchor, offer.grant.deadline_ms);
        Offer { anchor, ..offer }
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
            Signal::Granted { .. } | Signal::Held(_) | Signal::Refused(_) | Signal::Rejoin => false,
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

    pub(super) fn acquire(
        &mut self,
        client: ClientId,
        waiter_lease_ms: u64,
        not_after_ms: u64,
    ) -> Request {
        self.traffic.not_after_ms = not_after_ms;
        self.read_inbox();
        self.traffic.sent += 1;
        let waits = self.wanted.patience != Patience::Try;
        Request::Acquire(Acquire {
            owner: self.owner(),
            client,
            ask: self.wanted.ask.clone(),
            lease_ms: self.wanted.terms.lease_ms,
            waiter_lease_ms: waits.then_some(waiter_lease_ms),
            not_after_ms,
            ballot: None,
            label: self.wanted.label.clone(),
        })
    }
}
