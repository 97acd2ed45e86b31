//! One held lock, as its guard and the session see it.
//!
//! Invariant: once anybody was told that the lock is lost, nobody is told that it is held, and
//! everybody is told the same cause. One atomic word upholds it: it has either the local time until
//! which the lock counts as held, or the cause of the loss, and no loss is ever overwritten. So a guard
//! needs no mutex to check, and no task has to run for the check to be right.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use super::Anchor;
use crate::{Grant, Member, Name, Owner, Token};

/// Why a lock counts as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LossCause {
    /// The lease ran out before it could be renewed.
    #[error("its lease ran out before it could be renewed")]
    Expired,
    /// The engine no longer knows of the grant.
    #[error("the store no longer knows of it")]
    Gone,
    /// Somebody broke the lock.
    #[error("somebody broke it")]
    Revoked,
    /// It was held for as long as it was allowed to.
    #[error("it was held for as long as max_hold allows")]
    MaxHold,
    /// The store's clock was set forward, so its lease may have ended early.
    #[error("the clock of the store was set forward, so its lease may be over")]
    ClockSet,
    /// The runtime that renewed it has ended.
    #[error("the runtime that renewed it has ended")]
    Unattended,
}

impl LossCause {
    /// Returns the stable name of the cause, for programs: metrics and other languages use it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Gone => "gone",
            Self::Revoked => "revoked",
            Self::MaxHold => "max_hold",
            Self::ClockSet => "clock_set",
            Self::Unattended => "unattended",
        }
    }
}

/// By their place in the word.
const CAUSES: [LossCause; 6] = [
    LossCause::Expired,
    LossCause::Gone,
    LossCause::Revoked,
    LossCause::MaxHold,
    LossCause::ClockSet,
    LossCause::Unattended,
];
/// Released or made a handle: nobody holds it any more, and nobody lost it.
const ENDED: u64 = CAUSES.len() as u64;
/// From here on the word is a time.
const TIMES: u64 = ENDED + 1;

/// The atomic word, decoded.
enum HoldState {
    Lost(LossCause),
    Ended,
    Until(u64),
}

impl HoldState {
    fn read(word: u64) -> Self {
        match CAUSES.get(word as usize) {
            Some(cause) => Self::Lost(*cause),
            None if word == ENDED => Self::Ended,
            None => Self::Until(word - TIMES),
        }
    }

    fn of_loss(cause: LossCause) -> u64 {
        CAUSES.iter().position(|known| *known == cause).unwrap_or(0) as u64
    }

    fn of_time(until_us: u64) -> u64 {
        until_us.saturating_add(TIMES)
    }
}

/// A lock that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Why.
    pub cause: LossCause,
    /// Nobody was told before: the caller has to tell those who watch ([`Hold::take_watchers`]).
    pub is_news: bool,
}

/// On what terms a lock is held.
#[derive(Clone, Debug)]
pub struct HoldTerms {
    /// Which lock.
    pub lock: Name,
    /// The secret of the grant.
    pub owner: Owner,
    /// How long a renewal is for.
    pub lease_ms: u64,
    /// It is not renewed past this time from the grant.
    pub max_hold_us: Option<u64>,
    /// Until when on the engine's clock an acquire of the same owner may still be under way; 0 if none
    /// can be.
    pub bury_until_ms: u64,
}

/// One held lock.
#[derive(Debug)]
pub struct Hold {
    terms: HoldTerms,
    token: Option<Token>,
    /// The token with which the grant was minted: by this one it is broken.
    minted: Option<Token>,
    /// How many tokens in a row are its own, for local turns.
    tokens: u32,
    member: Option<Member>,
    /// The end of `max_hold`; `u64::MAX` if there is none.
    end_us: u64,
    word: AtomicU64,
    /// How long the last grant or renewal was for.
    span_us: AtomicU64,
    /// Since when somebody has it; 0 once that is over.
    since_us: AtomicU64,
    notes: Mutex<HoldNotes>,
}

