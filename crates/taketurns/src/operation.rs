//! The futures of operations: each asks the session what it needs next, and polls the engine for it.
//!
//! Whoever wants the lock polls an acquire on its own thread; a thread of ours in between would cost two
//! changes of thread for each request. What has to go on when nobody polls (a release) goes on as a task
//! of the driver if its future is dropped.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use taketurns_core::session::{
    AcquireAction, AcquireOutcome, AcquireSpec, GuardEnd, Hold, LocalTurn, ReleaseAction,
    ReleaseId, ReleaseOutcome, WakerSwap,
};
use taketurns_core::{Name, Owner, Request};

use crate::client::{Call, Client};
use crate::engine::{Answer, EngineError};
use crate::error::malformed;
use crate::runtime::NOT_WAITING;
use crate::sync::Arc;
use crate::{Error, meter, random};

/// An acquire under way. Dropped, it gives up the place, or the lock if it was just granted.
pub(crate) struct AcquireOperation {
    client: Arc<Client>,
    lock: Name,
    /// By whom, from when it has begun until it is over.
    owner: Option<Owner>,
    /// What is wanted, until it has begun.
    wanted: Option<AcquireSpec>,
    /// When it began.
    began_us: u64,
    call: Option<Call>,
    /// Why the last request was not answered.
    trouble: Option<EngineError>,
}

/// A lock that is held, whose turn it is if several of this process take turns, and since when.
pub(crate) struct GrantedLock {
    pub(crate) hold: std::sync::Arc<Hold>,
    pub(crate) turn: Option<LocalTurn>,
    pub(crate) since_us: u64,
}

impl AcquireOperation {
    pub(crate) fn new(client: Arc<Client>, wanted: AcquireSpec) -> Self {
        let (lock, wanted) = (wanted.terms.lock.clone(), Some(wanted));
        Self { client, lock, owner: None, wanted, began_us: 0, call: None, trouble: None }
    }

    pub(crate) fn lock(&self) -> &Name {
        &self.lock
    }

    /// When it was first polled.
    pub(crate) fn began_us(&self) -> u64 {
        self.began_us
    }

