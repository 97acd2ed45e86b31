//! `taketurns top`: shows all locks of a store live in a terminal.

use std::env;
use std::io::{self, IsTerminal};
use std::time::Duration;

use crate::exit::ExitFailure;
use crate::store;
use crate::top::{self, TopOptions};
use crate::watch::again;

/// Watch the locks live in the terminal: holders, hold times and waiters; busiest first
///
/// Press ? for the keys: open a lock with its queue, filter, sort, pause, and break a lock. HELD is the
/// longest time that a present holder has held the lock. LEFT is the shortest remaining lease, in red if
/// a renewal is overdue.
///
/// top polls the store once a second. A store with very many locks is polled less often, so that polling
/// takes at most a tenth of the time. Polling changes nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only locks whose name matches: * matches any characters, ? matches one
    #[arg(default_value = "*")]
    pattern: String,

    /// Poll interval in seconds
    #[arg(long, value_name = "SECS", value_parser = again::every, default_value = "1")]
    #[arg(allow_negative_numbers = true)]
    every: Duration,
}

pub(crate) async fn run(store: Option<&str>, args: Args) -> Result<u8, ExitFailure> {
    let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
    if dumb || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(ExitFailure::usage(
            "top needs a terminal for input and output; without one use `taketurns ls --watch` or \
             `taketurns ls --json`",
        ));
    }
    let locks = store::open(store).await?;
    let Args { pattern, every } = args;
    top::run(locks, TopOptions { store: store::public(store), pattern, every }).await
}
