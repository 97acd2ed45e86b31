//! Which lock, how much of it and for how long: the arguments that `run` and `acquire` share, parsed once and valid from
//! then on. Also acquiring that lock, for `run`, `acquire` and `elect`: it reports the wait on stderr, and gives up the
//! place in the queue on a signal.

use std::str::FromStr;
use std::time::Duration;

use rustix::process::Pid;
use taketurns::{Acquire, Error, Guard, Kind, Locks, Member, Name, limits};

use crate::exit::{self, ExitFailure};
use crate::signals::Signals;
use crate::status;
use crate::store::{self, LoadingOptions, StoreConnection};
use crate::warnings::SilentWait;

/// Longest `--wait` and `--max-hold`: past a year somebody mistook the unit.
const SPAN_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

#[derive(Debug, clap::Args)]
pub(crate) struct AskArgs {
    /// Don't wait: give up at once if the lock is not free
    #[arg(short = 'n', long, visible_alias = "nb", conflicts_with = "wait")]
    pub(crate) nonblock: bool,

    /// Give up after so many seconds; fractions are fine, 0 is the same as -n
    ///
    /// The time that a server takes to load its data, as after a reboot, is part of it.
    #[arg(short, long, visible_alias = "timeout", value_name = "SECS")]
    #[arg(value_parser = wait, allow_negative_numbers = true)]
    pub(crate) wait: Option<Duration>,

    /// Share a read-write lock with other readers; a waiting writer stops later readers
    #[arg(short, long, group = "kind")]
    shared: bool,

    /// Have a read-write lock alone, as the writer
    ///
    /// Without -s, -x, --permits and --pool the lock is a mutex, which is exclusive too. Use -x, and
    /// not nothing, where others use -s on the same lock.
    #[arg(short = 'x', long, visible_short_alias = 'e', group = "kind")]
    exclusive: bool,

    /// Take K of a semaphore's N permits (K is 1 if left out)
    #[arg(long, value_name = "K/N", group = "kind", allow_negative_numbers = true)]
    permits: Option<Permits>,

    /// Take a member of a pool, the one that has been free for longest
    #[arg(long, group = "kind")]
    pool: bool,

    /// Take this member of the pool and no other
    #[arg(long, value_name = "MEMBER", requires = "pool", value_parser = member)]
    member: Option<Member>,

    /// Exit with this code if the lock was not acquired
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = exit::NOT_ACQUIRED)]
    #[arg(value_parser = exit_code, allow_negative_numbers = true)]
    pub(crate) conflict_exit_code: u8,

    /// How long the lock outlives a holder that died or was cut off; 30 if not given, or what the
    /// store takes at most if that is less
    #[arg(long, value_name = "SECS")]
    #[arg(value_parser = lease, allow_negative_numbers = true)]
    pub(crate) lease: Option<Duration>,

    /// What others are told about why you have the lock
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,

    /// Say on stderr whom the lock is waited for, also when that is no terminal
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

    /// How long the program may wait at all; `None` for as long as it takes.
    fn limit(&self) -> Option<Duration> {
        if self.nonblock { Some(Duration::ZERO) } else { self.wait }
    }

    /// What is left of it once the program has waited for so long.
    fn left(&self, waited: Duration) -> Option<Duration> {
        self.limit().map(|limit| limit.saturating_sub(waited))
    }

    /// Acquires the lock, after so much of the time limit is over. `None` if it was not to be waited for
    /// and is not free.
    pub(crate) async fn acquire(
        &self,
        locks: &Locks,
        max_hold: Option<Duration>,
        waited: Duration,
    ) -> Result<Option<Guard>, Error> {
        match self.left(waited) {
            Some(Duration::ZERO) => self.try_acquire(locks, max_hold).await,
            left => self.wait_for(locks, max_hold, left).await.map(Some),
        }
    }

    /// Is it a lock that the `run` around us holds, and waits for us to let go of? Permits and members
    /// it may have left for us.
    pub(crate) fn would_wait_for_itself(&self) -> bool {
        let endless = !self.nonblock && self.wait.is_none();
        is_held_around(&self.lock) && endless && self.permits.is_none() && !self.pool
    }

    async fn try_acquire(
        &self,
        locks: &Locks,
        max_hold: Option<Duration>,
    ) -> Result<Option<Guard>, Error> {
        let acquire = match (self.permits, &self.member) {
            (Some(Permits { take, of }), _) => {
                locks.semaphore(self.lock.as_str(), of).try_acquire_many(take)
            }
            (_, Some(member)) => locks.pool(self.lock.as_str()).try_member(member.as_str()),
            _ if self.pool => locks.pool(self.lock.as_str()).try_any(),
            _ if self.shared => locks.rwlock(self.lock.as_str()).try_read(),
            _ if self.exclusive => locks.rwlock(self.lock.as_str()).try_write(),
            _ => locks.mutex(self.lock.as_str()).try_acquire(),
        };
        self.with_options(acquire, max_hold).await
    }

    async fn wait_for(
        &self,
        locks: &Locks,
        max_hold: Option<Duration>,
        within: Option<Duration>,
    ) -> Result<Guard, Error> {
        let acquire = match (self.permits, &self.member) {
            (Some(Permits { take, of }), _) => {
                locks.semaphore(self.lock.as_str(), of).acquire_many(take)
            }
            (_, Some(member)) => locks.pool(self.lock.as_str()).member(member.as_str()),
            _ if self.pool => locks.pool(self.lock.as_str()).any(),
            _ if self.shared => locks.rwlock(self.lock.as_str()).read(),
            _ if self.exclusive => locks.rwlock(self.lock.as_str()).write(),
            _ => locks.mutex(self.lock.as_str()).acquire(),
        };
        let acquire = self.with_options(acquire, max_hold);
        match within {
            Some(within) => acquire.within(within).await,
            None => acquire.await,
        }
    }

    fn with_options<T>(&self, acquire: Acquire<T>, max_hold: Option<Duration>) -> Acquire<T> {
        let mut acquire = acquire;
        if let Some(lease) = self.lease {
            acquire = acquire.lease(lease);
        }
        if let Some(why) = &self.why {
            acquire = acquire.why(why.clone());
        }
        if let Some(max_hold) = max_hold {
            acquire = acquire.max_hold(max_hold);
        }
        acquire
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
                Err(format!("{take} permits can't be had of a semaphore with {of}"))
            }
            _ => Err(format!("write K/N or N, with numbers from 1 to {}", limits::PERMITS_MAX)),
        }
    }
}

/// Does the `run` or `elect` around us hold the lock?
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

/// A lease in seconds, within what any store takes.
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
    at_most_a_year(seconds(text)?)
        .map_err(|error| format!("{error}; leave -w out to wait for ever"))
}

/// How long a lock may be held at most.
pub(crate) fn max_hold(text: &str) -> Result<Duration, String> {
    let max_hold = span(text)?;
    if max_hold < Duration::from_millis(limits::LEASE_MS_MIN) {
        return Err("holding for less than a hundredth of a second is of no use".into());
    }
    Ok(max_hold)
}

/// Any time that somebody might mean.
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
