//! `taketurns top`: all locks of a store, live in a terminal.

use std::env;
use std::io::{self, IsTerminal};
use std::time::Duration;

use crate::exit::ExitFailure;
use crate::store;
use crate::top::{self, TopOptions};
use crate::watch::again;

/// Watch the locks live: who holds what, for how long, and who waits; busiest first
///
/// Press ? for the keys: open a lock with its queue, filter, sort, pause, and break a lock. It looks
/// once a second; at most a tenth of the time is spent on it, so a store with very many locks is looked
/// at less often. Looking changes nothing. HELD is that of whoever has held longest, LEFT the least that
/// is left without a renewal, in red if renewals are overdue.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only locks whose name matches: * stands for any characters, ? for one
    #[arg(default_value = "*")]
    pattern: String,

    /// How often to look, in seconds
    #[arg(long, value_name = "SECS", value_parser = again::every, default_value = "1")]
    #[arg(allow_negative_numbers = true)]
    every: Duration,
}

pub(crate) async fn run(store: Option<&str>, args: Args) -> Result<u8, ExitFailure> {
    let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
    if dumb || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(ExitFailure::usage(
            "top needs a terminal that it can draw on, for input and output; elsewhere use `taketurns \
             ls --watch` or `taketurns ls --json`",
        ));
    }
    let locks = store::open(store).await?;
    let Args { pattern, every } = args;
    top::run(locks, TopOptions { store: store::public(store), pattern, every }).await
}