    /// `Ok(None)` means that others hold the lock and it would not wait.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<GrantedLock>, Error>> {
        let mut is_sent = false;
        loop {
            // An answer comes before what the engine pushed after it.
            let answer = match &mut self.call {
                Some(call) => match call.poll(cx) {
                    Poll::Ready(answer) => Some(answer),
                    Poll::Pending if is_sent => return Poll::Pending,
                    Poll::Pending => None,
                },
                None => None,
            };
            if self.owner.is_none() && self.wanted.is_none() {
                return Poll::Pending;
            }
            let (now_us, next) = self.step(answer, cx.waker().clone());
            match next {
                AcquireAction::Send(request) => {
                    self.call = Some(self.client.begin_call(&self.lock, request, now_us));
                    is_sent = true;
                }
                AcquireAction::Answer => return Poll::Pending,
                AcquireAction::Wait => {
                    self.call = None;
                    return Poll::Pending;
                }
                AcquireAction::Renamed(fresh) => {
                    self.call = None;
                    self.owner = Some(fresh);
                }
                AcquireAction::Done(acquired) => {
                    self.call = None;
                    return Poll::Ready(self.end(now_us, acquired));
                }
            }
        }
    }

    /// One step of the session: with the answer that came, to what comes next.
    fn step(
        &mut self,
        answer: Option<Result<Answer, EngineError>>,
        waker: Waker,
    ) -> (u64, AcquireAction) {
        let mut spare = WakerSwap::new(waker);
        let source = self.client.engine.source(&self.lock);
        let sent = self.call.as_ref().filter(|_| answer.is_some()).map(Call::sent);
        let answer = sent
            .zip(answer)
            .map(|(sent, answer)| self.client.read(sent, &self.lock, answer, &mut self.trouble));
        if sent.is_some() {
            self.call = None;
        }
        let is_answered = matches!(answer, Some(Ok(_)));
        let Self { client, owner, wanted, began_us, .. } = self;
        let mut next = AcquireAction::Wait;
        let now_us = client.drive(|session, now_us| {
            if let Some(mut wanted) = wanted.take() {
                wanted.terms.owner = random::owner(now_us);
                (*owner, *began_us) = (Some(wanted.terms.owner), now_us);
                session.begin_acquire(wanted);
            }
            let Some(owner) = *owner else { return now_us };
            if let Some(answer) = answer {
                session.handle_acquire_answer(now_us, owner, answer);
            }
            let mint = || random::owner(now_us);
            next = session.poll_acquire(now_us, owner, source, &mut spare, mint);
            now_us
        });
        if let Some(sent) = sent {
            sent.took(is_answered, now_us);
        }
        (now_us, next)
    }

    fn end(&mut self, now_us: u64, acquired: AcquireOutcome) -> Result<Option<GrantedLock>, Error> {
        self.owner = None;
        if let AcquireOutcome::Granted { hold, turn, woken } = acquired {
            if let Some((anchor, deadline_ms)) = woken
                && self.client.engine.guarantees().event_driven
            {
                let lease_ms = hold.terms().lease_ms.min(self.client.waiter_lease_ms);
                meter::granted_late(anchor, deadline_ms, lease_ms, now_us);
            }
            meter::hold_began();
            return Ok(Some(GrantedLock { hold, turn, since_us: now_us }));
        }
        let lock = &self.lock;
        Err(match acquired {
            AcquireOutcome::Granted { .. } | AcquireOutcome::Busy => return Ok(None),
            AcquireOutcome::TimedOut { was_answered: true, quarantine_left_us } => {
                let lock = lock.clone();
                match quarantine_left_us {
                    Some(left_us) => {
                        Error::Quarantined { lock, left: Duration::from_micros(left_us) }
                    }
                    None => Error::Timeout { lock, within: Duration::ZERO },
                }
            }
            AcquireOutcome::TimedOut { .. } => self.no_answer(),
            AcquireOutcome::Refused { refusal, now_ms } => {
                Error::from_refusal(lock, refusal, now_ms)
            }
            AcquireOutcome::Malformed(reply) => malformed("an acquire", &reply),
            AcquireOutcome::Failed => match self.trouble.take() {
                Some(error) => Error::from_engine(lock, error),
                None => Error::Closed,
            },
        })
    }

    fn no_answer(&self) -> Error {
        let why = match &self.trouble {
            Some(EngineError::NoQuorum(trouble)) => return Error::NoQuorum(trouble.clone()),
            Some(error) => format!(": {error}"),
            None => String::new(),
        };
        let lock = &self.lock;
        let why = format!("there was no answer for lock {lock} in the time given{why}");
        Error::Unreachable(EngineError::Unreachable(why))
    }
}

/// Nobody waits for it any more.
impl Drop for AcquireOperation {
    fn drop(&mut self) {
        // One that was never polled has not begun.
        let Some(owner) = self.owner.take() else { return };
        // First this: what was sent is of no interest any more.
        self.call = None;
        let mut spare = WakerSwap::default();
        self.client.drive(|session, now_us| session.cancel_acquire(now_us, owner, &mut spare));
    }
}

/// A release under way. It goes on if this is dropped.
pub(crate) struct ReleaseOperation {
    client: Arc<Client>,
    lock: Name,
    id: ReleaseId,
    call: Option<Call>,
    /// Why the last request was not answered.
    trouble: Option<EngineError>,
    /// Why it is not known what became of a request before.
    unknown: Option<EngineError>,
    output: Option<Result<(), Error>>,
    /// It is over, or nobody is left to go on with it.
    is_over: bool,
}

impl ReleaseOperation {
    /// Of one that the session has begun.
    pub(crate) fn new(client: &Arc<Client>, lock: Name, id: ReleaseId) -> Self {
        Self {
            client: client.clone(),
            lock,
            id,
            call: None,
            trouble: None,
            unknown: None,
            output: None,
            is_over: false,
        }
    }

