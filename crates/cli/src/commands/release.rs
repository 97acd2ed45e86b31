//! `taketurns release`: releases a lock that `acquire` acquired.

use serde::Serialize;
use taketurns::{Name, Token};

use super::handle;
use crate::exit::{self, ExitFailure};
use crate::output;
use crate::store;

/// Release an acquired lock
///
/// Reads the handle from TAKETURNS_HANDLE, or from stdin. Exits with 76 if the lock was no longer held:
/// another process may have held it in the meantime.
#[derive(Debug, clap::Args)]
#[command(after_help = exit::help())]
pub(crate) struct Args {
    /// Print a JSON document: lock, token
    #[arg(long)]
    json: bool,
}

/// What `release --json` prints.
#[derive(Serialize)]
struct ReleaseJson<'a> {
    /// The lock's name.
    lock: &'a Name,
    /// The fencing token of the hold that ended; null only from a store that has none.
    token: Option<Token>,
}

pub(crate) async fn run(store: Option<&str>, args: Args) -> Result<u8, ExitFailure> {
    let handle = handle()?;
    let locks = store::open(store).await?;
    let released = locks.release(&handle).await;
    store::close(locks).await;
    released?;
    if args.json {
        output::json(&ReleaseJson { lock: handle.name(), token: handle.token().fenced() })?;
    }
    Ok(0)
}
