//! The lock as a once: a mutex that remembers that the work is done.
//!
//! ```text
//!   open ── an attempt fails ──► open, one more failed ──► no attempt is left
//!     │
//!     └──── an attempt says *done* ──► done: everybody who asks or waits is told by whom and when
//! ```
//!
//! Either is remembered until a time of the wall clock, since people mean that by "once a day", and since it has to
//! outlast a reboot. The pause after a failed attempt is on the lease clock, like all that a client waits for.
//!
//! An attempt that ends without *done* has failed, however it ends: its worker says so, loses it, or dies. One that was
//! handed over and not answered does not count, since its waiter may have died before it could begin.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::holders::Holder;
use super::lazy_box::StaticDefault;
use super::{LazyBox, Lock, WorkView};
use crate::wire::StoredWork;
use crate::{Ask, AttemptEnd, Kind, Label, Note, Now, OnceTerms, Owner, Refusal, Reply, Token};

/// Work that is done: by whom, when, and with which result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Completion {
    /// Who did it, and why.
    pub by: Label,
    /// The token of the attempt that did it.
    pub token: Token,
    /// When it was done: milliseconds since 1970 on the store's wall clock.
    pub at_ms: u64,
    /// When it is forgotten, on the same clock.
    pub until_ms: u64,
    /// How many attempts failed before.
    pub failed: u32,
    /// What its worker said of it.
    pub result: Note,
}

impl Completion {
    /// Returns work that was done at this time of the wall clock, and is forgotten at the other.
    pub fn new(by: Label, token: Token, at_ms: u64, until_ms: u64) -> Self {
        Self { by, token, at_ms, until_ms, failed: 0, result: Note::default() }
    }

    /// Returns when it was done.
    pub fn at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.at_ms)
    }

    /// Returns when it is forgotten.
    pub fn until(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.until_ms)
    }
}

/// What a once remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WorkRecord {
    pub(super) state: WorkState,
    /// When it is forgotten, on the lease clock, as far as the two clocks have kept step; 0 if that is yet to be seen,
    /// after a reboot or after that clock was set back.
    pub(super) kept_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum WorkState {
    Open {
        /// How many attempts failed.
        failed: u32,
        /// When the last of them ended, on the lease clock.
        ended_ms: u64,
        /// When they are forgotten, on the wall clock.
        until_ms: u64,
    },
    Done(Box<Completion>),
}

impl Default for WorkState {
    fn default() -> Self {
        WorkState::Open { failed: 0, ended_ms: 0, until_ms: 0 }
    }
}

impl StaticDefault for WorkRecord {
    fn static_default() -> &'static Self {
        static BLANK: WorkRecord = WorkRecord {
            state: WorkState::Open { failed: 0, ended_ms: 0, until_ms: 0 },
            kept_ms: 0,
        };
        &BLANK
    }
}

impl WorkRecord {
    /// Returns whether there is nothing to remember.
    pub(super) fn is_blank(&self) -> bool {
        matches!(self.state, WorkState::Open { failed: 0, .. })
    }

    pub(super) fn failed(&self) -> u32 {
        match &self.state {
            WorkState::Open { failed, .. } => *failed,
            WorkState::Done(done) => done.failed,
        }
    }

    pub(super) fn done(&self) -> Option<&Completion> {
        match &self.state {
            WorkState::Open { .. } => None,
            WorkState::Done(done) => Some(done),
        }
    }

    /// Returns how long it is still remembered.
    fn left_ms(&self, now: Now) -> u64 {
        let until_ms = match &self.state {
            WorkState::Open { until_ms, .. } => *until_ms,
            WorkState::Done(done) => done.until_ms,
        };
        until_ms.saturating_sub(now.wall_us / 1_000)
    }
}

/// What stands between a request and the work.
pub(super) enum WorkBar {
    Done(Box<Completion>),
    /// As many attempts failed as the request allows.
    Exhausted(u32),
    /// The last attempt failed so recently that the request has to wait.
    Paused,
}

impl Lock {
    /// Returns why this request may not work, if it asks for a once. A holder is no reason.
    pub(super) fn work_bar(&self, now: Now, ask: &Ask) -> Option<WorkBar> {
        let terms = ask.once()?;
        match &self.work.state {
            WorkState::Done(done) => Some(WorkBar::Done(done.clone())),
            WorkState::Open { failed, .. } if terms.attempts > 0 && *failed >= terms.attempts => {
                Some(WorkBar::Exhausted(*failed))
            }
            WorkState::Open { .. } => {
                let until_ms = self.pause_until_ms(terms)?;
                (until_ms > now.ms).then_some(WorkBar::Paused)
            }
        }
    }

    /// Returns when the first in line may be granted, if a pause keeps it waiting.
    pub(super) fn pause_of_head_ms(&self) -> Option<u64> {
        let (_, waiter) = self.queue.head(None)?;
        self.pause_until_ms(waiter.ask.once()?).filter(|until_ms| *until_ms > self.seen_ms)
    }

    fn pause_until_ms(&self, terms: &OnceTerms) -> Option<u64> {
        match self.work.state {
            WorkState::Open { failed: 1.., ended_ms, .. } => {
                Some(ended_ms.saturating_add(terms.pause_ms))
            }
            _ => None,
        }
    }

    pub(super) fn finish(
        &mut self,
        now: Now,
        owner: Owner,
        token: Token,
        end: &AttemptEnd,
    ) -> Reply {
        let Some(holder) = self.holders.get(owner).filter(|holder| holder.token == token) else {
            // The first reply may have been lost.
            let is_repeated = matches!(end, AttemptEnd::Done(_))
                && self.work.done().is_some_and(|done| done.token == token);
            return if is_repeated { Reply::Released } else { Reply::NotHeld };
        };
        if holder.ask.once().is_none() {
            return Reply::Refused(Refusal::KindMismatch(self.kind));
        }
        let Some(holder) = self.holders.remove(owner) else { return Reply::NotHeld };
        if holder.handed {
            self.queue.answered(holder.client, owner);
        }
        match end {
            AttemptEnd::Failed => self.note_failure(now, &holder),
            AttemptEnd::Done(result) => self.note_done(now, now.wall_us / 1_000, holder, result),
        }
        Reply::Released
    }

