//! The arguments that `run` and `acquire` share: which lock, how much of it, for how long. They are validated when they
//! are parsed. Also acquires that lock, for `run`, `acquire` and `elect`: reports the wait on stderr, and leaves the
//! queue on a signal.

use std::str::FromStr;
use std::time::Duration;

use rustix::process::Pid;
use taketurns::{Error, Guard, Kind, Locks, Member, Name, limits};
use tokio::time::timeout;

use crate::exit::{self, ExitFailure};
use crate::signals::Signals;
use crate::status;
use crate::store::{self, LoadingOptions, StoreConnection};
use crate::warnings::SilentWait;

/// Longest `--wait` and `--max-hold`. A user who asks for more than a year mistook the unit.
const SPAN_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// How long to ask for the holder's name, for the message that the lock is not free.
const HOLDER_ASK_MAX: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(crate) struct AskArgs {
    /// Don't wait: exit with code 75 if the lock is not free
    #[arg(short = 'n', long, visible_alias = "nb", conflicts_with = "wait")]
    pub(crate) nonblock: bool,

    /// Give up after SECS seconds, with code 75; 0 is the same as -n
    ///
    /// Fractions are allowed. The limit includes the time that a server needs to load its data after a
    /// restart.
    #[arg(short, long, visible_alias = "timeout", value_name = "SECS")]
    #[arg(value_parser = wait, allow_negative_numbers = true)]
    pub(crate) wait: Option<Duration>,

    /// Share a read-write lock with other readers; later readers queue behind a waiting writer
    #[arg(short, long, group = "kind")]
    shared: bool,

    /// Hold a read-write lock exclusively, as a writer
    ///
    /// Use it for a lock that others share with -s. Without -s, -x, --permits and --pool the lock is a
    /// mutex.
    #[arg(short = 'x', long, visible_short_alias = 'e', group = "kind")]
    exclusive: bool,

    /// Take K of a semaphore's N permits; K defaults to 1
    #[arg(long, value_name = "K/N", group = "kind", allow_negative_numbers = true)]
    permits: Option<Permits>,

    /// Take the member of a pool that has been free for longest
    #[arg(long, group = "kind")]
    pool: bool,

    /// Take only this member of the pool
    #[arg(long, value_name = "MEMBER", requires = "pool", value_parser = member)]
    member: Option<Member>,

    /// Exit code if the lock was not acquired
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = exit::NOT_ACQUIRED)]
    #[arg(value_parser = exit_code, allow_negative_numbers = true)]
    pub(crate) conflict_exit_code: u8,

    /// Lease: how long the lock outlives a holder that died or lost its connection. Default: 30, or
    /// the store's longest lease if that is shorter
    #[arg(long, value_name = "SECS")]
    #[arg(value_parser = lease, allow_negative_numbers = true)]
    pub(crate) lease: Option<Duration>,

    /// Reason, shown to others beside the holder's name
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,

    /// Report the holder on stderr while waiting, even without a terminal
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// The lock's name
    #[arg(value_parser = name)]
    pub(crate) lock: Name,
}

impl AskArgs {
    /// How the program waits for a server that is loading its data.
    pub(crate) fn loading(&self) -> LoadingOptions {
        LoadingOptions { within: self.limit(), verbose: self.verbose }
    }

    /// Returns the limit on the whole wait, or `None` if there is none.
    fn limit(&self) -> Option<Duration> {
        if self.nonblock { Some(Duration::ZERO) } else { self.wait }
    }

    /// Returns what is left of the limit after a wait of this length.
    fn left(&self, waited: Duration) -> Option<Duration> {
        self.limit().map(|limit| limit.saturating_sub(waited))
    }

    /// Acquires the lock. `waited` counts towards the limit.
    async fn acquire(
        &self,
        locks: &Locks,
        max_hold: Option<Duration>,
        waited: Duration,
    ) -> Result<Guard, Error> {
        let lock = self.lock.as_str();
        let mut acquire = match (self.permits, &self.member) {
            (Some(Permits { take, of }), _) => locks.semaphore(lock, of).acquire_many(take),
            (_, Some(member)) => locks.pool(lock).member(member.as_str()),
            _ if self.pool => locks.pool(lock).any(),
            _ if self.shared => locks.rwlock(lock).read(),
            _ if self.exclusive => locks.rwlock(lock).write(),
            _ => locks.mutex(lock).acquire(),
        };
        if let Some(lease) = self.lease {
            acquire = acquire.lease(lease);
        }
        if let Some(why) = &self.why {
            acquire = acquire.why(why.clone());
        }
        if let Some(max_hold) = max_hold {
            acquire = acquire.max_hold(max_hold);
        }
        // With nothing left it does not wait.
        if let Some(left) = self.left(waited) {
            acquire = acquire.within(left);
        }
        acquire.await
    }

    /// Returns whether the `run` around this command holds the lock, so that the wait would never end. A semaphore
    /// or a pool may have permits or members left.
    pub(crate) fn would_wait_for_itself(&self) -> bool {
        let endless = !self.nonblock && self.wait.is_none();
        is_held_around(&self.lock) && endless && self.permits.is_none() && !self.pool
    }
}

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

/// Acquires the lock as the arguments say, in the time that the wait for the store has left. If the lock is not
/// free, the failure names the holder and has the exit code that the user chose.
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
    let failure = match reporter.wait(ask.acquire(locks, max_hold, *waited), signals).await? {
        Ok(guard) => return Ok(guard),
        Err(Error::Timeout { .. }) => not_free(locks, ask).await,
        Err(error) => failure(error),
    };
    Err(failure.not_acquired_as(ask.conflict_exit_code))
}