    /// Of what the end of a guard wants sent.
    pub(crate) fn of_guard(
        client: &Arc<Client>,
        lock: &Name,
        end: GuardEnd,
        now_us: u64,
    ) -> Option<Self> {
        let (id, next) = end.release?;
        let mut release = Self::new(client, lock.clone(), id);
        if let ReleaseAction::Send { request, .. } = next {
            release.send(request, now_us);
        }
        Some(release)
    }

    fn send(&mut self, request: Request, now_us: u64) {
        self.call = Some(self.client.begin_call(&self.lock, request, now_us));
    }

    /// Goes as far as it can right here: its request is sent when this returns. The rest goes on by itself.
    pub(crate) fn start(mut self) {
        let _ = Pin::new(&mut self).poll(&mut Context::from_waker(NOT_WAITING));
    }

    /// The same, for somebody who may wait for its end.
    pub(crate) fn begin(&mut self) {
        let mut context = Context::from_waker(NOT_WAITING);
        if let Poll::Ready(output) = Pin::new(&mut *self).poll(&mut context) {
            self.output = Some(output);
        }
    }

    fn handle_answer(
        &mut self,
        answer: Result<Answer, EngineError>,
        waker: Waker,
    ) -> Option<ReleaseOutcome> {
        let (id, sent) = (self.id, self.call.take()?.sent());
        let answer = self.client.read(sent, &self.lock, answer, &mut self.trouble);
        let (is_answered, mut spare) = (answer.is_ok(), WakerSwap::new(waker));
        let (now_us, released) = self.client.drive(|session, now_us| {
            (now_us, session.handle_release_answer(now_us, id, answer, &mut spare))
        });
        sent.took(is_answered, now_us);
        if released.is_none()
            && let Some(error @ (EngineError::Unknown(_) | EngineError::NoQuorum(_))) =
                &self.trouble
        {
            self.unknown = Some(error.clone());
        }
        released
    }

    fn result(&mut self, released: ReleaseOutcome) -> Result<(), Error> {
        self.is_over = true;
        let lock = self.lock.clone();
        match (released, self.unknown.take(), self.trouble.take()) {
            (ReleaseOutcome::Released, ..) => Ok(()),
            (ReleaseOutcome::Unknown, Some(source), _) => {
                Err(Error::Indeterminate { lock, source })
            }
            (ReleaseOutcome::Failed, _, Some(error)) => Err(Error::from_engine(&lock, error)),
            (ReleaseOutcome::NotHeld | ReleaseOutcome::Unknown | ReleaseOutcome::Failed, ..) => {
                Err(Error::NotHeld { lock })
            }
        }
    }
}

impl Future for ReleaseOperation {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(output) = this.output.take() {
            return Poll::Ready(output);
        }
        if this.is_over {
            return Poll::Pending;
        }
        loop {
            if let Some(call) = &mut this.call {
                let answer = ready!(call.poll(cx));
                match this.handle_answer(answer, cx.waker().clone()) {
                    Some(released) => return Poll::Ready(this.result(released)),
                    None => return Poll::Pending,
                }
            }
            let (id, mut spare) = (this.id, WakerSwap::new(cx.waker().clone()));
            let (now_us, next) = this
                .client
                .drive(|session, now_us| (now_us, session.poll_release(now_us, id, &mut spare)));
            match next {
                ReleaseAction::Send { request, .. } => this.send(request, now_us),
                ReleaseAction::Answer | ReleaseAction::Wait => return Poll::Pending,
                ReleaseAction::Done(released) => return Poll::Ready(this.result(released)),
            }
        }
    }
}

impl Drop for ReleaseOperation {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut rest = Self::new(&self.client, self.lock.clone(), self.id);
        rest.call = self.call.take();
        rest.trouble = self.trouble.take();
        rest.unknown = self.unknown.take();
        let rest = Orphan(rest);
        self.client.spawn(async move {
            let _ = rest.await;
        });
    }
}

/// A release that nobody waits for. A runtime that has ended drops it at once, and then nobody goes on with
/// it: the lock ends with its lease.
struct Orphan(ReleaseOperation);

impl Future for Orphan {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        self.0.is_over = true;
    }
}
