//! [`Connect`]: from a store's URL to its [`Locks`].

use std::sync::Arc;
use std::time::Duration;

use taketurns_core::{ClientId, Label, limits};
use tokio::runtime::Handle as Tokio;
use tokio::sync::watch;

use crate::client::{Client, Shell};
use crate::clock::{local_us, millis};
use crate::driver::{ClientDriver, ClientHandle};
use crate::engine::{self, EngineError, Open, Wakes};
use crate::keeper::keep;
use crate::loading_wait::LoadingWait;
use crate::meter;
use crate::runtime::{Runtime, sleep};
use crate::telling::target;
use crate::{Error, Locks, random};

/// Connects to a store by its URL, with the defaults of [`Connect`]:
///
/// | | shared by |
/// |---|---|
/// | `redis://HOST`, `redis+sentinel://H1,H2,H3/MASTER`, `redis+cluster://H1,H2` | all clients of the server; `rediss…` for TLS |
/// | `postgres://HOST/DATABASE` (feature `postgres`) | all clients of the server |
/// | `quorum:redis://A,redis://B,redis://C` | all clients of a majority of the servers; mutexes only |
/// | `file:PATH` | the processes of a machine |
/// | `memory:NAME` | all clients of this process |
/// | `memory:` | the clones of the returned [`Locks`] |
///
/// If a Redis server is loading its data, as after a reboot, this waits: see [`Connect::within`].
///
/// A tokio runtime with several threads reads the replies of a Redis server itself. If the runtime was built without
/// `enable_io`, tokio panics. The client catches that panic once per connection, and its own thread goes on reading;
/// the application's panic hook sees it.
///
/// # Errors
/// As [`Connect::open`].
///
/// # Cancel safety
/// Dropping the future cancels the attempt.
///
/// ```
/// # use taketurns::blocking::Wait;
/// # async {
/// let locks = taketurns::connect("memory:").await?;
/// let guard = locks.mutex("orders/42").acquire().await?;
/// println!("held with token {}", guard.check()?);
/// guard.release().await?;
/// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
/// ```
pub async fn connect(url: &str) -> Result<Locks, Error> {
    Connect::new(url).open().await
}

/// Connects as [`connect()`] does, but runs renewals and wake-ups on the caller's runtime. That runtime must keep
/// running, without being blocked, for as long as locks are held. See also [`crate::blocking`].
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
/// # runtime.block_on(async {
/// let locks = taketurns::connect_on("memory:", tokio::runtime::Handle::current()).await?;
/// # locks.close().await;
/// # Ok::<(), taketurns::Error>(()) }).unwrap();
/// ```
///
/// # Errors
/// As [`Connect::open`].
///
/// # Cancel safety
/// Dropping the future cancels the attempt.
pub async fn connect_on(url: &str, runtime: Tokio) -> Result<Locks, Error> {
    Connect::new(url).open_on(runtime).await
}

/// A builder for connections: set options, then call [`Connect::open`].
///
/// ```
/// # use taketurns::blocking::Wait;
/// # async {
/// use std::time::Duration;
/// use taketurns::Connect;
///
/// let connect = Connect::new("memory:").who("web-1").waiter_lease(Duration::from_secs(5));
/// let locks = connect.within(Duration::from_secs(30)).open().await?;
/// # drop(locks);
/// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
/// ```
#[must_use = "nothing is connected until `open` is called"]
pub struct Connect {
    opener: Result<Box<dyn Open>, Error>,
    who: Option<String>,
    waiter_lease: Option<Duration>,
    within: Option<Duration>,
    on_loading: Option<OnLoading>,
}

/// A callback that is called while the store is loading its data.
type OnLoading = Box<dyn FnMut(&str) + Send>;

impl Connect {
    /// Sets the store by its URL, as in [`connect()`]. A Redis URL may have options, such as
    /// `redis://HOST/0?prefix=app:&max_lease=120&strict=true`.
    pub fn new(url: &str) -> Self {
        Self::with(engine::by_url(url))
    }

