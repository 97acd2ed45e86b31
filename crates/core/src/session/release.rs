//! Giving back what the engine may have of an owner: a lock that was held, or a place in a queue.

use std::task::Waker;

use super::timers::{DueTime, Timer};
use super::{Backoff, CallFailure, Session, WakerSwap};
use crate::{AttemptEnd, Owner, Reply, Request, Token};

/// An engine that says it is broken may mend (a disk that was full), but not for long is it worth
/// keeping anybody waiting.
const BROKEN_PATIENCE_US: u64 = 5_000_000;

/// Names one release of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReleaseId(pub(super) u64);

/// One release under way. An owner may have several: a handle can be released again and again. It is sent again until the engine answers or it can't matter any more.
#[derive(Debug)]
pub(super) struct ReleaseState {
    pub(super) owner: Owner,
    bury_until_ms: u64,
    last_used: Option<Token>,
    /// If it ends an attempt at work: its token, and how it ended.
    end: Option<(Token, AttemptEnd)>,
    /// The engine knew no such attempt. It may have a place of the owner, or another grant, after it has forgotten
    /// something: so it is told to forget the owner.
    refused: Option<ReleaseOutcome>,
    started_us: u64,
    until_us: u64,
    backoff: Backoff,
    /// A request was sent, and no answer told whether it was carried out.
    is_unknown: bool,
    stage: ReleaseStage,
    waker: Option<Waker>,
    due: DueTime,
}

#[derive(Debug)]
enum ReleaseStage {
    Ask,
    Asking,
    Pausing { until_us: u64 },
}

/// What a release needs next.
#[derive(Debug, PartialEq, Eq)]
pub enum ReleaseAction {
    /// Send this request.
    Send(Request),
    /// The answer to what was sent.
    Answer,
    /// Nothing, until its waker is called.
    Wait,
    /// It is over.
    Done(ReleaseOutcome),
}

/// How a release ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// The engine has nothing of the owner any more.
    Released,
    /// There was nothing to release.
    NotHeld,
    /// The same, after a try whose outcome is unknown: that one may have released it.
    Unknown,
    /// The last failure is final.
    Failed,
}

impl ReleaseState {
    pub(super) fn take_waker(&mut self) -> Option<Waker> {
        self.waker.take()
    }

    /// Does the engine remember that it was carried out?
    fn is_remembered(&self) -> bool {
        matches!(self.end, Some((_, AttemptEnd::Done(_))))
    }
}

impl Session {
    /// Begins to release whatever the engine has of an owner, and tries for so long. Of the tokens that
    /// were reserved with the lock, those after `last_used` go back with it.
    pub fn begin_release(
        &mut self,
        now_us: u64,
        owner: Owner,
        bury_until_ms: u64,
        last_used: Option<Token>,
        for_us: u64,
    ) -> ReleaseId {
        let release = ReleaseState {
            owner,
            bury_until_ms,
            last_used,
            end: None,
            refused: None,
            started_us: now_us,
            until_us: now_us.saturating_add(for_us),
            backoff: Backoff::default(),
            is_unknown: false,
            stage: ReleaseStage::Ask,
            waker: None,
            due: DueTime::default(),
        };
        self.releases_ever += 1;
        let id = ReleaseId(self.releases_ever);
        self.releases.insert(id, release);
        id
    }

    /// Makes a release end an attempt at work.
    pub(super) fn finish_with(&mut self, id: ReleaseId, token: Token, end: AttemptEnd) {
        if let Some(release) = self.releases.get_mut(&id) {
            release.end = Some((token, end));
        }
    }

    /// Returns what a release needs next.
    pub fn poll_release(
        &mut self,
        now_us: u64,
        id: ReleaseId,
        swap: &mut WakerSwap,
    ) -> ReleaseAction {
        let Some(release) = self.releases.get_mut(&id) else {
            return ReleaseAction::Done(ReleaseOutcome::NotHeld);
        };
        swap.store(&mut release.waker);
        match release.stage {
            ReleaseStage::Asking => return ReleaseAction::Answer,
            ReleaseStage::Pausing { .. } if self.is_unattended => {
                self.end_release(id, ReleaseOutcome::Failed, swap);
                return ReleaseAction::Done(ReleaseOutcome::Failed);
            }
            ReleaseStage::Pausing { until_us } if now_us < until_us => return ReleaseAction::Wait,
            ReleaseStage::Ask | ReleaseStage::Pausing { .. } => {}
        }
        release.stage = ReleaseStage::Asking;
        self.timers.set(&mut release.due, || Timer::Release(id), None);
        let ReleaseState { owner, bury_until_ms, last_used, .. } = *release;
        let request = match release.end.clone() {
            Some((token, end)) => Request::Finish { owner, token, end, bury_until_ms },
            None => Request::Release { owner, bury_until_ms, last_used },
        };
        ReleaseAction::Send(request)
    }

