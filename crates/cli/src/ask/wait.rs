//! How long a command waits for a lock, what it reports meanwhile on stderr, and how it leaves the queue on a signal.

use std::time::Duration;

use taketurns::{Locks, Name};
use tokio::time::timeout;

use crate::exit::{self, ExitFailure};
use crate::signals::Signals;
use crate::status;
use crate::store::LoadingOptions;
use crate::warnings::SilentWait;

/// How long to ask for the holder's name, for the message that the lock is not free.
const HOLDER_ASK_MAX: Duration = Duration::from_secs(1);

/// The arguments of commands that wait, with a limit or without.
#[derive(Debug, clap::Args)]
pub(crate) struct WaitArgs {
    /// Don't wait: exit with code 75 if the lock is not free
    #[arg(short = 'n', long, visible_alias = "nb", conflicts_with = "wait")]
    pub(crate) nonblock: bool,

    /// Give up after SECS seconds, with code 75; 0 is the same as -n
    ///
    /// Fractions are allowed. The limit includes the time that a server needs to load its data after a
    /// restart.
    #[arg(short, long, visible_alias = "timeout", value_name = "SECS")]
    #[arg(value_parser = super::wait_limit, allow_negative_numbers = true)]
    pub(crate) wait: Option<Duration>,

    /// Exit code if the lock was not acquired
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = exit::NOT_ACQUIRED)]
    #[arg(value_parser = super::exit_code, allow_negative_numbers = true)]
    pub(crate) conflict_exit_code: u8,

    /// Report the holder on stderr while waiting, even without a terminal
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

impl WaitArgs {
    /// How the program waits for a server that is loading its data.
    pub(crate) fn loading(&self) -> LoadingOptions {
        LoadingOptions { within: self.limit(), verbose: self.verbose }
    }

    /// Returns the limit on the whole wait, or `None` if there is none.
    fn limit(&self) -> Option<Duration> {
        if self.nonblock { Some(Duration::ZERO) } else { self.wait }
    }

    /// Returns what is left of the limit after a wait of this length.
    pub(crate) fn left(&self, waited: Duration) -> Option<Duration> {
        self.limit().map(|limit| limit.saturating_sub(waited))
    }

    pub(crate) fn is_endless(&self) -> bool {
        self.limit().is_none()
    }

    pub(crate) fn reporter<'a>(&self, locks: &'a Locks, lock: &'a Name) -> WaitReporter<'a> {
        // With -n or -w, giving up says why.
        WaitReporter { locks, lock, verbose: self.verbose, endless: self.is_endless() }
    }

    /// `lock import is held by web-2:2051 sleep (nightly) for 12s; not waiting (-n)`. The lock `unknown` if the store
    /// knows nothing of it.
    pub(crate) async fn not_free(&self, locks: &Locks, lock: &Name, unknown: &str) -> ExitFailure {
        let state = match timeout(HOLDER_ASK_MAX, locks.inspect(lock.as_str())).await {
            Ok(Ok(Some(view))) => status::state(&view),
            Ok(Ok(None)) => unknown.to_owned(),
            _ => "was not free".to_owned(),
        };
        let given_up = match self.wait {
            None => "not waiting (-n)".to_owned(),
            Some(Duration::ZERO) => "not waiting (-w 0)".to_owned(),
            Some(limit) => format!("gave up after {limit:?} (-w)"),
        };
        let message = format_args!("lock {lock} {state}; {given_up}");
        ExitFailure::new(exit::NOT_ACQUIRED, message)
    }
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
