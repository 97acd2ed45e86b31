//! [`Guard`]: a lock that is held, and that says so when it no longer is.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use taketurns_core::session::{Hold, LossCause, Turn};
use taketurns_core::{Member, Name, Reply, Token};

use crate::client::failure;
use crate::clock::local_us;
use crate::driver::ClientHandle;
use crate::meter::{self, HoldOutcome};
use crate::operation::ReleaseOperation;
use crate::shell::announce;
use crate::telling;
use crate::{Error, Handle};

/// A held lock. It renews itself until it is released, dropped or lost.
///
/// Dropping it releases the lock in the background, also outside a runtime. A process that ends right
/// after may be too quick for that, and the lock then stays until its lease ends: before the end use
/// [`Guard::release`], or [`Locks::close`](crate::Locks::close).
#[must_use = "dropping a guard releases the lock"]
pub struct Guard {
    hold: Arc<Hold>,
    /// If the lock is handed on inside this process.
    turn: Option<Turn>,
    /// Whoever asks to be told of a loss learns by it that the turn was over before.
    mark: Option<Arc<()>>,
    /// It was released, or handed on.
    is_over: bool,
    shared: Arc<ClientHandle>,
}

impl Guard {
    pub(crate) fn new(hold: Arc<Hold>, turn: Option<Turn>, shared: Arc<ClientHandle>) -> Self {
        let mark = turn.as_ref().map(|_| Arc::new(()));
        Self { hold, turn, mark, is_over: false, shared }
    }

    /// Is it still held? Then here is its token, for the resource to compare. To be called right
    /// before each use of what the lock guards.
    ///
    /// # Errors
    /// [`Error::Lost`] from the moment on from which somebody else may hold it, for good;
    /// [`Error::Unfenced`] if the store's wire has no room for a token.
    pub fn check(&self) -> Result<Token, Error> {
        self.still_held()?;
        self.token().ok_or_else(|| Error::Unfenced { lock: self.name().clone() })
    }

    /// Is it still held? Once it is not, it never is again.
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

    /// The fencing token. `None` only from a store whose wire has no room for one.
    pub fn token(&self) -> Option<Token> {
        self.turn.as_ref().map_or(self.hold.token(), |turn| turn.token)
    }

    /// Which member of the pool it is, if the lock is a pool.
    pub fn member(&self) -> Option<&Member> {
        self.hold.member()
    }

    /// The lock's name.
    pub fn name(&self) -> &Name {
        self.hold.name()
    }

    /// For how long it can still be relied on if it is never renewed again; zero once it is lost.
    pub fn left(&self) -> Duration {
        if self.loss().is_some() {
            return Duration::ZERO;
        }
        Duration::from_micros(self.hold.valid_until_us().saturating_sub(local_us()))
    }

    /// For how long the last grant or renewal was. A lock handed over while its client waited starts
    /// with no more than the waiter lease, until the first renewal.
    pub fn span(&self) -> Duration {
        Duration::from_micros(self.hold.span_us())
    }

    /// Why the last renewal failed, if it did and none has gone well since.
    pub fn trouble(&self) -> Option<String> {
        self.hold.trouble()
    }

    /// Gives the lock back. It is given back even if the future is dropped.
    ///
    /// # Errors
    /// [`Error::Lost`] if it was lost before; [`Error::Indeterminate`], [`Error::Unreachable`] or
    /// [`Error::NoQuorum`] if the store did not say: then it ends with its lease at the latest.
    pub fn release(mut self) -> Releasing {
        let (lost, release) = self.end(HoldOutcome::Released);
        let lost = self.held_unless(lost).err();
        let mut releasing = Releasing { release, lost, _shared: self.shared.clone() };
        if let Some(release) = &mut releasing.release {
            release.begin();
        }
        releasing
    }

    /// Ends its turn: the lock is given back, unless another of this client has it now.
    fn end(&mut self, how: HoldOutcome) -> (Option<LossCause>, Option<ReleaseOperation>) {
        self.is_over = true;
        let (token, turn, client) = (self.token(), self.turn.take(), &self.shared.client);
        let (now_us, end) = client
            .drive(|session, now_us| (now_us, session.release(now_us, &self.hold, turn.as_ref())));
        if let Some(held_us) = end.held_us {
            meter::hold_ended(held_us, how);
            telling::released(self.name(), token, held_us, how);
        }
        (end.loss, ReleaseOperation::of_guard(client, self.hold.name(), end, now_us))
    }

    /// Makes it a handle that another process can adopt. Renews first, so that there is a full lease
    /// to do that in; from then on nobody renews it. A `max_hold` does not travel with it.
    ///
    /// # Errors
    /// [`Error::Lost`]; [`Error::Unreachable`], [`Error::NoQuorum`] or [`Error::Indeterminate`], and then
    /// it is released.
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
            telling::released(self.name(), token, held_us, HoldOutcome::Carried);
        }
        let client = &self.shared.client;
        let turn = self.turn.take();
        client.drive(|session, _| session.carry(&self.hold, turn.as_ref()));
        Ok(Handle::new(self.hold.terms().clone(), token))
    }

    /// Renews now, whatever the schedule says.
    async fn renew(&self) -> Result<(), Error> {
        let (client, lock, owner) = (&self.shared.client, self.name(), self.hold.owner());
        let request = client.renewal(owner, self.hold.terms().lease_ms);
        let answer = client.call(lock, request).await;
        meter::renewal(meter::RenewalOutcome::of(&answer));
        let wrong = match &answer {
            Ok(answer) => not_renewed(&answer.reply).map(Error::Store),
            Err(error) => Some(Error::from_engine(lock, error.clone())),
        };
        let answer = answer.map_err(|error| failure(&error));
        client.drive(|session, now_us| session.handle_renewal(now_us, owner, answer));
        self.still_held()?;
        wrong.map_or(Ok(()), Err)
    }
}

/// What is wrong with the answer to a renewal, if it is no answer to one.
pub(crate) fn not_renewed(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Renewed(_) | Reply::Revoked | Reply::NotHeld => None,
        reply => Some(format!("a renewal was answered with {reply:?}")),
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
        if let (_, Some(release)) = self.end(HoldOutcome::Dropped) {
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

/// A release under way. It goes on if this is dropped.
pub struct Releasing {
    /// `None` if the lock was handed on inside this process.
    release: Option<ReleaseOperation>,
    /// It was lost before.
    lost: Option<Error>,
    _shared: Arc<ClientHandle>,
}

impl Future for Releasing {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let released = match &mut self.release {
            Some(release) => std::task::ready!(Pin::new(release).poll(cx)),
            None => Ok(()),
        };
        Poll::Ready(self.lost.take().map_or(released, Err))
    }
}