/// `lock import is held by web-2:2051 sleep (nightly) for 12s; not waiting (-n)`
async fn not_free(locks: &Locks, ask: &AskArgs) -> ExitFailure {
    let state = match timeout(HOLDER_ASK_MAX, locks.inspect(ask.lock.as_str())).await {
        Ok(Ok(Some(view))) => status::state(&view),
        Ok(Ok(None)) if ask.pool => "is a pool without members".to_owned(),
        _ => "was not free".to_owned(),
    };
    let given_up = match ask.wait {
        None => "not waiting (-n)".to_owned(),
        Some(Duration::ZERO) => "not waiting (-w 0)".to_owned(),
        Some(limit) => format!("gave up after {limit:?} (-w)"),
    };
    let message = format_args!("lock {} {state}; {given_up}", ask.lock);
    ExitFailure::new(exit::NOT_ACQUIRED, message)
}

/// Reports a wait on stderr, where that is a terminal or the user asked for it.
pub(crate) struct WaitReporter<'a> {
    pub(crate) locks: &'a Locks,
    pub(crate) lock: &'a Name,
    pub(crate) verbose: bool,
    /// The wait has no limit.
    pub(crate) endless: bool,
}

impl WaitReporter<'_> {
    /// Waits, unless a signal comes first.
    pub(crate) async fn wait<T>(
        &self,
        wait: impl Future<Output = T>,
        signals: &mut Signals,
    ) -> Result<T, ExitFailure> {
        // At a terminal the status line reports a quarantine.
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

/// The failure of a command that would wait for the lock of the `run` around it.
pub(crate) fn waits_for_itself(lock: &Name) -> ExitFailure {
    ExitFailure::usage(format_args!(
        "lock {lock} is held by the taketurns that started this command (see TAKETURNS_LOCK), so this \
         would wait forever: locks are not re-entrant; if they are locks of different stores, start \
         this with `env -u TAKETURNS_LOCK`"
    ))
}

/// The failure for an error of the library. If the lock is of another kind, it names the options for that kind.
pub(crate) fn failure(error: Error) -> ExitFailure {
    let Error::KindMismatch { lock, is } = error else { return error.into() };
    let options = match is {
        Kind::Mutex => "no -s, -x, --permits or --pool".to_owned(),
        Kind::RwLock => "-x or -s".to_owned(),
        Kind::Semaphore { permits } => format!("--permits K/{permits}"),
        Kind::Pool => "--pool".to_owned(),
    };
    ExitFailure::usage(format_args!(
        "lock {lock} is in use as another kind ({is}): pass {options}, or wait until it is idle"
    ))
}

/// `K/N`, or `N` for one of N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permits {
    pub(crate) take: u32,
    pub(crate) of: u32,
}

impl FromStr for Permits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (take, of) = text.split_once('/').unwrap_or(("1", text));
        let number = |part: &str| {
            part.parse::<u32>().ok().filter(|number| (1..=limits::PERMITS_MAX).contains(number))
        };
        match (number(take), number(of)) {
            (Some(take), Some(of)) if take <= of => Ok(Self { take, of }),
            (Some(take), Some(of)) => {
                Err(format!("a semaphore with {of} permits can't grant {take}"))
            }
            _ => Err(format!("write K/N or N, with numbers from 1 to {}", limits::PERMITS_MAX)),
        }
    }
}

/// Returns whether the `run` or `elect` around this command holds the lock.
pub(crate) fn is_held_around(lock: &Name) -> bool {
    std::env::var_os("TAKETURNS_LOCK").is_some_and(|held| held == lock.as_str())
}

/// A lock's name.
pub(crate) fn name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|error| error.to_string())
}

/// A pool member's name.
pub(crate) fn member(text: &str) -> Result<Member, String> {
    Member::new(text).map_err(|error| error.to_string())
}

/// A lease in seconds, within the limits of all stores.
pub(crate) fn lease(text: &str) -> Result<Duration, String> {
    let (min, max) = (limits::LEASE_MS_MIN, limits::LEASE_MS_MAX);
    let lease = seconds(text)?;
    if (u128::from(min)..=u128::from(max)).contains(&lease.as_millis()) {
        return Ok(lease);
    }
    Err(format!("a lease is between {} and {} seconds", min as f64 / 1e3, max / 1_000))
}

pub(crate) fn exit_code(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| "it is not a number from 0 to 255".into())
}

pub(crate) fn wait(text: &str) -> Result<Duration, String> {
    at_most_a_year(seconds(text)?).map_err(|error| format!("{error}; leave out -w to wait forever"))
}

/// The longest time that a lock may be held, in seconds.
pub(crate) fn max_hold(text: &str) -> Result<Duration, String> {
    let max_hold = span(text)?;
    if max_hold < Duration::from_millis(limits::LEASE_MS_MIN) {
        return Err("it must be at least 0.01 seconds".into());
    }
    Ok(max_hold)
}

/// A time in seconds, up to a year.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    at_most_a_year(seconds(text)?)
}

fn at_most_a_year(span: Duration) -> Result<Duration, String> {
    if span > SPAN_MAX { Err("that is more than a year".into()) } else { Ok(span) }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is not a number of seconds".to_owned())?;
    if seconds < 0.0 {
        return Err("it must not be negative".into());
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| "it is not a number of seconds".into())
}

#[cfg(test)]
mod tests;
