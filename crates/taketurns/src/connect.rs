//! [`Connect`]: from a store's URL to its [`Locks`].

use std::sync::Arc;
use std::time::Duration;

use taketurns_core::{ClientId, Label, limits};
use tokio::runtime::Handle as Tokio;
use tokio::sync::watch;

use crate::client::Client;
use crate::clock::{local_us, millis};
use crate::driver::{Driver, Shared};
use crate::engine::{self, Open, Wakes};
use crate::guards::Guards;
use crate::meter;
use crate::runtime::Runtime;
use crate::waits::Waits;
use crate::{Error, Locks, random};

/// Connects to a store with the defaults of [`Connect`], by its URL:
///
/// | | shared by |
/// |---|---|
/// | `redis://HOST`, `redis+sentinel://H1,H2,H3/MASTER`, `redis+cluster://H1,H2` | whoever reaches the server; `rediss…` for TLS |
/// | `quorum:redis://A,redis://B,redis://C` | whoever reaches a majority of the servers; mutexes only |
/// | `file:PATH` | the processes of a machine |
/// | `memory:NAME` | all of this process |
/// | `memory:` | nobody but clones of what this returns |
///
/// # Errors
/// [`Error::InvalidUrl`], [`Error::Unreachable`], [`Error::NoQuorum`] or [`Error::Store`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let locks = taketurns::connect("memory:").await?;
/// let guard = locks.mutex("orders/42").acquire().await?;
/// println!("held with token {}", guard.check()?);
/// guard.release().await?;
/// # Ok(()) }) }
/// ```
pub async fn connect(url: &str) -> Result<Locks, Error> {
    Connect::new(url).open().await
}

/// As [`connect()`], but renewals and wake-ups run on the caller's runtime, which has to be kept
/// running and not blocked for as long as locks are held.
///
/// # Errors
/// As [`connect()`].
pub async fn connect_on(url: &str, runtime: Tokio) -> Result<Locks, Error> {
    Connect::new(url).open_on(runtime).await
}

/// How to connect. Each option says its default.
#[must_use = "nothing is connected until `open` is called"]
pub struct Connect {
    opener: Result<Box<dyn Open>, Error>,
    who: Option<String>,
    waiter_lease: Option<Duration>,
}

impl Connect {
    /// To a store by its URL, as in [`connect()`]. For Redis it may have options, such as
    /// `redis://HOST/0?prefix=app:&max_lease=120&strict=true`.
    pub fn new(url: &str) -> Self {
        Self::with(engine::by_url(url))
    }

    /// To an engine of one's own.
    pub fn engine(opener: impl Open) -> Self {
        Self::with(Ok(Box::new(opener)))
    }

    fn with(opener: Result<Box<dyn Open>, Error>) -> Self {
        Self { opener, who: None, waiter_lease: None }
    }

    /// Who holds and waits, as people see it. Default: host, process and program.
    pub fn who(mut self, who: impl Into<String>) -> Self {
        self.who = Some(who.into());
        self
    }

    /// How long a place in a queue outlives this client; it is refreshed at a third of that.
    /// From 10 ms to 60 s, and for a quorum no longer than its `max_lease`. Default: 3 s, or as long as that
    /// allows.
    pub fn waiter_lease(mut self, waiter_lease: Duration) -> Self {
        self.waiter_lease = Some(waiter_lease);
        self
    }

    /// Connects, with a driver thread of its own.
    ///
    /// # Errors
    /// [`Error::InvalidUrl`], [`Error::InvalidLabel`], [`Error::InvalidLease`],
    /// [`Error::Unreachable`], [`Error::NoQuorum`] or [`Error::Store`].
    pub async fn open(self) -> Result<Locks, Error> {
        let driver = Driver::start()?;
        self.open_with(driver).await
    }

    /// Connects, with tasks on the caller's runtime.
    ///
    /// # Errors
    /// As [`Connect::open`].
    pub async fn open_on(self, runtime: Tokio) -> Result<Locks, Error> {
        self.open_with(Driver::on(Runtime::Tokio(runtime))).await
    }

    async fn open_with(self, driver: Driver) -> Result<Locks, Error> {
        meter::describe();
        let opener = self.opener?;
        let who = self.who.unwrap_or_else(default_who);
        Label::new(&who, "")?;
        if let Some(given) = self.waiter_lease {
            checked_lease(given, Duration::from_millis(limits::WAITER_LEASE_MS_MAX))?;
        }
        let id = ClientId::of_program(random::bits64());
        let (wakes, woken) = Wakes::channel();
        let runtime = driver.runtime().clone();
        let on_driver = runtime.clone();
        // On the driver, where an engine finds the runtime that its connections are to live on.
        let opened = on_driver.spawn(async move {
            let engine = opener.open(id, wakes).await.map_err(Error::from_store)?;
            let max = engine.max_waiter_lease();
            let default = max.min(Duration::from_millis(limits::WAITER_LEASE_MS_DEFAULT));
            let waiter_lease_ms = match checked_lease(self.waiter_lease.unwrap_or(default), max) {
                Ok(waiter_lease_ms) => waiter_lease_ms,
                Err(error) => {
                    engine.close().await;
                    return Err(error);
                }
            };
            let (client, idle) = Client::new(engine, id, who, waiter_lease_ms, runtime);
            let sent_us = local_us();
            let stamp = client.engine.ping().await.map_err(Error::from_store)?;
            client.observe(sent_us, stamp, local_us());
            Ok((Arc::new(client), idle))
        });
        let (client, idle) = opened.await.ok_or(Error::Closed)??;
        let (stop, stopped) = watch::channel(false);
        driver.runtime().spawn(client.clone().route(woken, stopped.clone()));
        driver.runtime().spawn(Guards::keep(client.clone(), stopped.clone()));
        driver.runtime().spawn(Waits::keep_alive(client.clone(), stopped));
        Ok(Locks { shared: Arc::new(Shared::new(client, driver, stop, idle)) })
    }
}

/// `host:pid program`, as much of it as can be had.
fn default_who() -> String {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    let program = std::env::args_os().next().unwrap_or_default();
    let program = std::path::Path::new(&program).file_name().unwrap_or_default();
    let who = format!("{host}:{} {}", std::process::id(), program.to_string_lossy());
    let clean = who.trim_end().chars().filter(|c| !c.is_control());
    // Room is left for the reason that the user may give.
    clean.take(64).collect()
}

/// The milliseconds of a lease that is within the limits.
pub(crate) fn checked_lease(given: Duration, max: Duration) -> Result<u64, Error> {
    let lease_ms = millis(given);
    if lease_ms < limits::LEASE_MS_MIN || given > max {
        return Err(Error::InvalidLease { given, max });
    }
    Ok(lease_ms)
}
