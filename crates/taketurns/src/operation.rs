//! The futures of operations: each asks the session what it needs next, and polls the engine for it.
//!
//! The caller polls an acquire on its own thread: a thread of ours in between would cost two thread switches
//! for each request. A release has to go on even if nobody polls it: if its future is dropped, it goes on as a
//! task of the driver.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use taketurns_core::session::{
    AcquireAction, AcquireOutcome, AcquireSpec, Anchor, CallFailure, GuardEnd, Hold, ReleaseAction,
    ReleaseId, ReleaseOutcome, Session, WaitLimit, WakerSwap,
};
use taketurns_core::{Completion, Name, Owner, Request};

use crate::client::{Call, CallAnswer, Client, failure};
use crate::driver::ClientHandle;
use crate::engine::{Answer, EngineError};
use crate::error::malformed;
use crate::meter::WaitOutcome;
use crate::runtime::NOT_WAITING;
use crate::sync::Arc;
use crate::telling::{AcquireSpan, target};
use crate::{Attempt, Begun, Error, Guard, meter, random};

/// The future of an [`Acquire`](crate::Acquire). Dropping it gives up.
#[must_use = "dropping it gives up"]
pub struct AcquireFuture<T = Guard> {
    /// An error if it can't even be tried.
    attempt: Result<AcquireAttempt, Error>,
    within: Duration,
    output: PhantomData<fn() -> T>,
}

impl<T> AcquireFuture<T> {
    pub(crate) fn new(
        shared: std::sync::Arc<ClientHandle>,
        wanted: Result<AcquireSpec, Error>,
        within: Duration,
    ) -> Self {
        let attempt = wanted.map(|wanted| AcquireAttempt {
            lock: wanted.terms.lock.clone(),
            span: AcquireSpan::new(&wanted.ask),
            owner: None,
            wanted: Some(wanted),
            began_us: 0,
            call: None,
            trouble: None,
            shared,
        });
        Self { attempt, within, output: PhantomData }
    }
}

impl Future for AcquireFuture {
    type Output = Result<Guard, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let within = self.within;
        let attempt = match &mut self.attempt {
            Ok(attempt) => attempt,
            Err(error) => return Poll::Ready(Err(error.clone())),
        };
        Poll::Ready(ready!(attempt.poll(cx)).map_err(|error| error.after(within)).and_then(
            |acquired| match acquired {
                Acquired::Guard(guard) => Ok(guard),
                Acquired::Busy => Err(Error::Timeout { lock: attempt.lock.clone(), within }),
                Acquired::DoneBefore(done) => Err(malformed("an acquire", &done)),
            },
        ))
    }
}

impl Future for AcquireFuture<Option<Guard>> {
    type Output = Result<Option<Guard>, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let acquired = match &mut self.attempt {
            Ok(attempt) => ready!(attempt.poll(cx)),
            Err(error) => Err(error.clone()),
        };
        Poll::Ready(acquired.and_then(|acquired| match acquired {
            Acquired::Guard(guard) => Ok(Some(guard)),
            Acquired::Busy => Ok(None),
            Acquired::DoneBefore(done) => Err(malformed("an acquire", &done)),
        }))
    }
}

impl Future for AcquireFuture<Begun> {
    type Output = Result<Begun, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let within = self.within;
        let attempt = match &mut self.attempt {
            Ok(attempt) => attempt,
            Err(error) => return Poll::Ready(Err(error.clone())),
        };
        let acquired = ready!(attempt.poll(cx)).map_err(|error| error.after(within));
        Poll::Ready(acquired.and_then(|acquired| {
            acquired.begun().ok_or_else(|| Error::Timeout { lock: attempt.lock.clone(), within })
        }))
    }
}

impl Future for AcquireFuture<Option<Begun>> {
    type Output = Result<Option<Begun>, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.attempt {
            Ok(attempt) => attempt.poll(cx).map_ok(Acquired::begun),
            Err(error) => Poll::Ready(Err(error.clone())),
        }
    }
}

/// How an acquire ended that did not fail.
enum Acquired {
    Guard(Guard),
    /// Others hold the lock, and it would not wait.
    Busy,
    DoneBefore(Box<Completion>),
}

impl Acquired {
    fn begun(self) -> Option<Begun> {
        match self {
            Acquired::Guard(guard) => Some(Begun::Attempt(Attempt::new(guard))),
            Acquired::Busy => None,
            Acquired::DoneBefore(done) => Some(Begun::DoneBefore(*done)),
        }
    }
}

/// An acquire under way. Dropped, it gives up the place, or the lock if it was just granted.
struct AcquireAttempt {
    lock: Name,
    /// By whom, from when it has begun until it is over.
    owner: Option<Owner>,
    /// What is wanted, until it has begun. Until then its wait limit is how long it waits.
    wanted: Option<AcquireSpec>,
    /// When it was first polled.
    began_us: u64,
    call: Option<Call>,
    /// Why the last request was not answered.
    trouble: Option<EngineError>,
    span: AcquireSpan,
    /// The client lives as long as this does, and as the guard does that comes of it.
    shared: std::sync::Arc<ClientHandle>,
}

impl AcquireAttempt {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Acquired, Error>> {
        let (now_us, acquired) =
            ready!(self.span.enter(&self.lock).in_scope(|| self.poll_session(cx)));
        self.owner = None;
        Poll::Ready(match acquired {
            AcquireOutcome::Granted { hold, turn, woken } => {
                self.note_grant(now_us, &hold, woken);
                let token = turn.as_ref().map_or(hold.token(), |turn| turn.token);
                self.span.granted(&self.lock, token, now_us.saturating_sub(self.began_us));
                Ok(Acquired::Guard(Guard::new(hold, turn, self.shared.clone())))
            }
            AcquireOutcome::Busy => {
                self.span.over(WaitOutcome::Busy, self.began_us);
                Ok(Acquired::Busy)
            }
            AcquireOutcome::DoneBefore(done) => {
                self.span.over(WaitOutcome::DoneBefore, self.began_us);
                Ok(Acquired::DoneBefore(done))
            }
            acquired => {
                let error = self.error(acquired);
                self.span.over(WaitOutcome::of_error(&error), self.began_us);
                Err(error)
            }
        })
    }

