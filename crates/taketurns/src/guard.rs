//! [`Guard`]: a lock that is held, and that says so when it no longer is.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use taketurns_core::session::{Hold, HoldRenewal, LocalTurn, LossCause};
use taketurns_core::{AttemptEnd, Member, Name, Token};

use crate::clock::local_us;
use crate::driver::ClientHandle;
use crate::meter::{self, HoldOutcome};
use crate::operation::ReleaseOperation;
use crate::telling::{self, announce};
use crate::{Error, Handle};

/// A held lock. It is renewed until it is released, dropped or lost.
///
/// Dropping it releases the lock in the background, also outside a runtime. A process that ends right after the drop
/// may be quicker, and the lock then stays until its lease ends: so await [`Guard::release`], or
/// [`Locks::close`](crate::Locks::close), before a process ends.
///
/// ```
/// # use taketurns::blocking::Wait;
/// # async {
/// # let locks = taketurns::connect("memory:").await?;
/// let guard = locks.mutex("orders/42").acquire().await?;
/// let token = guard.check()?; // still held? the resource compares this, and refuses older ones
/// assert!(token == guard.token() && guard.is_held() && !guard.left().is_zero());
/// guard.release().await?;
/// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
/// ```
#[must_use = "dropping a guard releases the lock"]
pub struct Guard {
    hold: Arc<Hold>,
    /// If the lock is handed on inside this process.
    turn: Option<LocalTurn>,
    /// Tells a future of `lost()` that the turn ended before the loss.
    mark: Option<Arc<()>>,
    /// It was released, or handed on.
    is_over: bool,
    /// It is an attempt at work, which fails if this is dropped.
    is_attempt: bool,
    shared: Arc<ClientHandle>,
}

impl Guard {
    pub(crate) fn new(hold: Arc<Hold>, turn: Option<LocalTurn>, shared: Arc<ClientHandle>) -> Self {
        let mark = turn.as_ref().map(|_| Arc::new(()));
        Self { hold, turn, mark, is_over: false, is_attempt: false, shared }
    }

    pub(crate) fn of_attempt(self) -> Self {
        // It can't be taken apart, since it has a destructor.
        let mut guard = self;
        guard.is_attempt = true;
        guard
    }

    /// Returns the token, for the resource to compare, if the lock is still held. Call it right before each use of what
    /// the lock guards.
    ///
    /// # Errors
    /// [`Error::Lost`], for good, from the moment on from which somebody else may hold the lock;
    /// [`Error::Unfenced`] if the store has no tokens.
    pub fn check(&self) -> Result<Token, Error> {
        self.still_held()?;
        self.token().fenced().ok_or_else(|| Error::Unfenced { lock: self.name().clone() })
    }

    /// Returns whether it is still held. Once it is not, it never is again.
    pub fn is_held(&self) -> bool {
        self.loss().is_none()
    }

    pub(crate) fn still_held(&self) -> Result<(), Error> {
        self.held_unless(self.loss())
    }

    /// Why it is lost, if it is. Looks at the clock, so it needs no task to have run.
    fn loss(&self) -> Option<LossCause> {
        loss(&self.hold)
    }

    fn held_unless(&self, lost: Option<LossCause>) -> Result<(), Error> {
        match lost {
            Some(cause) => Err(Error::Lost { lock: self.name().clone(), cause }),
            None => Ok(()),
        }
    }

