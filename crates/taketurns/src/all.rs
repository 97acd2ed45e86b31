//! [`All`]: several mutexes at once, without deadlock.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use taketurns_core::session::LossCause;
use taketurns_core::{Name, Token};

use crate::clock::local_us;
use crate::{Error, Guard, Locks};

/// Several mutexes, to be had all together. They are taken one after the other in the order of their
/// names, so that no two `all`s wait for each other. See [`Locks::all`].
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
        let (lease, max_hold, within, why) = (None, None, None, String::new());
        AcquireAll { all: self.clone(), lease, max_hold, within, why }
    }
}

/// Several mutexes to be had: set options, then `.await` it. Dropping the future gives up all.
#[must_use = "an acquire does nothing until it is awaited"]
#[derive(Debug)]
pub struct AcquireAll {
    all: All,
    lease: Option<Duration>,
    max_hold: Option<Duration>,
    within: Option<Duration>,
    why: String,
}

impl AcquireAll {
    pub(crate) fn locks(&self) -> &Locks {
        &self.all.locks
    }

    /// How long each lock outlives this client. Default: 30 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Ends renewal of each lock this long after it was had. Default: no end.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// Gives up after this long with [`Error::Timeout`], or with [`Error::Unreachable`] or
    /// [`Error::NoQuorum`] if the store never answered about the one that was asked for last; none is held
    /// then. Default: waits for ever.
    pub fn within(mut self, within: Duration) -> Self {
        self.within = Some(within);
        self
    }

    /// Why the locks are wanted, for people to see. Default: nothing.
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    async fn take(self) -> Result<AllGuard, Error> {
        let started_us = local_us();
        let mut guards = Vec::with_capacity(self.all.names.len());
        for name in &self.all.names {
            let mut acquire = self.all.locks.mutex(name).acquire().why(&self.why);
            if let Some(lease) = self.lease {
                acquire = acquire.lease(lease);
            }
            if let Some(max_hold) = self.max_hold {
                acquire = acquire.max_hold(max_hold);
            }
            if let Some(within) = self.within {
                let passed = Duration::from_micros(local_us() - started_us);
                acquire = acquire.within(within.saturating_sub(passed));
            }
            guards.push(acquire.await?);
        }
        let guards = AllGuard { guards };
        // The first may have been lost while the last was waited for.
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

/// Several mutexes, all held. Losing one is losing all: it says so as soon as the first is lost.
#[must_use = "dropping a guard releases the locks"]
#[derive(Debug)]
pub struct AllGuard {
    guards: Vec<Guard>,
}

impl AllGuard {
    /// Are all still held? Then here are their tokens, in the order of their names.
    ///
    /// # Errors
    /// [`Error::Lost`] for the first that is not; [`Error::Unfenced`] as for [`Guard::check`].
    pub fn check(&self) -> Result<Vec<(Name, Token)>, Error> {
        // That one is lost is more than that another has no token.
        self.still_held()?;
        self.guards.iter().map(|guard| Ok((guard.name().clone(), guard.check()?))).collect()
    }

    fn still_held(&self) -> Result<(), Error> {
        self.guards.iter().try_for_each(Guard::still_held)
    }

    /// Are all still held?
    pub fn is_held(&self) -> bool {
        self.guards.iter().all(Guard::is_held)
    }

    /// Resolves when the first of them is lost, with its name and the cause.
    pub fn lost(&self) -> impl Future<Output = (Name, LossCause)> + Send + 'static + use<> {
        type Lost = Pin<Box<dyn Future<Output = LossCause> + Send>>;
        let mut lost: Vec<(Name, Lost)> = self
            .guards
            .iter()
            .map(|guard| (guard.name().clone(), Box::pin(guard.lost()) as Lost))
            .collect();
        std::future::poll_fn(move |cx| {
            for (name, lost) in &mut lost {
                if let std::task::Poll::Ready(cause) = lost.as_mut().poll(cx) {
                    return std::task::Poll::Ready((name.clone(), cause));
                }
            }
            std::task::Poll::Pending
        })
    }

    /// The guards one by one, in the order of their names.
    pub fn into_guards(self) -> Vec<Guard> {
        self.guards
    }

    /// Gives all of them back, also if the future is dropped.
    ///
    /// # Errors
    /// The first error of any; the others are released all the same.
    pub fn release(self) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        // Started here, not when first polled.
        let releasing: Vec<_> = self.guards.into_iter().map(Guard::release).collect();
        async move {
            let mut result = Ok(());
            for release in releasing {
                result = result.and(release.await);
            }
            result
        }
    }
}
