//! The arguments that `run` and `acquire` share: which lock, how much of it, for how long. They are validated when they
//! are parsed. Also acquires that lock, for `run` and `acquire`. [`wait`] has what other commands that wait need too.

pub(crate) mod wait;

use std::str::FromStr;
use std::time::Duration;

use rustix::process::Pid;
use taketurns::{Error, Guard, Kind, Locks, Member, Name, limits};

use crate::exit::ExitFailure;
use crate::signals::Signals;
use crate::store::{self, LoadingOptions, StoreConnection};
use wait::WaitArgs;

/// Longest `--wait` and `--max-hold`. A user who asks for more than a year mistook the unit.
const SPAN_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

#[derive(Debug, clap::Args)]
pub(crate) struct AskArgs {
    #[command(flatten)]
    pub(crate) wait: WaitArgs,

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

    #[command(flatten)]
    hold: HoldArgs,

    /// The lock's name
    #[arg(value_parser = name)]
    pub(crate) lock: Name,
}

impl AskArgs {
    /// Acquires the lock. `waited` counts towards the limit.
    async fn acquire(
        &self,
        locks: &Locks,
        times: HoldTimes,
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
        if let Some(lease) = self.hold.lease {
            acquire = acquire.lease(lease);
        }
        if let Some(why) = &self.hold.why {
            acquire = acquire.why(why.clone());
        }
        if let Some(max_hold) = times.max_hold {
            acquire = acquire.max_hold(max_hold);
        }
        if let Some(at_least) = times.at_least {
            acquire = acquire.at_least(at_least);
        }
        // With nothing left it does not wait.
        if let Some(left) = self.wait.left(waited) {
            acquire = acquire.within(left);
        }
        acquire.await
    }

    /// Returns whether the `run` around this command holds the lock, so that the wait would never end. A semaphore
    /// or a pool may have permits or members left.
    fn would_wait_for_itself(&self) -> bool {
        is_held_around(&self.lock) && self.wait.is_endless() && self.permits.is_none() && !self.pool
    }
}

/// How a lock is held, whatever its kind.
#[derive(Debug, clap::Args)]
pub(crate) struct HoldArgs {
    /// Lease: how long the lock outlives a holder that died or lost its connection. Default: 30, or
    /// the store's longest lease if that is shorter
    #[arg(long, value_name = "SECS")]
    #[arg(value_parser = lease, allow_negative_numbers = true)]
    pub(crate) lease: Option<Duration>,

    /// Reason, shown to others beside the holder's name
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
}

/// For how long a lock is held, at most and at least.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct HoldTimes {
    /// End the command when it has held the lock for this long; exit code 76
    #[arg(long, value_name = "SECS", value_parser = max_hold, allow_negative_numbers = true)]
    pub(crate) max_hold: Option<Duration>,

    /// Keep others from the lock for at least SECS from its grant, even if the command ends sooner
    ///
    /// So a job that takes two seconds runs once, though cron starts it on several machines whose clocks
    /// differ by more. It also holds if this program is killed. It is at most the store's longest lease.
    #[arg(long, value_name = "SECS", value_parser = span, allow_negative_numbers = true)]
    at_least: Option<Duration>,
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
    times: HoldTimes,
    signals: &mut Signals,
) -> Result<Guard, ExitFailure> {
    if ask.would_wait_for_itself() {
        return Err(waits_for_itself(&ask.lock));
    }
    let reporter = ask.wait.reporter(locks, &ask.lock);
    let failure = match reporter.wait(ask.acquire(locks, times, *waited), signals).await? {
        Ok(guard) => return Ok(guard),
        Err(Error::Timeout { .. }) => {
            let unknown = if ask.pool { "is a pool without members" } else { "was not free" };
            ask.wait.not_free(locks, &ask.lock, unknown).await
        }
        Err(error) => failure(error),
    };
    Err(failure.not_acquired_as(ask.wait.conflict_exit_code))
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
        Kind::Once => {
            return ExitFailure::usage(format_args!(
                "lock {lock} is work for `taketurns once`: choose another name, or make the store forget \
                 it with `taketurns undo`"
            ));
        }
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

pub(crate) fn wait_limit(text: &str) -> Result<Duration, String> {
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