    /// Goes as far as it can: to how it ended, and when.
    fn poll_session(&mut self, cx: &mut Context<'_>) -> Poll<(u64, AcquireOutcome)> {
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
                    self.call = Some(self.shared.client.begin_call(&self.lock, request, now_us));
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
                    return Poll::Ready((now_us, acquired));
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
        let source = self.shared.client.engine.source(&self.lock);
        let sent = self.call.as_ref().filter(|_| answer.is_some()).map(Call::sent);
        let answer = sent.zip(answer).map(|(sent, answer)| {
            let answer = self.shared.client.read(sent, &self.lock, answer);
            note_trouble(&mut self.trouble, &self.lock, answer.and_then(CallAnswer::timed))
        });
        if sent.is_some() {
            self.call = None;
        }
        let is_answered = matches!(answer, Some(Ok(_)));
        let Self { shared, owner, wanted, began_us, .. } = self;
        let mut next = AcquireAction::Wait;
        let now_us = shared.client.drive(|session, now_us| {
            if let Some(mut wanted) = wanted.take() {
                wanted.terms.owner = random::owner(now_us);
                if let WaitLimit::Until(limit_us) = &mut wanted.wait_limit {
                    *limit_us = now_us.saturating_add(*limit_us);
                }
                (*owner, *began_us) = (Some(wanted.terms.owner), now_us);
                session.begin_acquire(now_us, wanted);
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

    fn note_grant(&self, now_us: u64, hold: &Hold, woken: Option<(Anchor, u64)>) {
        let client = &self.shared.client;
        if let Some((anchor, deadline_ms)) = woken
            && client.engine.guarantees().event_driven
        {
            let lease_ms = hold.terms().lease_ms.min(client.waiter_lease_ms);
            meter::granted_late(anchor, deadline_ms, lease_ms, now_us);
        }
        meter::hold_began();
    }

    fn error(&mut self, acquired: AcquireOutcome) -> Error {
        let lock = &self.lock;
        match acquired {
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
            AcquireOutcome::Granted { .. }
            | AcquireOutcome::Busy
            | AcquireOutcome::DoneBefore(_) => Error::Closed,
        }
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

/// Dropped while it waits, it was cancelled.
impl Drop for AcquireAttempt {
    fn drop(&mut self) {
        self.span.over(WaitOutcome::Cancelled, self.began_us);
        // One that was never polled has not begun.
        let Some(owner) = self.owner.take() else { return };
        // First this: what was sent is of no interest any more.
        self.call = None;
        let mut spare = WakerSwap::default();
        let cancel =
            |session: &mut Session, now_us| session.cancel_acquire(now_us, owner, &mut spare);
        self.shared.client.drive(cancel);
    }
}

/// Notes why a request was not answered, if so, for the error that may come of it.
fn note_trouble<T>(
    trouble: &mut Option<EngineError>,
    lock: &Name,
    answer: Result<T, EngineError>,
) -> Result<T, CallFailure> {
    *trouble = None;
    answer.map_err(|error| {
        tracing::debug!(target: target::CLIENT, %lock, %error, "the store did not answer");
        failure(trouble.insert(error))
    })
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
    /// No task waits for it.
    is_aside: bool,
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
            is_aside: false,
            is_over: false,
        }
    }

    /// Of what the end of a guard wants sent. `is_aside`: the guard is being dropped.
    pub(crate) fn of_guard(
        client: &Arc<Client>,
        lock: &Name,
        end: GuardEnd,
        now_us: u64,
        is_aside: bool,
    ) -> Option<Self> {
        let (id, next) = end.release?;
        let mut release = Self::new(client, lock.clone(), id);
        release.is_aside = is_aside;
        if let ReleaseAction::Send(request) = next {
            release.send(request, now_us);
        }
        Some(release)
    }

    fn send(&mut self, request: Request, now_us: u64) {
        self.call = Some(match self.is_aside {
            false => self.client.begin_call(&self.lock, request, now_us),
            true => self.client.begin_call_aside(&self.lock, request, now_us),
        });
    }

    /// Goes as far as it can right here: its request is sent when this returns. The rest goes on by itself.
    pub(crate) fn start(mut self) {
        self.is_aside = true;
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
        let answer = self.client.read(sent, &self.lock, answer);
        let answer = note_trouble(&mut self.trouble, &self.lock, answer);
        let (is_answered, mut spare) = (answer.is_ok(), WakerSwap::new(waker));
        let (now_us, released) = self.client.drive(|session, now_us| {
            let reply = answer.map(|answer| {
                if let Some((origin, anchor)) = answer.clock {
                    session.observe(now_us, origin, anchor);
                }
                answer.reply
            });
            (now_us, session.handle_release_answer(now_us, id, reply, &mut spare))
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
                // If it is not over, it pauses, or has something else to send.
                if let Some(released) = this.handle_answer(answer, cx.waker().clone()) {
                    return Poll::Ready(this.result(released));
                }
            }
            let (id, mut spare) = (this.id, WakerSwap::new(cx.waker().clone()));
            let (now_us, next) = this
                .client
                .drive(|session, now_us| (now_us, session.poll_release(now_us, id, &mut spare)));
            match next {
                ReleaseAction::Send(request) => this.send(request, now_us),
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
        rest.is_aside = true;
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
