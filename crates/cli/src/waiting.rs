//! Acquiring the lock, for `run`, `acquire` and `elect`: reports the wait on stderr, and gives up the place in
//! the queue on a signal.

use std::time::Duration;

use rustix::process::Pid;
use taketurns::{Error, Guard, Kind, Locks, Name};

use crate::ask::AskArgs;
use crate::exit::{self, ExitFailure};
use crate::signals::Signals;
use crate::status;
use crate::store::{self, LoadingOptions, StoreConnection};
use crate::warnings::SilentWait;

/// Connects, and gives up on a signal.
pub(crate) async fn open(
    url: Option<&str>,
    program: &str,
    pid: Pid,
    loading: LoadingOptions,
    signals: &mut Signals,
) -> Result<StoreConnection, ExitFailure> {
    let given_up = "gave up connecting to the store";
    signals.unless(given_up, store::open_as(url, program, pid, loading)).await?
}

/// Acquires the lock as the arguments say, in the time that the wait for the store has left. Failing to
/// is a failure with the code the user chose.
pub(crate) async fn acquire(
    StoreConnection { locks, waited }: &StoreConnection,
    ask: &AskArgs,
    max_hold: Option<Duration>,
    signals: &mut Signals,
) -> Result<Guard, ExitFailure> {
    if ask.would_wait_for_itself() {
        return Err(waits_for_itself(&ask.lock));
    }
    // With -n or -w, giving up says why.
    let endless = !ask.nonblock && ask.wait.is_none();
    let reporter = WaitReporter { locks, lock: &ask.lock, verbose: ask.verbose, endless };
    let acquired = reporter.wait(ask.acquire(locks, max_hold, *waited), signals).await?;
    let guard = acquired.map_err(|error| failure(error).not_acquired_as(ask.conflict_exit_code))?;
    guard.ok_or_else(|| {
        let message = format_args!("lock {} is not free, and was not to be waited for", ask.lock);
        ExitFailure::new(exit::NOT_ACQUIRED, message).not_acquired_as(ask.conflict_exit_code)
    })
}

/// Reports a wait on stderr.
pub(crate) struct WaitReporter<'a> {
    pub(crate) locks: &'a Locks,
    pub(crate) lock: &'a Name,
    pub(crate) verbose: bool,
    /// It ends with the lock, or a signal.
    pub(crate) endless: bool,
}

impl WaitReporter<'_> {
    /// Waits, unless a signal comes first.
    pub(crate) async fn wait<T>(
        &self,
        wait: impl Future<Output = T>,
        signals: &mut Signals,
    ) -> Result<T, ExitFailure> {
        // At a terminal the line says why that is drawn there.
        let silent = self.endless && !status::is_drawn();
        let _silence = silent.then(SilentWait::begin);
        let informed = async {
            tokio::select! {
                biased;
                done = wait => done,
                () = status::keep_informed(self.locks, self.lock, self.verbose) => {
                    unreachable!("it never ends")
                }
            }
        };
        let given_up = format_args!("lock {} was not acquired: gave up waiting", self.lock);
        signals.unless(given_up, informed).await
    }
}

/// It would be waited for in vain.
pub(crate) fn waits_for_itself(lock: &Name) -> ExitFailure {
    ExitFailure::usage(format_args!(
        "lock {lock} is held by the run around this one, as TAKETURNS_LOCK says, and would be waited \
         for in vain: locks are not re-entrant; if that is a lock of another store, put `env -u \
         TAKETURNS_LOCK` before this command"
    ))
}

/// A lock of another kind is asked for with other options, which the library can't know.
pub(crate) fn failure(error: Error) -> ExitFailure {
    let Error::KindMismatch { lock, is } = error else { return error.into() };
    let options = match is {
        Kind::Mutex => "none of -s, -x, --permits and --pool".to_owned(),
        Kind::RwLock => "-x or -s".to_owned(),
        Kind::Semaphore { permits } => format!("--permits K/{permits}"),
        Kind::Pool => "--pool".to_owned(),
    };
    ExitFailure::usage(format_args!(
        "lock {lock} is in use as another kind ({is}): use {options} as the others do, or wait until \
         it is idle"
    ))
}
