//! [`All`]: several mutexes at once, without deadlock.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join_all;
use taketurns_core::session::LossCause;
use taketurns_core::{Ask, Name, Token};

use crate::acquire::AcquireOptions;
use crate::clock::local_us;
use crate::lock::LockRef;
use crate::{Acquire, Error, Guard, Locks};

/// Several mutexes, held all together or not at all. They are acquired one after the other in the order of their names,
/// so two `all`s never deadlock. See [`Locks::all`].
#[derive(Clone, Debug)]
pub struct All {
    locks: Locks,
    names: BTreeSet<String>,
}

impl All {
    pub(crate) fn new<N: AsRef<str>>(locks: &Locks, names: impl IntoIterator<Item = N>) -> Self {
        let names = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
        Self { locks: locks.clone(), names }
    }

    /// Waits for all of them.
    pub fn acquire(&self) -> AcquireAll {
        AcquireAll { all: self.clone(), options: AcquireOptions::default() }
    }
}

/// A request for several mutexes: set options, then `.await` it. Nothing is sent before that.
///
/// # Errors
/// As [`Acquire`], for the first mutex that fails; [`Error::Lost`] if one was lost while waiting for another. None is
/// held then.
///
/// # Cancel safety
/// Dropping the future releases the mutexes it already holds and gives up its place in the queue.
#[must_use = "an acquire does nothing until it is awaited"]
#[derive(Debug)]
pub struct AcquireAll {
    all: All,
    options: AcquireOptions,
}

impl AcquireAll {
    /// Sets how long each lock stays held after this client dies. Default: as [`Acquire::lease`].
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = Some(lease);
        self
    }

    /// Ends the renewal of each lock this long after it was acquired. Default: never.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// Sets a timeout for all of them together, as [`Acquire::within`] does. Default: waits for ever.
    pub fn within(mut self, within: Duration) -> Self {
        self.options.within = Some(within);
        self
    }

    /// Sets why the locks are wanted, for people to see. Default: empty.
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.options.why = why.into();
        self
    }

    async fn take(self) -> Result<AllGuard, Error> {
        let (all, mut options) = (self.all, self.options);
        let (started_us, within) = (local_us(), options.within);
        let mut guards = Vec::with_capacity(all.names.len());
        for name in &all.names {
            let passed = Duration::from_micros(local_us() - started_us);
            options.within = within.map(|within| within.saturating_sub(passed));
            let lock = LockRef::new(&all.locks, name);
            guards.push(Acquire::<Guard>::with(lock, Ok(Ask::Mutex), options.clone()).await?);
        }
        let guards = AllGuard { guards };
        // The first may have been lost while waiting for the last.
        guards.still_held()?;
        Ok(guards)
    }
}

impl IntoFuture for AcquireAll {
    type Output = Result<AllGuard, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.take())
    }
}

/// Several mutexes, all held. If one of them is lost, all count as lost.
///
/// ```
/// # use taketurns::blocking::Wait;
/// # async {
/// # let locks = taketurns::connect("memory:").await?;
/// let both = locks.all(["to", "from"]).acquire().why("a transfer").await?;
/// let names: Vec<String> = both.check()?.iter().map(|(name, _)| name.to_string()).collect();
/// assert_eq!(names, ["from", "to"]);
/// both.release().await?;
/// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
/// ```
#[must_use = "dropping a guard releases the locks"]
#[derive(Debug)]
pub struct AllGuard {
    guards: Vec<Guard>,
}

impl AllGuard {
    /// Returns the tokens of all locks, in the order of their names, if all are still held.
    ///
    /// # Errors
    /// [`Error::Lost`] for the first that is not; [`Error::Unfenced`] as for [`Guard::check`].
    pub fn check(&self) -> Result<Vec<(Name, Token)>, Error> {
        // A lost lock matters more than one without a token.
        self.still_held()?;
        self.guards.iter().map(|guard| Ok((guard.name().clone(), guard.check()?))).collect()
    }

    fn still_held(&self) -> Result<(), Error> {
        self.guards.iter().try_for_each(Guard::still_held)
    }

    /// Returns whether all are still held.
    pub fn is_held(&self) -> bool {
        self.guards.iter().all(Guard::is_held)
    }

    /// Resolves when the first of them is lost, with its name and the cause.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect: a later call resolves too.
    pub fn lost(&self) -> impl Future<Output = (Name, LossCause)> + Send + 'static + use<> {
        let lost = |guard: &Guard| (guard.name().clone(), Box::pin(guard.lost()));
        let mut losses: Vec<_> = self.guards.iter().map(lost).collect();
        std::future::poll_fn(move |cx| {
            for (name, lost) in &mut losses {
                if let Poll::Ready(cause) = lost.as_mut().poll(cx) {
                    return Poll::Ready((name.clone(), cause));
                }
            }
            Poll::Pending
        })
    }

    /// Returns the guard of each lock, in the order of their names.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// Returns the guards one by one, in the order of their names.
    pub fn into_guards(self) -> Vec<Guard> {
        self.guards
    }

    /// Releases all of them.
    ///
    /// # Errors
    /// The first error of any, as [`Guard::release`]; the others are released all the same.
    ///
    /// # Cancel safety
    /// All are released even if the future is dropped.
    pub fn release(self) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        // The releases start here, not at the first poll.
        let releases: Vec<_> = self.guards.into_iter().map(Guard::release).collect();
        async { join_all(releases).await.into_iter().collect() }
    }
}
