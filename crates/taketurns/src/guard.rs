//! [`Guard`]: a lock that is held, and that says so when it no longer is.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use taketurns_core::client::LossCause;
use taketurns_core::{Member, Name, Token};

use crate::client::Started;
use crate::driver::Shared;
use crate::held::Held;
use crate::meter::Ended;
use crate::telling;
use crate::turns::Turn;
use crate::{Error, Handle};

/// A held lock. It renews itself until it is released, dropped or lost.
///
/// Dropping it releases the lock in the background, also outside a runtime. A process that ends right
/// after may be too quick for that, and the lock then stays until its lease ends: before the end use
/// [`Guard::release`], or [`Locks::close`](crate::Locks::close).
#[must_use = "dropping a guard releases the lock"]
pub struct Guard {
    held: Arc<Held>,
    /// If the lock is handed on inside this process.
    turn: Option<Turn>,
    /// It was released, or handed on.
    is_over: bool,
    shared: Arc<Shared>,
}

impl Guard {
    pub(crate) fn new(held: Arc<Held>, turn: Option<Turn>, shared: Arc<Shared>) -> Self {
        Self { held, turn, is_over: false, shared }
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
        self.held.loss().is_none()
    }

    pub(crate) fn still_held(&self) -> Result<(), Error> {
        self.held_unless(self.held.loss())
    }

    fn held_unless(&self, lost: Option<LossCause>) -> Result<(), Error> {
        match lost {
            Some(cause) => Err(Error::Lost { lock: self.name().clone(), cause }),
            None => Ok(()),
        }
    }

    /// Resolves when the lock is lost, with the cause. Never resolves if it is released before.
    pub fn lost(&self) -> impl Future<Output = LossCause> + Send + 'static + use<> {
        let mut watch = self.held.watch();
        let held = Arc::downgrade(&self.held);
        let turn = self.turn.as_ref().map(Turn::mark);
        async move {
            if let Some(cause) = held.upgrade().and_then(|held| held.loss()) {
                return cause;
            }
            drop(held);
            match watch.wait_for(Option::is_some).await.map(|cause| *cause) {
                // Whose turn was over before did not lose it.
                Ok(Some(cause)) if turn.is_none_or(|turn| turn.strong_count() > 0) => cause,
                _ => std::future::pending().await,
            }
        }
    }

    /// The fencing token. `None` only from a store whose wire has no room for one.
    pub fn token(&self) -> Option<Token> {
        self.turn.as_ref().map_or(self.held.token(), Turn::token)
    }

    /// Which member of the pool it is, if the lock is a pool.
    pub fn member(&self) -> Option<&Member> {
        self.held.member()
    }

    /// The lock's name.
    pub fn name(&self) -> &Name {
        self.held.name()
    }

    /// For how long it can still be relied on if it is never renewed again; zero once it is lost.
    pub fn left(&self) -> Duration {
        self.held.left()
    }

    /// For how long the last grant or renewal was. A lock handed over while its client waited starts
    /// with no more than the waiter lease, until the first renewal.
    pub fn span(&self) -> Duration {
        self.held.span()
    }

    /// Why the last renewal failed, if it did and none has gone well since.
    pub fn trouble(&self) -> Option<String> {
        self.held.trouble()
    }

    /// Gives the lock back. It is given back even if the future is dropped.
    ///
    /// # Errors
    /// [`Error::Lost`] if it was lost before; [`Error::Indeterminate`], [`Error::Unreachable`] or
    /// [`Error::NoQuorum`] if the store did not say: then it ends with its lease at the latest.
    pub fn release(mut self) -> Releasing {
        self.is_over = true;
        let client = &self.shared.client;
        let lost = self.held.loss();
        self.let_go(Ended::Released);
        let release = match self.turn.take().map(Turn::end) {
            Some(None) => client.done(self.held_unless(lost)),
            _ => {
                let held = self.held.clone();
                held.end();
                client.start(async move { held.give_back(lost).await })
            }
        };
        Releasing { release, _shared: self.shared.clone() }
    }

    /// Makes it a handle that another process can adopt. Renews first, so that there is a full lease
    /// to do that in; from then on nobody renews it. A `max_hold` does not travel with it.
    ///
    /// # Errors
    /// [`Error::Lost`]; [`Error::Unreachable`], [`Error::NoQuorum`] or [`Error::Indeterminate`], and then
    /// it is released.
    pub async fn into_handle(mut self) -> Result<Handle, Error> {
        self.still_held()?;
        self.held.renew(self.held.lease_ms()).await?;
        let token = self.token();
        self.is_over = true;
        self.let_go(Ended::Carried);
        self.held.end();
        if let Some(turn) = self.turn.take() {
            turn.leave();
        }
        Ok(Handle::new(&self.held, token))
    }

    /// Before anybody else can have it: the next of this process may begin at once.
    fn let_go(&self, how: Ended) {
        if let Some(held_us) = self.held.let_go(how) {
            telling::released(self.name(), self.token(), held_us, how);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.is_over {
            self.let_go(Ended::Dropped);
        }
        match self.turn.take() {
            Some(turn) => drop(turn),
            None if self.is_over => {}
            None => self.held.abandon(),
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
    release: Started<Result<(), Error>>,
    _shared: Arc<Shared>,
}

impl Future for Releasing {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.release).poll(cx)
    }
}