#[derive(Debug, Default)]
struct HoldNotes {
    watchers: Vec<(u64, Waker)>,
    watchers_ever: u64,
    /// Why the last renewal failed, if it did.
    trouble: Option<String>,
}

impl Hold {
    /// Takes a grant at `now_us`. `None` if it is over already by the local clock.
    pub(super) fn new(now_us: u64, terms: HoldTerms, grant: Grant, anchor: Anchor) -> Option<Self> {
        let valid_until_us = anchor.valid_until_us(grant.deadline_ms);
        if valid_until_us <= now_us {
            return None;
        }
        let end_us = now_us.saturating_add(terms.max_hold_us.unwrap_or(u64::MAX));
        let until_us = valid_until_us.min(end_us);
        Some(Self {
            terms,
            token: grant.token,
            minted: grant.token,
            tokens: grant.tokens,
            member: grant.member,
            end_us,
            word: AtomicU64::new(HoldState::of_time(until_us)),
            span_us: AtomicU64::new(valid_until_us - now_us),
            since_us: AtomicU64::new(now_us.max(1)),
            notes: Mutex::default(),
        })
    }

    /// Takes a grant over from elsewhere, where a local turn with this token was the last one.
    pub(super) fn adopted(self, token: Option<Token>) -> Self {
        Self { token: self.token.max(token), tokens: 1, ..self }
    }

    /// The terms.
    pub fn terms(&self) -> &HoldTerms {
        &self.terms
    }

    /// The lock's name.
    pub fn name(&self) -> &Name {
        &self.terms.lock
    }

    /// The secret of the grant.
    pub fn owner(&self) -> Owner {
        self.terms.owner
    }

    /// The fencing token of the grant.
    pub fn token(&self) -> Option<Token> {
        self.token
    }

    /// How many tokens in a row, beginning with its own, are for local turns.
    pub(super) fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Is it the grant with this token? Without tokens there is nothing to tell grants apart by.
    pub(super) fn is_of(&self, token: Option<Token>) -> bool {
        self.minted.is_none() || token.is_none() || self.minted == token
    }

    /// The member of the pool, if the lock is one.
    pub fn member(&self) -> Option<&Member> {
        self.member.as_ref()
    }

    /// Returns why it is lost, if it is. From its local deadline on it is, whatever else happens.
    pub fn loss(&self, now_us: u64) -> Option<Loss> {
        self.lose_if(now_us, None)
    }

    /// Loses it for this cause, unless it is lost already.
    pub(super) fn lose(&self, now_us: u64, cause: LossCause) -> Option<Loss> {
        self.lose_if(now_us, Some(cause))
    }