    /// Returns the token of the attempt that is under way, if this is a once.
    pub fn attempt(&self) -> Option<Token> {
        let holder = self.holders.iter().next().filter(|_| self.kind == Kind::Once);
        holder.map(|holder| holder.token)
    }

    /// Takes over that the attempt with this token was done, which was recorded elsewhere at this time of the wall
    /// clock: the attempt was under way then, even if its lease has ended since. Returns false, and changes nothing, if
    /// it is not under way. The next step tells those who wait.
    pub fn take_over_done(&mut self, now: Now, token: Token, at_ms: u64, result: &Note) -> bool {
        let owner = self.holders.iter().next().map(|holder| holder.owner);
        if self.attempt() != Some(token) {
            return false;
        }
        let Some(holder) = owner.and_then(|owner| self.holders.remove(owner)) else { return false };
        if holder.handed {
            self.queue.answered(holder.client, holder.owner);
        }
        self.note_done(now, at_ms, holder, result);
        true
    }

    /// Returns the token of the attempt that did the work, if it is done.
    pub fn done_by(&self) -> Option<Token> {
        self.work.done().map(|done| done.token)
    }

    /// Notes that an attempt ended without *done*, if it was one. Its lease may have ended before this step.
    pub(super) fn note_failure(&mut self, now: Now, holder: &Holder) {
        let Some(terms) = holder.ask.once() else { return };
        let ended_ms = holder.deadline_ms.min(now.ms);
        let until_ms = terms.until_ms(wall_ms_at(now, holder.since_ms), wall_ms_at(now, ended_ms));
        let failed = self.work.failed().saturating_add(1);
        self.remember(now, WorkState::Open { failed, ended_ms, until_ms });
    }

    fn note_done(&mut self, now: Now, at_ms: u64, holder: Holder, result: &Note) {
        let Some(terms) = holder.ask.once() else { return };
        let until_ms = terms.until_ms(wall_ms_at(now, holder.since_ms), at_ms);
        let failed = self.work.failed();
        let done = Completion::new(holder.label, holder.token, at_ms, until_ms);
        let done = Completion { failed, result: result.clone(), ..done };
        self.remember(now, WorkState::Done(Box::new(done)));
    }

    fn remember(&mut self, now: Now, state: WorkState) {
        let record = WorkRecord { state, kept_ms: 0 };
        // The period of an attempt may have ended before the attempt did.
        self.work = match record.left_ms(now) {
            0 => LazyBox::default(),
            left_ms => WorkRecord { kept_ms: now.ms.saturating_add(left_ms), ..record }.into(),
        };
    }

    /// Forgets what is over. Returns true if anything changed.
    pub(super) fn forget_work(&mut self, now: Now, is_set_back: bool) -> bool {
        if self.work.is_blank() {
            return false;
        }
        let left_ms = self.work.left_ms(now);
        if left_ms == 0 {
            self.work = LazyBox::default();
            return true;
        }
        if is_set_back && let WorkState::Open { ended_ms, .. } = &mut self.work.state {
            *ended_ms = now.ms.min(*ended_ms);
        }
        let is_of_other_clock = is_set_back || self.work.kept_ms == 0;
        if is_of_other_clock {
            self.work.kept_ms = now.ms.saturating_add(left_ms);
        }
        is_of_other_clock
    }

    /// The lease clock restarted. What is remembered stays, and the pause is over.
    pub(super) fn reboot_work(&mut self) {
        if self.work.is_blank() {
            return;
        }
        self.work.kept_ms = 0;
        if let WorkState::Open { ended_ms, .. } = &mut self.work.state {
            *ended_ms = 0;
        }
    }

    pub(super) fn undo(&mut self, now: Now) -> Reply {
        if let Err(refusal) = self.check_kind(Kind::Once) {
            return Reply::Refused(refusal);
        }
        if self.work.is_blank() {
            return Reply::Changed(false);
        }
        self.work = LazyBox::default();
        // The one that did it may send *done* once more.
        self.mint(now, None);
        Reply::Changed(true)
    }

    /// Takes over what the scripts remember of a lock that nobody holds or waits for.
    pub fn recall(&mut self, now: Now, work: StoredWork) {
        let state = match work {
            StoredWork::Open { failed, ended_ms, until_ms } => {
                WorkState::Open { failed, ended_ms, until_ms }
            }
            StoredWork::Done(done) => WorkState::Done(Box::new(done)),
        };
        self.remember(now, state);
    }

    /// Returns a view of what is remembered.
    pub(super) fn work_view(&self, now: Now) -> Option<WorkView> {
        let left_ms = Some(self.work.left_ms(now)).filter(|ms| *ms > 0 && !self.work.is_blank())?;
        let pause_ms = self.pause_of_head_ms().map(|until_ms| until_ms.saturating_sub(now.ms));
        Some(WorkView {
            failed: self.work.failed(),
            retry_in: pause_ms.filter(|ms| *ms > 0).map(Duration::from_millis),
            forgotten_in: Duration::from_millis(left_ms),
            done: self.work.done().cloned(),
        })
    }
}

/// Returns what the wall clock showed when the lease clock showed this.
fn wall_ms_at(now: Now, ms: u64) -> u64 {
    (now.wall_us / 1_000).saturating_sub(now.ms.saturating_sub(ms))
}