    /// Sets an engine of your own, or a [`MemoryStore`](engine::MemoryStore), as the store.
    ///
    /// ```
    /// # use taketurns::blocking::Wait;
    /// use taketurns::{Connect, engine::MemoryStore};
    ///
    /// let store = MemoryStore::default();
    /// let (one, two) = (Connect::engine(store.clone()), Connect::engine(store));
    /// let (one, two) = (one.open().wait()?, two.open().wait()?);
    /// let guard = one.mutex("shared").acquire().wait()?;
    /// assert!(two.mutex("shared").try_acquire().wait()?.is_none());
    /// # drop(guard);
    /// # Ok::<(), taketurns::Error>(())
    /// ```
    pub fn engine(opener: impl Open) -> Self {
        Self::with(Ok(Box::new(opener)))
    }

    fn with(opener: Result<Box<dyn Open>, Error>) -> Self {
        Self { opener, who: None, waiter_lease: None, within: None, on_loading: None }
    }

    /// Sets the name that people see for this client's holders and waiters. Default: host, process and program.
    pub fn who(mut self, who: impl Into<String>) -> Self {
        self.who = Some(who.into());
        self
    }

    /// Sets how long a place in a queue outlives this client. The client refreshes it after a third of that. From 10 ms
    /// to 60 s, and for a quorum at most its `max_lease`. Default: 3 s, or the store's maximum if that is less.
    pub fn waiter_lease(mut self, waiter_lease: Duration) -> Self {
        self.waiter_lease = Some(waiter_lease);
        self
    }

    /// Sets a timeout for a server that is loading its data (it answers `-LOADING`, as after a reboot); zero fails at
    /// once. After the timeout `open` fails with [`Error::Unreachable`], or for a quorum with [`Error::NoQuorum`].
    ///
    /// Default: no timeout. Loading ends by itself: either the server is ready or it is gone. A server that is gone
    /// (connection refused, no reply) is an error at once, whatever the timeout. A quorum waits only while it needs the
    /// loading nodes for a majority.
    pub fn within(mut self, within: Duration) -> Self {
        self.within = Some(within);
        self
    }

    /// Sets a callback for each time `open` is about to wait for a server that is loading its data. It gets the reason,
    /// a sentence. Default: logs a warning, once.
    pub fn on_loading(mut self, tell: impl FnMut(&str) + Send + 'static) -> Self {
        self.on_loading = Some(Box::new(tell));
        self
    }

    /// Connects, with a thread for the client.
    ///
    /// # Errors
    /// [`Error::InvalidUrl`], [`Error::InvalidLabel`], [`Error::InvalidLease`], [`Error::Unreachable`],
    /// [`Error::NoQuorum`] or [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the attempt.
    pub async fn open(self) -> Result<Locks, Error> {
        let driver = ClientDriver::start()?;
        self.open_with(driver).await
    }

    /// Connects, with tasks on the caller's runtime: see [`connect_on`].
    ///
    /// # Errors
    /// As [`Connect::open`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the attempt.
    pub async fn open_on(self, runtime: Tokio) -> Result<Locks, Error> {
        self.open_with(ClientDriver::on(Runtime::Tokio(runtime))).await
    }