    fn lose_if(&self, now_us: u64, cause: Option<LossCause>) -> Option<Loss> {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let until_us = match HoldState::read(word) {
                HoldState::Lost(cause) => return Some(Loss { cause, is_news: false }),
                HoldState::Ended => return None,
                HoldState::Until(until_us) => until_us,
            };
            let cause = match cause {
                _ if now_us >= until_us && until_us >= self.end_us => LossCause::MaxHold,
                _ if now_us >= until_us => LossCause::Expired,
                Some(cause) => cause,
                None => return None,
            };
            match self.replace(word, HoldState::of_loss(cause)) {
                Ok(_) => return Some(Loss { cause, is_news: true }),
                Err(present) => word = present,
            }
        }
    }

    /// It was renewed until a local time. Returns the loss if the renewal came too late.
    pub(super) fn extend(&self, now_us: u64, valid_until_us: u64) -> Option<Loss> {
        loop {
            if let Some(loss) = self.loss(now_us) {
                return Some(loss);
            }
            let word = self.word.load(Ordering::Acquire);
            let until_us = match HoldState::read(word) {
                HoldState::Until(until_us) => until_us,
                HoldState::Lost(_) => continue,
                HoldState::Ended => return None,
            };
            // The answer to an older renewal says less than what is known.
            let until_us = valid_until_us.max(until_us).min(self.end_us);
            if self.replace(word, HoldState::of_time(until_us)).is_ok() {
                self.span_us.store(until_us.saturating_sub(now_us), Ordering::Relaxed);
                return None;
            }
        }
    }

    /// It is released, or made a handle: nobody loses it any more.
    pub(super) fn end(&self) {
        let mut word = self.word.load(Ordering::Acquire);
        while let HoldState::Until(_) = HoldState::read(word) {
            match self.replace(word, ENDED) {
                Ok(_) => return,
                Err(present) => word = present,
            }
        }
    }

    fn replace(&self, word: u64, by: u64) -> Result<u64, u64> {
        self.word.compare_exchange(word, by, Ordering::AcqRel, Ordering::Acquire)
    }

    /// The local time at which it counts as lost unless it is renewed; 0 if nobody holds it.
    pub fn valid_until_us(&self) -> u64 {
        match HoldState::read(self.word.load(Ordering::Acquire)) {
            HoldState::Until(until_us) => until_us,
            HoldState::Lost(_) | HoldState::Ended => 0,
        }
    }

    pub(super) fn end_us(&self) -> u64 {
        self.end_us
    }

    /// How long the last grant or renewal was for, in µs.
    pub fn span_us(&self) -> u64 {
        self.span_us.load(Ordering::Relaxed)
    }

    /// When it was taken, or its turn began; `None` once that is over.
    pub fn since_us(&self) -> Option<u64> {
        Some(self.since_us.load(Ordering::Acquire)).filter(|since_us| *since_us > 0)
    }

    /// The next turn in this process begins.
    pub fn begin_turn(&self, now_us: u64) {
        self.since_us.store(now_us.max(1), Ordering::Release);
    }

    /// The holder lets go of the lock, or lost it. Returns when the hold began; `None` after the first call.
    pub fn end_turn(&self) -> Option<u64> {
        Some(self.since_us.swap(0, Ordering::AcqRel)).filter(|since_us| *since_us > 0)
    }

    /// Why the last renewal failed, if it did and none has gone well since.
    pub fn trouble(&self) -> Option<String> {
        self.notes().trouble.clone()
    }

    /// Notes why a renewal failed, or with `None` that it went well.
    pub fn set_trouble(&self, trouble: Option<String>) {
        self.notes().trouble = trouble;
    }

    /// Has a waker called when the lock is lost. Returns the loss if it is lost by now. `id` is the
    /// watcher's, 0 the first time.
    pub fn watch(&self, now_us: u64, id: &mut u64, waker: Waker) -> Option<Loss> {
        let mut notes = self.notes();
        if *id == 0 {
            notes.watchers_ever += 1;
            *id = notes.watchers_ever;
        }
        let replaced = match notes.watchers.iter_mut().find(|(known, _)| known == id) {
            Some((_, known)) => Some(std::mem::replace(known, waker)),
            None => {
                notes.watchers.push((*id, waker));
                None
            }
        };
        drop(notes);
        // What a waker drops may come back here.
        drop(replaced);
        self.loss(now_us)
    }

    /// Ends what [`Self::watch`] began.
    pub fn unwatch(&self, id: u64) {
        let mut notes = self.notes();
        let at = notes.watchers.iter().position(|(known, _)| *known == id);
        let removed = at.map(|at| notes.watchers.swap_remove(at));
        drop(notes);
        drop(removed);
    }

    /// Those to be told of a loss that is news.
    pub fn take_watchers(&self) -> Vec<Waker> {
        let watchers = std::mem::take(&mut self.notes().watchers);
        watchers.into_iter().map(|(_, waker)| waker).collect()
    }

    fn notes(&self) -> MutexGuard<'_, HoldNotes> {
        // Nothing panics under it.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
