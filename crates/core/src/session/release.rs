//! Giving back what the engine may have of an owner: a lock that was held, or a place in a queue.

use std::task::Waker;

use super::timers::{Due, Timer};
use super::{Answer, Backoff, Failure, Session, Spare};
use crate::{Name, Owner, Reply, Request, Token};

/// An engine that says it is broken may mend (a disk that was full), but not for long is it worth
/// keeping anybody waiting.
const BROKEN_PATIENCE_US: u64 = 5_000_000;

/// Names one release of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReleaseId(pub(super) u64);

/// One release under way. An owner may have several: a handle can be released again and again. It is sent again until the engine answers or it can't matter any more.
#[derive(Debug)]
pub(super) struct Release {
    lock: Name,
    pub(super) owner: Owner,
    bury_until_ms: u64,
    last_used: Option<Token>,
    started_us: u64,
    until_us: u64,
    backoff: Backoff,
    /// A request was sent, and no answer told whether it was carried out.
    is_unknown: bool,
    stage: Stage,
    waker: Option<Waker>,
    due: Due,
}

#[derive(Debug)]
enum Stage {
    Ask,
    Asking,
    Pausing { until_us: u64 },
}

/// What a release needs next.
#[derive(Debug, PartialEq, Eq)]
pub enum ReleaseNext {
    /// This has to be sent.
    Send {
        /// About which lock.
        lock: Name,
        /// What.
        request: Request,
    },
    /// The answer to what was sent.
    Answer,
    /// Nothing, until its waker is called.
    Wait,
    /// It is over.
    Done(Released),
}

/// How a release ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The engine has nothing of the owner any more.
    Released,
    /// There was nothing to release.
    NotHeld,
    /// The same, after a try whose outcome is unknown: that one may have released it.
    Unknown,
    /// The last failure is final.
    Failed,
}

impl Release {
    pub(super) fn take_waker(&mut self) -> Option<Waker> {
        self.waker.take()
    }
}

impl Session {
    /// Begins to release whatever the engine has of an owner, and tries for so long. Of the tokens that
    /// were reserved with the lock, those after `last_used` go back with it.
    pub fn begin_release(
        &mut self,
        now_us: u64,
        lock: &Name,
        owner: Owner,
        bury_until_ms: u64,
        last_used: Option<Token>,
        for_us: u64,
    ) -> ReleaseId {
        let release = Release {
            lock: lock.clone(),
            owner,
            bury_until_ms,
            last_used,
            started_us: now_us,
            until_us: now_us.saturating_add(for_us),
            backoff: Backoff::default(),
            is_unknown: false,
            stage: Stage::Ask,
            waker: None,
            due: Due::default(),
        };
        self.releases_ever += 1;
        let id = ReleaseId(self.releases_ever);
        self.releases.insert(id, release);
        id
    }

    /// Returns what a release needs next.
    pub fn poll_release(&mut self, now_us: u64, id: ReleaseId, spare: &mut Spare) -> ReleaseNext {
        let Some(release) = self.releases.get_mut(&id) else {
            return ReleaseNext::Done(Released::NotHeld);
        };
        spare.store(&mut release.waker);
        match release.stage {
            Stage::Asking => return ReleaseNext::Answer,
            Stage::Pausing { .. } if self.is_unattended => {
                self.end_release(id, Released::Failed, spare);
                return ReleaseNext::Done(Released::Failed);
            }
            Stage::Pausing { until_us } if now_us < until_us => return ReleaseNext::Wait,
            Stage::Ask | Stage::Pausing { .. } => {}
        }
        release.stage = Stage::Asking;
        self.timers.set(&mut release.due, || Timer::Release(id), None);
        let Release { owner, bury_until_ms, last_used, .. } = *release;
        let request = Request::Release { owner, bury_until_ms, last_used };
        ReleaseNext::Send { lock: release.lock.clone(), request }
    }

    /// A release was answered, or failed. Returns how it ended, if it has.
    pub fn handle_release_answer(
        &mut self,
        now_us: u64,
        id: ReleaseId,
        answer: Result<Answer, Failure>,
        spare: &mut Spare,
    ) -> Option<Released> {
        if let Ok(answer) = &answer {
            self.observe(now_us, answer.origin, answer.anchor);
        }
        let random = self.jitter.next();
        let release = self.releases.get_mut(&id)?;
        let failure = match answer {
            Ok(Answer { reply: Reply::NotHeld, .. }) if release.is_unknown => {
                return self.end_release(id, Released::Unknown, spare);
            }
            Ok(Answer { reply: Reply::NotHeld, .. }) => {
                return self.end_release(id, Released::NotHeld, spare);
            }
            Ok(_) => return self.end_release(id, Released::Released, spare),
            Err(failure) => failure,
        };
        let until_us = match failure {
            Failure::Unsupported => 0,
            Failure::Broken => release.until_us.min(release.started_us + BROKEN_PATIENCE_US),
            Failure::NotDone | Failure::Unknown => release.until_us,
        };
        let again_us = now_us.saturating_add(release.backoff.pause_us(random));
        if again_us >= until_us || self.is_unattended {
            return self.end_release(id, Released::Failed, spare);
        }
        release.is_unknown |= failure == Failure::Unknown;
        release.stage = Stage::Pausing { until_us: again_us };
        spare.store(&mut release.waker);
        self.timers.set(&mut release.due, || Timer::Release(id), Some(again_us));
        self.look_sooner();
        None
    }

    fn end_release(
        &mut self,
        id: ReleaseId,
        released: Released,
        spare: &mut Spare,
    ) -> Option<Released> {
        if let Some(mut release) = self.releases.remove(&id) {
            self.timers.set(&mut release.due, || Timer::Release(id), None);
            spare.old = release.waker;
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
    use crate::session::{Anchor, Origin};

    fn answered(reply: Reply) -> Result<Answer, Failure> {
        let anchor = Anchor { sent_us: 0, engine_ms: 0 };
        Ok(Answer { reply, origin: Origin::default(), anchor })
    }

    #[test]
    fn each_of_two_releases_of_one_owner_has_an_end() {
        let mut session = Session::new(ClientId::from_bits(1), 0);
        let (lock, owner) = (Name::new("l").unwrap(), Owner::from_bits(1));
        let mut begin = || session.begin_release(0, &lock, owner, 0, None, 30_000_000);
        let ids = [begin(), begin()];
        let mut spare = Spare::default();
        for id in ids {
            let next = session.poll_release(0, id, &mut spare);
            assert!(matches!(next, ReleaseNext::Send { .. }), "{next:?}");
        }
        assert_eq!(
            session.handle_release_answer(1, ids[0], Err(Failure::NotDone), &mut spare),
            None
        );
        let released =
            session.handle_release_answer(2, ids[1], answered(Reply::Released), &mut spare);
        assert_eq!(released, Some(Released::Released));
        let until_us = session.poll_timeout().expect("the other one pauses");
        session.handle_timeout(until_us);
        let next = session.poll_release(until_us, ids[0], &mut spare);
        assert!(matches!(next, ReleaseNext::Send { .. }), "{next:?}");
        let released =
            session.handle_release_answer(until_us, ids[0], answered(Reply::NotHeld), &mut spare);
        assert_eq!(released, Some(Released::NotHeld));
        assert_eq!(session.poll_timeout(), None);
        assert!(session.close());
    }
}