    /// A release was answered, or failed. Returns how it ended, if it has. The answer may tell no time;
    /// if it does, [`Session::observe`] is called besides.
    pub fn handle_release_answer(
        &mut self,
        now_us: u64,
        id: ReleaseId,
        answer: Result<Reply, CallFailure>,
        swap: &mut WakerSwap,
    ) -> Option<ReleaseOutcome> {
        let random = self.jitter.next();
        let release = self.releases.get_mut(&id)?;
        let failure = match answer {
            Ok(Reply::NotHeld) if release.end.is_some() => {
                let is_unknown = release.is_unknown && !release.is_remembered();
                release.refused = Some(match is_unknown {
                    true => ReleaseOutcome::Unknown,
                    false => ReleaseOutcome::NotHeld,
                });
                (release.end, release.stage) = (None, ReleaseStage::Ask);
                swap.store(&mut release.waker);
                return None;
            }
            Ok(Reply::NotHeld) if release.is_unknown => {
                return self.end_release(id, ReleaseOutcome::Unknown, swap);
            }
            Ok(Reply::NotHeld) => {
                return self.end_release(id, ReleaseOutcome::NotHeld, swap);
            }
            Ok(_) => return self.end_release(id, ReleaseOutcome::Released, swap),
            Err(failure) => failure,
        };
        let until_us = match failure {
            CallFailure::Unsupported => 0,
            CallFailure::Broken => release.until_us.min(release.started_us + BROKEN_PATIENCE_US),
            CallFailure::NotDone | CallFailure::Unknown => release.until_us,
        };
        let again_us = now_us.saturating_add(release.backoff.pause_us(random));
        if again_us >= until_us || self.is_unattended {
            return self.end_release(id, ReleaseOutcome::Failed, swap);
        }
        release.is_unknown |= failure == CallFailure::Unknown;
        release.stage = ReleaseStage::Pausing { until_us: again_us };
        swap.store(&mut release.waker);
        self.timers.set(&mut release.due, || Timer::Release(id), Some(again_us));
        None
    }

    fn end_release(
        &mut self,
        id: ReleaseId,
        mut released: ReleaseOutcome,
        swap: &mut WakerSwap,
    ) -> Option<ReleaseOutcome> {
        if let Some(mut release) = self.releases.remove(&id) {
            released = release.refused.unwrap_or(released);
            self.timers.set(&mut release.due, || Timer::Release(id), None);
            swap.old = release.waker;
        }
        self.effects.look |= self.is_closing && self.releases.is_empty();
        Some(released)
    }

    /// The client ends. True if it can: else [`super::Effects::look`] says when the last release is over.
    pub fn close(&mut self) -> bool {
        self.is_closing = true;
        self.releases.is_empty()
    }

    pub(super) fn wake_release(&mut self, id: ReleaseId) {
        if let Some(release) = self.releases.get_mut(&id) {
            self.timers.set(&mut release.due, || Timer::Release(id), None);
            self.effects.wakers.extend(release.waker.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClientId;

    #[test]
    fn each_of_two_releases_of_one_owner_has_an_end() {
        let mut session = Session::new(ClientId::from_bits(1), 0);
        let owner = Owner::from_bits(1);
        let mut begin = || session.begin_release(0, owner, 0, None, 30_000_000);
        let ids = [begin(), begin()];
        let mut swap = WakerSwap::default();
        for id in ids {
            let next = session.poll_release(0, id, &mut swap);
            assert!(matches!(next, ReleaseAction::Send(_)), "{next:?}");
        }
        assert_eq!(
            session.handle_release_answer(1, ids[0], Err(CallFailure::NotDone), &mut swap),
            None
        );
        let released = session.handle_release_answer(2, ids[1], Ok(Reply::Released), &mut swap);
        assert_eq!(released, Some(ReleaseOutcome::Released));
        let until_us = session.poll_timeout().expect("the other one pauses");
        session.handle_timeout(until_us);
        let next = session.poll_release(until_us, ids[0], &mut swap);
        assert!(matches!(next, ReleaseAction::Send(_)), "{next:?}");
        let released =
            session.handle_release_answer(until_us, ids[0], Ok(Reply::NotHeld), &mut swap);
        assert_eq!(released, Some(ReleaseOutcome::NotHeld));
        assert_eq!(session.poll_timeout(), None);
        assert!(session.close());
    }
}