    /// Resolves when the lock is lost, with the cause. Never resolves if it is released before.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the next one resolves too.
    pub fn lost(&self) -> impl Future<Output = LossCause> + Send + 'static + use<> {
        let turn = self.mark.as_ref().map(Arc::downgrade);
        let lost = LossFuture { hold: self.hold.clone(), watcher: 0 };
        // It may have been lost before anybody could be told.
        let by_now = self.loss();
        async move {
            if let Some(cause) = by_now {
                return cause;
            }
            let cause = lost.await;
            // Whose turn was over before did not lose it.
            if turn.is_some_and(|turn| turn.strong_count() == 0) {
                return std::future::pending().await;
            }
            cause
        }
    }

    /// Returns the fencing token, whether the lock is still held or not. [`Token::UNFENCED`] only if the store speaks a
    /// foreign protocol that has no tokens (`unfenced=ok` in its URL).
    pub fn token(&self) -> Token {
        let token = self.turn.as_ref().map_or(self.hold.token(), |turn| turn.token);
        token.unwrap_or(Token::UNFENCED)
    }

    /// Returns which member of the pool it is, if the lock is a pool.
    pub fn member(&self) -> Option<&Member> {
        self.hold.member()
    }

    /// Returns the lock's name.
    pub fn name(&self) -> &Name {
        self.hold.name()
    }

    /// Returns how long it stays held if it is never renewed again; zero once it is lost.
    pub fn left(&self) -> Duration {
        if self.loss().is_some() {
            return Duration::ZERO;
        }
        Duration::from_micros(self.hold.valid_until_us().saturating_sub(local_us()))
    }

    /// Returns how long the last grant or renewal was for. A lock that was handed over to a waiting client starts with
    /// no more than the waiter lease, until the first renewal.
    pub fn span(&self) -> Duration {
        Duration::from_micros(self.hold.span_us())
    }

    /// Returns why the last renewal failed, unless a later one succeeded.
    pub fn trouble(&self) -> Option<String> {
        self.hold.trouble()
    }

    /// Releases the lock. The request is sent at once, not when the future is first polled.
    ///
    /// # Errors
    /// [`Error::Lost`] if it was lost before; [`Error::Indeterminate`], [`Error::Unreachable`] or
    /// [`Error::NoQuorum`] if the store did not answer: then the lock ends with its lease at the latest.
    ///
    /// # Cancel safety
    /// The lock is released even if the future is dropped.
    pub fn release(self) -> ReleaseFuture {
        self.give_back(None)
    }

    /// Ends an attempt at work.
    pub(crate) fn finish(self, end: AttemptEnd) -> ReleaseFuture {
        self.give_back(Some(end))
    }

    fn give_back(mut self, end: Option<AttemptEnd>) -> ReleaseFuture {
        let (lost, release) = self.end(HoldOutcome::Released, end);
        let lost = self.held_unless(lost).err();
        let mut future = ReleaseFuture { release, lost, _shared: self.shared.clone() };
        if let Some(release) = &mut future.release {
            release.begin();
        }
        future
    }

    /// Ends its turn: the lock is given back, unless another of this client has it now.
    fn end(
        &mut self,
        how: HoldOutcome,
        end: Option<AttemptEnd>,
    ) -> (Option<LossCause>, Option<ReleaseOperation>) {
        self.is_over = true;
        let (token, turn, client) = (self.token(), self.turn.take(), &self.shared.client);
        let (now_us, end) = client.drive(|session, now_us| {
            let ended = match end {
                None => session.release(now_us, &self.hold, turn.as_ref()),
                Some(end) => session.finish(now_us, &self.hold, end),
            };
            (now_us, ended)
        });
        if let Some(held_us) = end.held_us {
            meter::hold_ended(held_us, how);
            telling::released(self.name(), token.fenced(), held_us, how);
        }
        let is_aside = matches!(how, HoldOutcome::Dropped);
        (end.loss, ReleaseOperation::of_guard(client, self.hold.name(), end, now_us, is_aside))
    }

    /// Makes it a handle that another process can adopt. Renews it once more, so that the other process has a full lease
    /// to do that in; from then on nobody renews it. A `max_hold` does not travel with it.
    ///
    /// # Errors
    /// [`Error::Lost`]; [`Error::Unreachable`], [`Error::NoQuorum`] or [`Error::Indeterminate`], and then
    /// the lock is released.
    ///
    /// # Cancel safety
    /// Dropping the future releases the lock.
    pub async fn into_handle(mut self) -> Result<Handle, Error> {
        self.still_held()?;
        self.renew().await?;
        let token = self.token();
        self.is_over = true;
        if self.is_held()
            && let Some(since_us) = self.hold.end_turn()
        {
            let held_us = local_us().saturating_sub(since_us);
            meter::hold_ended(held_us, HoldOutcome::Carried);
            telling::released(self.name(), token.fenced(), held_us, HoldOutcome::Carried);
        }
        let client = &self.shared.client;
        let turn = self.turn.take();
        client.drive(|session, _| session.carry(&self.hold, turn.as_ref()));
        Ok(Handle::new(self.hold.terms().clone(), token))
    }

    /// Renews now, whatever the schedule says.
    async fn renew(&self) -> Result<(), Error> {
        let lease_ms = self.hold.terms().lease_ms;
        let renewal = HoldRenewal { hold: self.hold.clone(), lease_ms };
        let trouble = self.shared.client.renew(vec![renewal]).await.pop().flatten();
        self.still_held()?;
        trouble.map_or(Ok(()), Err)
    }
}

fn loss(hold: &Hold) -> Option<LossCause> {
    let loss = hold.loss(local_us())?;
    if loss.is_news {
        announce(hold, loss.cause);
    }
    Some(loss.cause)
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // It ends with its lease at the latest, and nobody waits for the answer.
        let end = self.is_attempt.then_some(AttemptEnd::Failed);
        if let (_, Some(release)) = self.end(HoldOutcome::Dropped, end) {
            release.start();
        }
    }
}

/// Resolves when a lock is lost.
struct LossFuture {
    hold: Arc<Hold>,
    /// The number under which it is told, once it has one.
    watcher: u64,
}

impl Future for LossFuture {
    type Output = LossCause;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LossCause> {
        let Self { hold, watcher } = &mut *self;
        let Some(loss) = hold.watch(local_us(), watcher, cx.waker().clone()) else {
            return Poll::Pending;
        };
        if loss.is_news {
            announce(hold, loss.cause);
        }
        Poll::Ready(loss.cause)
    }
}

impl Drop for LossFuture {
    fn drop(&mut self) {
        if self.watcher > 0 {
            self.hold.unwatch(self.watcher);
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("lock", self.name())
            .field("token", &self.token())
            .field("member", &self.member())
            .finish_non_exhaustive()
    }
}

/// The future of [`Guard::release`]. The release goes on if this is dropped.
pub struct ReleaseFuture {
    /// `None` if the lock was handed on inside this process.
    release: Option<ReleaseOperation>,
    /// It was lost before.
    lost: Option<Error>,
    _shared: Arc<ClientHandle>,
}

impl Future for ReleaseFuture {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let released = match &mut self.release {
            Some(release) => std::task::ready!(Pin::new(release).poll(cx)),
            None => Ok(()),
        };
        Poll::Ready(self.lost.take().map_or(released, Err))
    }
}