    async fn open_with(mut self, driver: ClientDriver) -> Result<Locks, Error> {
        meter::describe();
        let mut opener = self.opener?;
        let who = self.who.unwrap_or_else(default_who);
        let label = Label::new(&who, "")?;
        if let Some(given) = self.waiter_lease {
            checked_lease(given, Duration::from_millis(limits::WAITER_LEASE_MS_MAX))?;
        }
        let mut wait = LoadingWait::new(self.within, local_us());
        let mut tell = self.on_loading.take().unwrap_or_else(warn_once);
        let runtime = driver.runtime().clone();
        let client = loop {
            let again = opener.again();
            let attempt = OpenAttempt {
                opener,
                label: label.clone(),
                waiter_lease: self.waiter_lease,
                runtime: runtime.clone(),
            };
            // On the driver, where an engine finds the runtime for its connections.
            let refusal = match runtime.spawn(attempt.run()).await.ok_or(Error::Closed)? {
                Ok(client) => break Arc::new(client),
                Err(refusal) => refusal,
            };
            let OpenFailure { error, is_loading: true } = refusal else {
                return Err(refusal.error);
            };
            let Some(next) = again else { return Err(error) };
            // In the caller's future, not on the driver: once the future is dropped, no further attempt is made.
            match wait.pause(local_us(), random::bits64()) {
                Some(pause) => {
                    tell(&loading(&error));
                    runtime.entered(sleep(pause)).await;
                }
                None => return Err(given_up(error, self.within)),
            }
            opener = next;
        };
        drop(tell);
        let (stop, stopped) = watch::channel(false);
        driver.runtime().spawn(keep(client.clone(), stopped));
        Ok(Locks { shared: Arc::new(ClientHandle::new(client, driver, stop)) })
    }
}

/// One attempt to connect.
struct OpenAttempt {
    opener: Box<dyn Open>,
    label: Label,
    waiter_lease: Option<Duration>,
    runtime: Runtime,
}

/// Why an attempt failed.
struct OpenFailure {
    error: Error,
    is_loading: bool,
}

impl From<EngineError> for OpenFailure {
    fn from(error: EngineError) -> Self {
        Self { is_loading: error.is_loading(), error: Error::from_store(error) }
    }
}

impl OpenAttempt {
    async fn run(self) -> Result<Client, OpenFailure> {
        let id = ClientId::of_program(random::bits64());
        let shell = Arc::new(Shell::new(id));
        let engine = self.opener.open(id, Wakes::new(shell.clone())).await?;
        let max = engine.max_waiter_lease();
        let default = max.min(Duration::from_millis(limits::WAITER_LEASE_MS_DEFAULT));
        let waiter_lease_ms = match checked_lease(self.waiter_lease.unwrap_or(default), max) {
            Ok(waiter_lease_ms) => waiter_lease_ms,
            Err(error) => {
                engine.close().await;
                return Err(OpenFailure { error, is_loading: false });
            }
        };
        let client = Client::new(engine, id, self.label, waiter_lease_ms, shell, self.runtime);
        let sent_us = local_us();
        let stamp = client.engine.ping().await?;
        client.observe(sent_us, stamp);
        Ok(client)
    }
}

/// Returns the reason to report while the store is loading.
fn loading(error: &Error) -> String {
    match error {
        Error::Unreachable(why) => why.to_string(),
        other => other.to_string(),
    }
}

/// The default of [`Connect::on_loading`].
fn warn_once() -> OnLoading {
    let mut is_told = false;
    Box::new(move |why| {
        if !std::mem::replace(&mut is_told, true) {
            tracing::warn!(target: target::CONNECT, "waiting for the store: {why}");
        }
    })
}

/// Returns the error after the timeout of `within`.
fn given_up(error: Error, within: Option<Duration>) -> Error {
    match (error, within) {
        (Error::Unreachable(why), Some(within)) if !within.is_zero() => {
            Error::Unreachable(EngineError::Loading(format!("{why}; waited {within:?} for it")))
        }
        (error, _) => error,
    }
}

/// Returns `host:pid program`, or as much of it as is known.
fn default_who() -> String {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    let program = std::env::args_os().next().unwrap_or_default();
    let program = std::path::Path::new(&program).file_name().unwrap_or_default();
    let who = format!("{host}:{} {}", std::process::id(), program.to_string_lossy());
    let clean = who.trim_end().chars().filter(|c| !c.is_control());
    // Leaves room for the reason (`why`).
    clean.take(64).collect()
}

/// Checks a lease against the limits and returns it in milliseconds.
pub(crate) fn checked_lease(given: Duration, max: Duration) -> Result<u64, Error> {
    let lease_ms = millis(given);
    if lease_ms < limits::LEASE_MS_MIN || given > max {
        return Err(Error::InvalidLease { given, max });
    }
    Ok(lease_ms)
}

#[cfg(test)]
mod tests;
